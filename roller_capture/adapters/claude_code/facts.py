"""The small facts that are kept of each native record: ids, places and words, never contents.

A `Thread` is what one executor wrote (or another wrote about it) in one native file.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """One line of one native file. Lines count from 1."""

    source: str
    line: int

    def evidence(self, label: str, identifier: str | None, kind: EvidenceKind = EvidenceKind.NATIVE_RECORD) -> Evidence:
        """Evidence that this line holds `identifier`, an id of the sort that `label` names."""
        locator = f"line:{self.line}"
        if identifier is not None and is_locatable(identifier):
            locator += f" {label}:{identifier}"
        return Evidence(kind, self.source, locator)


@dataclass(slots=True)
class Output:
    """One model output, by its provider id. `uuid` is that of its first record; `made_by` the harness's own id of the
    HTTP attempt or the provider's request id, where the record has one."""

    place: Place
    uuid: str | None
    made_by: str | None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call in a model output. `target` is the agent or task that its input names, where it names one."""

    tool_id: str
    name: str | None
    output_id: str | None
    uuid: str | None
    target: str | None
    place: Place


class ResultKind(Enum):
    """What a tool result says about an agent."""

    COMPLETED = "completed"  # the final result of a delegation
    LAUNCHED = "launched"  # the acknowledgement of a background launch
    RESUMED = "resumed"  # the acknowledgement of a new delegation to an agent that had ended
    RETRIEVED = "retrieved"  # the final result, fetched by another tool call
    ERROR = "error"
    REJECTED = "rejected"  # the tool call was refused from outside
    INTERRUPTED = "interrupted"  # the run was cut while the tool call ran (2.1.197 writes a result then)
    OTHER_STATUS = "other_status"  # an agent is named, with a status that we do not know
    PLAIN = "plain"  # nothing about an agent


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool result as recorded. `structured` tells that the harness's own `toolUseResult` names the agent; without
    it, `agent_id` was read from the harness's part of the result text and proves nothing alone."""

    tool_id: str
    kind: ResultKind
    agent_id: str | None
    structured: bool
    status: str | None
    source_uuid: str | None
    place: Place


@dataclass(slots=True)
class Notification:
    """An automatic message that an agent has ended, as the receiver's log holds it.

    `first_response` is the id of the first model output that descends from it and `response_place` its record; `None`
    while there is none. `delivered` is false where it was only queued. `text` is the whole message: the request holds
    it unchanged inside the harness's own wrapping, so what merely quotes its ids is not taken for it.
    """

    agent_id: str
    tool_id: str | None
    status: str | None
    place: Place
    uuid: str | None
    delivered: bool = True
    text: str = ""
    first_response: str | None = None
    response_place: Place | None = None
    contradicted: bool = False
    """Another record with its uuid says something else: neither is believed."""

    def says_the_same(self, other: "Notification") -> bool:
        """Whether another record is a copy of this one."""
        return (self.agent_id, self.tool_id, self.text) == (other.agent_id, other.tool_id, other.text)


class EndState(Enum):
    """Where a turn of an executor stood."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended and the record that shows it. `word` is the stop reason or the API error, in one word;
    `None` where the record of an ended turn gives no stop reason (versions before 2.1.4x)."""

    state: EndState
    place: Place
    identifier: str | None
    word: str | None


@dataclass(frozen=True, slots=True)
class AgentLink:
    """A record that names both an agent and the tool call that launched it."""

    agent_id: str
    tool_id: str
    place: Place


@dataclass(slots=True)
class Thread:
    """Facts about one executor from one file, or, after merging, from all files."""

    first_place: Place | None = None
    id_place: Place | None = None
    """The first record that spells the executor's own id."""
    outputs: dict[str, Output] = field(default_factory=dict)
    nameless_outputs: dict[str, Place] = field(default_factory=dict)
    """Model outputs without a provider id, by what made them."""
    tool_uses: dict[str, ToolUse] = field(default_factory=dict)
    repeated_tool_ids: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)
    contradicted_results: set[str] = field(default_factory=set)
    """Tool ids with two results that say different things: neither is believed."""
    notifications: list[Notification] = field(default_factory=list)
    queue_length: int = 0
    """How many messages more the log puts into the queue than it takes out (which ones, it does not always say)."""
    links: list[AgentLink] = field(default_factory=list)
    turn_ends: list[TurnEnd] = field(default_factory=list)
    begins_with_reference: bool = False
    """The first record of an agent's file is the harness's own reference to the context that a fork goes on from."""
    versions: Counter[str] = field(default_factory=Counter)

    def add_output(self, identifier: str, output: Output) -> bool:
        """Notes an output once; false when the same id was made by another HTTP call before."""
        known = self.outputs.setdefault(identifier, output)
        return known.made_by == output.made_by or None in (known.made_by, output.made_by)

    def add_tool_use(self, use: ToolUse) -> None:
        """Notes a tool call; an id that stands in two outputs is remembered as not unique."""
        known = self.tool_uses.setdefault(use.tool_id, use)
        if known.output_id != use.output_id or (use.output_id is None and known.uuid != use.uuid):
            self.repeated_tool_ids.add(use.tool_id)

    def add_result(self, result: ToolResult) -> bool:
        """Notes a tool result; false when the same tool id has a result that says something else."""
        known = self.results.setdefault(result.tool_id, result)
        agrees = (known.kind, known.agent_id) == (result.kind, result.agent_id)
        if not agrees:
            self.contradicted_results.add(result.tool_id)
        return agrees

    def absorb(self, other: "Thread", *, turns: bool) -> None:
        """Adds what another file holds about the same executor; with `turns`, its turns replace those known."""
        self.first_place = self.first_place or other.first_place
        self.id_place = self.id_place or other.id_place
        for identifier, output in other.outputs.items():
            self.add_output(identifier, output)
        for use in other.tool_uses.values():
            self.add_tool_use(use)
        self.repeated_tool_ids |= other.repeated_tool_ids
        for tool_id, result in other.results.items():
            self.results.setdefault(tool_id, result)
        self.contradicted_results |= other.contradicted_results
        self.nameless_outputs.update(other.nameless_outputs)
        self._absorb_notifications(other.notifications)
        self.queue_length += other.queue_length
        self.links += other.links
        self.begins_with_reference |= other.begins_with_reference
        self.versions += other.versions
        if turns and other.turn_ends:
            self.turn_ends = other.turn_ends

    def _absorb_notifications(self, others: list[Notification]) -> None:
        """A copied record (same uuid) counts once, and the copy that was answered counts."""
        by_uuid = {item.uuid: index for index, item in enumerate(self.notifications) if item.uuid is not None}
        for item in others:
            index = by_uuid.get(item.uuid) if item.uuid is not None else None
            if index is None:
                self.notifications.append(item)
                continue
            known = self.notifications[index]
            contradicted = known.contradicted or item.contradicted or not known.says_the_same(item)
            if known.first_response is None:
                self.notifications[index] = item
            self.notifications[index].contradicted = contradicted
