"""The small facts that are kept of a rollout: ids, places, words and digests of texts; whole texts only of results
that were delivered as messages, since the request has to be searched for them.

A `Rollout` is what one thread's file says of that thread: what a fork copied from its parent is left out.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeGuard

from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """One line of one rollout. Lines count from 1."""

    source: str
    line: int

    def evidence(self, label: str, identifier: str | None, kind: EvidenceKind = EvidenceKind.NATIVE_RECORD) -> Evidence:
        """Evidence that this line holds `identifier`, an id of the sort that `label` names."""
        locator = f"line:{self.line}"
        if identifier is not None and is_locatable(identifier):
            locator += f" {label}:{identifier}"
        return Evidence(kind, self.source, locator)


class Side(Enum):
    """Threads that the harness starts by itself, which no tool call delegates to."""

    REVIEW = "review"
    GUARDIAN = "guardian"
    OTHER = "other"  # compaction, memory and whatever a version may add


@dataclass(frozen=True, slots=True)
class SessionMeta:
    """The first line of a rollout.

    `side` is `None` for a root and for a child that a tool call launched. `history_start` is the ordinal of the first
    record that is the thread's own, where the harness says that it copied the ones before.
    """

    thread_id: str
    parent_id: str | None
    session_id: str | None
    forked_from_id: str | None
    is_subagent: bool
    side: Side | None
    agent_path: str | None
    version: str | None
    history_start: int | None


class EndState(Enum):
    """Where a turn stands."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Turn:
    """One turn of a thread. `message` is the digest of its last answer, or of the error that ended it; `word` says in
    one word why it ended as it did."""

    turn_id: str | None
    place: Place
    state: EndState = EndState.RUNNING
    message: str | None = None
    word: str | None = None


def has_ended(turn: Turn | None) -> TypeGuard[Turn]:
    """Whether a turn is known that came to an end of its own, good or bad."""
    return turn is not None and turn.state in (EndState.ENDED, EndState.FAILED)


@dataclass(frozen=True, slots=True)
class Usage:
    """A response that ended, by its provider id."""

    response_id: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a multi-agent tool, as the model made it."""

    call_id: str
    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool call returned, if it is a JSON object (else empty)."""

    call_id: str
    value: Mapping[str, object]
    place: Place


@dataclass(frozen=True, slots=True)
class AgentState:
    """What the harness says of a child: the word (`completed`, `errored`, …) and the digest of the text with it."""

    word: str
    message: str | None

    @property
    def is_final(self) -> bool:
        """Whether it brings the result of a delegation, good or bad."""
        return self.word in ("completed", "errored")


@dataclass(frozen=True, slots=True)
class CollabCall:
    """The harness's own record of a multi-agent tool call (v1, and waits of v2)."""

    call_id: str
    tool: str
    succeeded: bool
    sender: str | None
    receivers: tuple[str, ...]
    states: Mapping[str, AgentState]
    place: Place


@dataclass(frozen=True, slots=True)
class Activity:
    """The harness's own record of what happened to a child (v2). `call_id` is the tool call's for what a tool did."""

    call_id: str
    kind: str
    thread_id: str
    agent_path: str | None
    place: Place


@dataclass(slots=True)
class Message:
    """A result that reached a thread as an item of its conversation.

    `about` names the child, by thread id (v1) or path (v2); `text` is the whole text of the item's first part.
    `answered_by` is the id of the first response of the thread after it, `None` while there is none.
    """

    item_id: str
    about: str
    state: AgentState
    text: str
    place: Place
    answered_by: str | None = None


@dataclass(slots=True)
class Rollout:
    """Facts about one thread from its file."""

    meta: SessionMeta
    source: str
    turns: list[Turn] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    token_counts: list[Place] = field(default_factory=list)
    """Updates of the token count that changed it."""
    compactions: dict[str, Place] = field(default_factory=dict)
    """Responses that summed the thread up, by their ids."""
    tool_calls: dict[str, ToolCall] = field(default_factory=dict)
    repeated_calls: set[str] = field(default_factory=set)
    """Call ids that stand for two calls: neither is believed."""
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    collab_calls: dict[str, CollabCall] = field(default_factory=dict)
    activities: list[Activity] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    """The paths of those who gave tasks to this thread by messages (v2), by the turn that each message stands in."""
    versions: Counter[str] = field(default_factory=Counter)
    is_unknown_fork: bool = False
    """It begins with a copy of which nothing tells the end, so nothing in it is known to be the thread's own."""
    has_stray_end: bool = False
    """A turn ends in it that did not begin, so its turns do not tell how its tasks ended."""

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.meta.thread_id

    @property
    def path(self) -> str:
        """The thread's path among the agents of its session (v2)."""
        return self.meta.agent_path or "/root"

    def evidence(self, kind: EvidenceKind = EvidenceKind.NATIVE_METADATA) -> Evidence:
        """The first line, which names the thread."""
        return Place(self.source, 1).evidence("thread", self.thread_id, kind)


def digest(text: str) -> str:
    """Stands for a text where only equality counts."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
