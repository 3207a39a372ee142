"""What is kept of a line of either extract: ids, places and a few words, and no text of a conversation."""

from dataclasses import dataclass, field

from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """A line of an extract, from 1."""

    source: str
    line: int

    def evidence(self, kind: EvidenceKind, what: str, identifier: str) -> Evidence:
        """Evidence at this line; `what` names the id that stands on it."""
        named = f" {what}:{identifier}" if is_locatable(identifier) else ""
        return Evidence(kind, self.source, f"line:{self.line}{named}")


@dataclass(frozen=True, slots=True)
class Session:
    """A row of `sessions`. `delegated_from` is Hermes's own mark of a subagent's parent."""

    session_id: str
    source: str | None
    parent_id: str | None
    delegated_from: str | None
    end_reason: str | None
    place: Place

    @property
    def is_marked_child(self) -> bool:
        """Whether Hermes itself says that a delegation made it."""
        return self.source == "subagent" or self.delegated_from is not None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call in an assistant's row."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class ChildResult:
    """One child's part of a delegation's result."""

    status: str | None
    exit_reason: str | None


@dataclass(frozen=True, slots=True)
class DelegationResult:
    """The tool row of a delegation: the children's parts by task index (`None` where the index is not unique), or the
    id under which a background delegation was dispatched, or neither where it was refused."""

    children: dict[int, ChildResult | None]
    dispatched_as: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Background:
    """A row of `async_delegations`."""

    state: str | None
    delivery_state: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class LastRow:
    """The newest message of a session."""

    role: str | None
    finish: str | None
    has_text: bool
    place: Place


@dataclass(slots=True)
class State:
    """What the database says, by session id; tool calls and results by session id and tool call id."""

    sessions: dict[str, Session] = field(default_factory=dict)
    uses: dict[tuple[str, str], list[ToolUse]] = field(default_factory=dict)
    results: dict[tuple[str, str], list[DelegationResult]] = field(default_factory=dict)
    notices: dict[tuple[str, str], list[Place]] = field(default_factory=dict)
    """Rows by which a background delegation reports its end, by session id and delegation id."""
    background: dict[str, Background] = field(default_factory=dict)
    last_rows: dict[str, LastRow] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    """Sessions whose rows were partly written again by compaction."""


@dataclass(frozen=True, slots=True)
class ChildStart:
    """`subagent_start`, with the tool call that was being carried out."""

    session_id: str
    parent_session_id: str | None
    tool_call_id: str | None
    task_index: int | None
    place: Place


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a session. `delegation_id` is that of the background delegation whose end began it."""

    turn_id: str
    session_id: str
    delegation_id: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How Hermes says a turn ended. `session_id` is the one that it says it of."""

    session_id: str
    completed: bool
    interrupted: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Request:
    """A logical model request; its retries have the same id."""

    request_id: str
    session_id: str
    turn_id: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's provider response id."""

    response_id: str
    request_id: str
    session_id: str
    place: Place


@dataclass(frozen=True, slots=True)
class RequestError:
    """A failed attempt at a request, in Hermes's own word."""

    reason: str | None
    place: Place


@dataclass(slots=True)
class PluginLog:
    """What our plugin saw, in the order in which it was written."""

    versions: set[str] = field(default_factory=set)
    hook: Place | None = None
    children: list[ChildStart] = field(default_factory=list)
    child_ends: dict[str, Place] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    turn_ends: dict[str, TurnEnd] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    outputs: dict[str, Request] = field(default_factory=dict)
    """Requests that were answered, by request id."""
    errors: dict[str, list[RequestError]] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
