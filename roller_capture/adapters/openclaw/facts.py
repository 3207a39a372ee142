"""What one home tells, in plain values: each with the place where it stands."""

from dataclasses import dataclass, field

from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """A line of an extract, counted from 1."""

    source: str
    line: int

    def evidence(self, kind: str = "", identifier: str | None = None) -> Evidence:
        """Evidence that points here; the id is named where a locator can hold it as it stands."""
        named = identifier is not None and is_locatable(identifier)
        locator = f"line:{self.line} {kind}:{identifier}" if kind and named else f"line:{self.line}"
        return Evidence(EvidenceKind.NATIVE_RECORD, self.source, locator)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in an assistant message; `position` counts the tool calls of the message from 0."""

    tool_id: str
    name: str | None
    position: int


@dataclass(slots=True)
class Answer:
    """An assistant message. `response_id` is the provider's; a failed one has none. `is_copy`: a fork has it from the
    session that it was forked from."""

    entry_id: str | None
    run_id: str | None
    response_id: str | None
    stop_reason: str | None
    is_output: bool
    """A model said it: not a failure, and not written by the gateway itself."""
    tool_calls: tuple[ToolCall, ...]
    place: Place
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool result that names another session. `owes_announcement`: it says that an answer is to come by itself;
    `sent_before_error`: that the message had reached its session before what went wrong."""

    tool_id: str
    tool_name: str | None
    status: str | None
    session_key: str | None
    run_id: str | None
    task_run_id: str | None
    is_error: bool
    place: Place
    owes_announcement: bool = False
    sent_before_error: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """A user message that a run began with, or that was put into one: `key` names that run, `source_key` the session
    that it came from, `source_tool` what it was sent by."""

    entry_id: str | None
    key: str
    text: str
    place: Place
    source_key: str | None = None
    source_tool: str | None = None


@dataclass(slots=True)
class Thread:
    """The transcript of one session. `parents` maps entry ids to those of their predecessors; `cancelled` are the tasks
    that its tool calls stopped; `runs` has each run's first place, `compactions` the runs in which it was summed up."""

    session_id: str
    answers: list[Answer] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    runs: dict[str, Place] = field(default_factory=dict)
    compactions: dict[str, Place] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    entries: int = 0


@dataclass(slots=True)
class Session:
    """One session key: a participant, which may have had several session ids, one after the other.

    `spawned_by` holds every parent that a row names; more than one is a contradiction.
    """

    key: str
    session_ids: dict[str, None] = field(default_factory=dict)
    spawned_by: dict[str, None] = field(default_factory=dict)
    created_via: str | None = None
    status: str | None = None
    fork_source: str | None = None
    node: Place | None = None
    place: Place | None = None
    threads: list[Thread] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A row of the registry of subtasks. `task_run_id` is the id that the spawn returned; `run_id` may be another one
    since a run that yields is entered anew under the id of the announcement that woke it."""

    run_id: str
    task_run_id: str
    child_key: str
    requester_key: str
    execution: str | None
    outcome: str | None
    ended_reason: str | None
    delivery: str | None
    expects_delivery: bool
    result_text: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the table of tasks, which keeps the run id of the spawn."""

    task_id: str | None
    run_id: str
    runtime: str | None
    status: str | None
    session_key: str | None
    place: Place


@dataclass(slots=True)
class HookFacts:
    """What our plugin noted: stream contexts by session, and tool ids as the native resolver had them sent.

    `resolved` maps (session id, response id, position of the tool call in that message) to the ids that stood for it.
    """

    streams: dict[str, int] = field(default_factory=dict)
    resolved: dict[tuple[str, str, int], dict[str, None]] = field(default_factory=dict)

    def resolved_in(self, session: Session, response_id: str, position: int) -> dict[str, None]:
        """The ids that stood for a tool call in requests of a session."""
        found: dict[str, None] = {}
        for session_id in session.session_ids:
            found |= self.resolved.get((session_id, response_id, position), {})
        return found

    def is_shared(self, session: Session, wire_id: str) -> bool:
        """Whether an id stood for two tool calls in requests of a session: to be sent, ids lose their punctuation."""
        uses = (ids for (session_id, *_), ids in self.resolved.items() if session_id in session.session_ids)
        return sum(wire_id in map(sent_id, ids) for ids in uses) > 1


def sent_id(resolved: str) -> str:
    """What requests hold of a resolved id: what the Responses endpoint calls the call's id stands before the bar, the
    item's id behind it is not sent."""
    return resolved.partition("|")[0]


@dataclass(slots=True)
class Home:
    """Everything that was read. `registry_read` is false where there was no registry; of the children in `contradicted`
    a row of it and its own payload say different things."""

    sessions: dict[str, Session] = field(default_factory=dict)
    runs: list[ChildRun] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    hook: HookFacts | None = None
    agents_read: int = 0
    registry_read: bool = False
    contradicted: set[str] = field(default_factory=set)
