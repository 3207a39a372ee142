"""What is kept of the session logs: ids, places and a few words, never the conversation.

Two exceptions are texts that the finalizer has to find in requests: system prompts, by which the harness's own records
tell an agent's call from one that makes up a title, and the harness's notices.
"""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a log. `seq` is the harness's own number of the event (-1: the header)."""

    source: str
    line: int
    seq: int = -1

    def evidence(self, word: str, identifier: str | None, kind: EvidenceKind = EvidenceKind.NATIVE_RECORD) -> Evidence:
        """This line as evidence, naming the id that stands on it where it can be named."""
        named = identifier is not None and is_locatable(identifier)
        return Evidence(kind, self.source, f"line:{self.line}" + (f" {word}:{identifier}" if named else ""))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `agent_id` is the agent that its arguments address, `output_id` the provider's id of the response
    that holds it, where the log has one."""

    tool_id: str
    name: str
    place: Place
    agent_id: str | None = None
    output_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result; `agent_id` and `word` are those of the harness's own sentence, where it is one."""

    place: Place
    is_error: bool
    word: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A completed model call of an agent. `message_id` is the harness's own id; `response_id` the provider's, which the
    log has only of calls through the providers that are not the harness's own; `request_seq` the last event that its
    request brought along, which the log has only of the harness's own."""

    place: Place
    message_id: str | None
    response_id: str | None
    request_seq: int | None = None


@dataclass(frozen=True, slots=True)
class SideOutput:
    """A completed call for a title or a compaction; `request_seq` as in `Output`."""

    place: Place
    request_seq: int | None


@dataclass(frozen=True, slots=True)
class Catalog:
    """The record that a child was made."""

    child_id: str
    place: Place


@dataclass(slots=True)
class WorkflowAgent:
    """An agent of a workflow run; `end` is where its end stands, with the harness's word for it."""

    child_id: str
    index: int
    start: Place
    end: Place | None = None
    outcome: str | None = None


@dataclass(slots=True)
class WorkflowRun:
    """One run of a workflow script."""

    run_id: str
    start: Place
    agents: dict[int, WorkflowAgent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notice:
    """The harness's message that a child has settled.

    `word` says how (`finished`, `failed`, `stopped`), `texts` are its blocks, `message_id` its own id. `arrived` is the
    event by which it came in, which can be long before the agent reads it; `read` that of its reading, or `None`.
    """

    sender_id: str
    message_id: str
    word: str | None
    texts: tuple[str, ...]
    arrived: Place
    read: Place | None = None
    accepted_before: int = -1
    """The last event that the provider had accepted when it was read: the request that brings it begins behind that."""
    answered_by: str | None = None
    """The provider's id of the first output after it, where the log has one."""


@dataclass(slots=True)
class Turn:
    """A turn of an agent; `end` is `None` while it runs. `reason` is the harness's word, `detail` that of an error."""

    start: Place
    end: Place | None = None
    reason: str | None = None
    detail: str | None = None
    is_resumption: bool = False
    """It began with a message of the parent that came when the agent was idle."""


@dataclass(slots=True)
class Session:
    """One session: an executor. `path` is where its log is; `parent_id` what its header says."""

    session_id: str
    path: PurePosixPath
    header: Place
    parent_id: str | None
    is_seeded: bool = False
    calls: dict[str, ToolCall] = field(default_factory=dict)
    results: dict[str, ToolResult] = field(default_factory=dict)
    repeated_tool_ids: set[str] = field(default_factory=set)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    runs: dict[str, WorkflowRun] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    side_outputs: list[SideOutput] = field(default_factory=list)
    compactions: list[Place] = field(default_factory=list)
    system_texts: dict[str, Place] = field(default_factory=dict)
    title_systems: dict[str, Place] = field(default_factory=dict)
    tools: set[str] | None = None
    """Names of the tools that its requests offered, or `None` when no record tells."""
