"""People's own agents: who made a call is what they say in `x-roller-*` headers (docs/harnesses/generic.md).

An agent may also keep a small log of its own, `roller-events.jsonl`: outputs, ends and deliveries. Without it coverage
is unknown, and nothing has ended or was delivered. What headers and log say of one agent must agree; where it does not,
there is no relation. Order and time prove nothing, so that several delegations of one child are only numbered by them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, TypeVar

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import NativeLine, read_lines
from roller_capture.adapters.native_values import as_id, as_text, as_word, is_locatable
from roller_capture.capture_protocol import (
    AdapterInput,
    ContextProbe,
    Delivery,
    Evidence,
    IdentityClaim,
    NativeCapture,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    NativeParticipant,
    NativeRelation,
    NotificationItem,
    PurposeClaim,
    ToolResultItem,
)
from roller_capture.vocabulary import (
    AttemptErrorCode,
    BoundBy,
    CoverageStrength,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    LifecycleStatus,
    Purpose,
    RelationType,
    Role,
    SubtaskSupport,
)

LOG_NAME: Final = "roller-events.jsonl"
SESSION: Final = "x-roller-session"
PARENT: Final = "x-roller-parent-session"
DELEGATION: Final = "x-roller-delegation-tool-id"
RUN: Final = "x-roller-run-id"
PURPOSE: Final = "x-roller-purpose"

_IDENTITY_FIELDS: Final = (
    NativeIdentityField(SESSION, "session_id", exclusive=False),
    NativeIdentityField(PARENT, "parent_session_id", exclusive=False),
    NativeIdentityField(RUN, "run_id", exclusive=False),
)
_RESPONSE_ID: Final = "response_id"
_EVENTS_SOURCE: Final = "events.jsonl"
_ENDS: Final = {word.value: word for word in ExecutionStatus if word is not ExecutionStatus.UNKNOWN}
_PURPOSES: Final = {word.value: word for word in Purpose}


@dataclass(frozen=True, slots=True)
class _Ending:
    status: ExecutionStatus
    outcome: str | None
    tool_id: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Return:
    """What the log says came back of a delegation: its result, or with `launched` the acknowledgement of a launch."""

    launched: bool
    tool_id: str | None
    to: str | None
    run_id: str | None
    text: str | None
    evidence: Evidence


_Event = TypeVar("_Event", _Ending, _Return)


@dataclass(slots=True)
class _Agent:
    """One agent, by the name that it gives itself. Evidence is that of the first mention."""

    session: str
    first: Evidence
    in_header: Evidence | None = None
    parents: dict[str, Evidence] = field(default_factory=dict)
    delegations: dict[str, Evidence] = field(default_factory=dict)
    outputs: list[tuple[str | None, Purpose, Evidence]] = field(default_factory=list)
    endings: list[_Ending] = field(default_factory=list)
    returns: list[_Return] = field(default_factory=list)
    parent: str | None = None
    """Set when the parent is known, and only one."""
    doubtful: bool = False
    """Whether something is said of its delegations that does not fit."""

    def by_delegation(self, events: Iterable[_Event]) -> dict[str | None, list[_Event]]:
        """Events by the delegation that they are about: the one that they name, else the only one; `None` where that
        is none of the agent's."""
        only = next(iter(self.delegations)) if len(self.delegations) == 1 else None
        found: dict[str | None, list[_Event]] = {}
        for event in events:
            about = only if event.tool_id is None else event.tool_id
            found.setdefault(about if about in self.delegations else None, []).append(event)
        return found

    @property
    def has_ended(self) -> bool:
        """Whether the log tells an end, and one end of each delegation that there was."""
        ends = self.by_delegation(self.endings)
        return bool(self.endings) and all(len(_told(ends.get(tool_id, ()))) == 1 for tool_id in self.delegations)

    @property
    def status(self) -> ExecutionStatus:
        """How it ended: of several delegations, the one that it was given last."""
        if not self.has_ended:
            return ExecutionStatus.UNKNOWN
        last = next(reversed(self.delegations), None)
        return (self.endings if last is None else self.by_delegation(self.endings)[last])[-1].status


def _told(endings: Iterable[_Ending]) -> set[tuple[ExecutionStatus, str | None]]:
    return {(ending.status, ending.outcome) for ending in endings}


class _Agents:
    """All agents of the attempt, from headers and log."""

    def __init__(self, gaps: GapLog) -> None:
        self.by_session: dict[str, _Agent] = {}
        self.log_read = False
        self.version: str | None = None
        self._gaps = gaps

    def read_wire(self, source: AdapterInput) -> None:
        """Takes the headers of each call together. One with two values, or no usable one, says nothing."""
        for call in source.wire_calls:
            values = {name: set(call.headers.get(name, ())) for name in (SESSION, PARENT, DELEGATION)}
            usable = {name: as_id(next(iter(found))) if len(found) == 1 else None for name, found in values.items()}
            if any(values[name] and usable[name] is None for name in values):
                reason = "a call has two values of one header, or one that is no id"
                self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=_EVENTS_SOURCE, line=call.line)
            session = usable[SESSION]
            if session is not None:
                evidence = _evidence(EvidenceKind.ROLLER_HEADER, _EVENTS_SOURCE, call.line, session)
                agent = self._agent(session, evidence)
                agent.in_header = agent.in_header or evidence
                self._note_origin(agent, usable[PARENT], usable[DELEGATION], call.line, evidence)

    def read_log(self, tree: NativeTree) -> None:
        """Takes the log's events, where there is a log."""
        with tree.open(PurePosixPath(LOG_NAME)) as stream:
            if stream is None:
                return
            self.log_read = True
            try:
                for line in read_lines(stream):
                    self._take(line)
            except OSError as error:
                self._gaps.add(
                    AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"cannot be read on: {error.strerror}", source=LOG_NAME
                )

    def _take(self, line: NativeLine) -> None:
        if line.problem is not None:
            reason = f"a line {line.problem.value}"
            self._gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=LOG_NAME, line=line.number)
            return
        record = line.record
        kind, session = as_text(record.get("event")), as_id(record.get("session"))
        if kind == "log":
            self.version = as_word(record.get("agent_version"))
        elif session is None or not self._event(kind, session, line):
            reason = "an event that is not in the documented form"
            self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=LOG_NAME, line=line.number)

    def _event(self, kind: str | None, session: str, line: NativeLine) -> bool:
        """Takes one event of an agent in; `False` when its form is not known."""
        record = line.record
        named = {name: as_id(record.get(name)) for name in ("parent", "delegation_tool_id", "to", "run_id")}
        unusable = any(named[name] is None and record.get(name) is not None for name in named)
        if unusable or kind not in ("session", "output", "ended", "acknowledged", "delivered"):
            return False
        evidence = _evidence(EvidenceKind.NATIVE_RECORD, LOG_NAME, line.number, session)
        agent = self._agent(session, evidence)
        tool_id = named["delegation_tool_id"]
        if kind == "session":
            self._note_origin(agent, named["parent"], tool_id, line.number, evidence)
        elif kind == "output":
            purpose = _PURPOSES.get(as_text(record.get("purpose", "agent")) or "")
            response_id = as_id(record.get("response_id"))
            if response_id is not None and any(response_id == known for known, *_ in agent.outputs):
                reason = "two outputs of one agent have the same id, so that one call could stand for both"
                self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=LOG_NAME, line=line.number)
            agent.outputs.append((response_id, purpose or Purpose.UNKNOWN, evidence))
            return purpose is not None
        elif kind == "ended":
            status = _ENDS.get(as_text(record.get("status")) or "")
            if status is None:
                return False
            agent.endings.append(_Ending(status, as_word(record.get("outcome")), tool_id, evidence))
        else:
            run_id, text = named["run_id"], as_text(record.get("text"))
            if (run_id is None) != (not text):
                return False
            agent.returns.append(_Return(kind == "acknowledged", tool_id, named["to"], run_id, text, evidence))
        return True

    def _agent(self, session: str, evidence: Evidence) -> _Agent:
        return self.by_session.setdefault(session, _Agent(session, evidence))

    def _note_origin(
        self, agent: _Agent, parent: str | None, tool_id: str | None, line: int, evidence: Evidence
    ) -> None:
        if parent is not None:
            agent.parents.setdefault(parent, evidence)
        if parent is None and tool_id is not None:
            self._unproven(agent, "names the tool call of a delegation and no parent", evidence.source, line)
        elif tool_id is not None:
            place = _evidence(evidence.kind, evidence.source, line, tool_id)
            agent.delegations.setdefault(tool_id, place)

    def settle_parents(self) -> None:
        """Who is whose child, where that is known: one parent, that is an agent of this attempt, and no circle."""
        for agent in self.by_session.values():
            named = list(agent.parents)
            if len(named) > 1:
                self._unproven(agent, f"names {len(named)} parents")
            elif named and named[0] not in self.by_session:
                self._unproven(agent, "names a parent that made no call and is in no log")
            elif named:
                agent.parent = named[0]
        for agent in [item for item in self.by_session.values() if self._is_own_ancestor(item)]:
            self._unproven(agent, "is among its own ancestors")
            agent.parent = None

    def _is_own_ancestor(self, agent: _Agent) -> bool:
        seen: set[str] = set()
        place = agent.parent
        while place is not None and place not in seen:
            seen.add(place)
            place = self.by_session[place].parent
        return agent.session in seen

    def _unproven(self, agent: _Agent, what: str, source: str | None = None, line: int | None = None) -> None:
        agent.doubtful = True
        reason = f"agent {agent.session} {what}"
        self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=source, line=line)


class _Relations:
    """Relations of all children, and what to look for in their receivers' requests."""

    def __init__(self, agents: Mapping[str, _Agent], gaps: GapLog) -> None:
        self.relations: list[NativeRelation] = []
        self.probes: list[ContextProbe] = []
        self.delivered: set[tuple[str, str]] = set()
        """Child and delegation of each result that came back."""
        self._agents = agents
        self._gaps = gaps
        self._claims = Counter(
            (agent.parent, tool_id)
            for agent in agents.values()
            if agent.parent is not None  # of several parents none has a relation
            for tool_id in agent.delegations
        )
        for agent in agents.values():
            if agent.parent is not None:
                self._of(agent, agent.parent)

    def _of(self, child: _Agent, parent: str) -> None:
        returns, endings = child.by_delegation(child.returns), child.by_delegation(child.endings)
        for item in (*returns.get(None, ()), *endings.get(None, ())):
            if child.delegations or item.tool_id is not None:
                self._unproven(child, f"an event of agent {child.session} names none of its delegations", item.evidence)
        for number, (tool_id, evidence) in enumerate(child.delegations.items(), 1):
            if self._claims[parent, tool_id] > 1:
                reason = "two agents say that the same tool call started them"
                self._unproven(child, reason, evidence, AttemptErrorCode.NATIVE_ID_NOT_UNIQUE)
                continue
            self.relations.append(
                NativeRelation(RelationType.SPAWN, parent, child.session, tool_id, (evidence,), delegation=number)
            )
            self._returns(child, parent, tool_id, returns.get(tool_id, []))
            self._endings(child, parent, tool_id, endings.get(tool_id, []))

    def _returns(self, child: _Agent, parent: str, tool_id: str, items: list[_Return]) -> None:
        """What came back of one delegation. The result of its tool call is one thing, and reached one agent."""
        by_result = [item for item in items if item.run_id is None]
        if len({(item.launched, item.to) for item in by_result}) > 1:
            reason = f"a tool result of agent {child.session} is said to be two things"
            self._unproven(child, reason, by_result[1].evidence)
            items = [item for item in items if item.run_id is not None]
        for item in {(item.launched, item.to, item.run_id, item.text): item for item in reversed(items)}.values():
            self._return(child, parent, tool_id, item)

    def _endings(self, child: _Agent, parent: str, tool_id: str, ends: list[_Ending]) -> None:
        """How one delegation ended, if the log says one thing of it."""
        if len(_told(ends)) > 1:
            reason = f"a delegation of agent {child.session} is said to have ended in two ways"
            self._unproven(child, reason, ends[1].evidence)
        elif ends and ends[0].status is not ExecutionStatus.INTERRUPTED:
            self._ending(child, parent, tool_id, ends[0])

    def _return(self, child: _Agent, parent: str, tool_id: str, item: _Return) -> None:
        if item.to is not None and item.to not in self._agents:
            reason = f"the result of agent {child.session} went to an agent that is not known"
            self._unproven(child, reason, item.evidence)
            return
        wanted: ToolResultItem | NotificationItem = ToolResultItem(tool_id)
        delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, tool_id)
        if item.run_id is not None and item.text:
            wanted = NotificationItem((item.text,), item.run_id, f"header:{RUN}")
            delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID, item.run_id)
        relation = NativeRelation(
            RelationType.LAUNCH_ACKNOWLEDGED if item.launched else RelationType.RESULT_DELIVERED,
            parent,
            child.session,
            tool_id,
            (item.evidence,),
            receiver_key=item.to if item.to != parent else None,
            delegation=list(child.delegations).index(tool_id) + 1,
            delivery=delivery,
        )
        self.relations.append(relation)
        self.probes.append(ContextProbe(relation, wanted))
        if not item.launched:
            self.delivered.add((child.session, tool_id))

    def _ending(self, child: _Agent, parent: str, tool_id: str, ending: _Ending) -> None:
        failed = ending.status is ExecutionStatus.FAILED
        self.relations.append(
            NativeRelation(
                RelationType.CHILD_FAILED if failed else RelationType.CHILD_COMPLETED,
                parent,
                child.session,
                tool_id,
                (ending.evidence,),
                delegation=list(child.delegations).index(tool_id) + 1,
                outcome=ending.outcome or ending.status.value,
            )
        )

    def _unproven(
        self,
        child: _Agent,
        reason: str,
        evidence: Evidence,
        code: AttemptErrorCode = AttemptErrorCode.NATIVE_RELATION_UNPROVEN,
    ) -> None:
        child.doubtful = True
        line = int(evidence.locator.partition(" ")[0].removeprefix("line:"))
        self._gaps.add(code, reason, source=evidence.source, line=line)


def read(source: AdapterInput) -> NativeCapture:
    """Reads the headers of the attempt's calls, and the log below `source.native_root` if there is one.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    agents = _Agents(gaps)
    agents.read_wire(source)
    tree = _tree(source, gaps)
    if tree is not None:
        agents.read_log(tree)
    agents.settle_parents()
    everyone = list(agents.by_session.values())
    found = _Relations(agents.by_session, gaps)
    all_fits = _roots_are_known(source, everyone, gaps) and not any(agent.doubtful for agent in everyone)
    children = any(agent.parents for agent in everyone)
    in_headers = any(agent.in_header is not None for agent in everyone)
    return NativeCapture(
        harness_version=agents.version or as_word(source.launcher.get("harness_version")),
        version_tested=False,
        participants=tuple(_participant(agent, found, log_read=agents.log_read) for agent in everyone),
        identity_fields=_IDENTITY_FIELDS,
        identity_claims=tuple(_identity_claims(everyone)),
        absent_header_claims=(),
        purpose_claims=tuple(_purpose_claims(source, everyone)),
        relations=tuple(found.relations),
        context_probes=tuple(found.probes),
        coverage=_coverage(everyone),
        subtasks=SubtaskSupport.SUPPORTED if agents.log_read or children else SubtaskSupport.UNKNOWN,
        sources=tree.sources if tree is not None else (),
        gaps=gaps.gaps(),
        # An agent that tells the owners by its log alone needs no header.
        hook_header=SESSION if in_headers or not agents.log_read else None,
        lifecycle=None if all_fits else LifecycleStatus.UNKNOWN,
    )


def _tree(source: AdapterInput, gaps: GapLog) -> NativeTree | None:
    root = source.native_root
    try:
        return NativeTree(root, gaps) if root is not None and root.is_dir() else None
    except OSError:
        return None


def _roots_are_known(source: AdapterInput, everyone: Iterable[_Agent], gaps: GapLog) -> bool:
    roots = [agent.session for agent in everyone if not agent.parents]
    if len(roots) > 1 and as_id(source.launcher.get("root_native_id")) not in roots:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(roots)} agents name no parent, none is marked as root")
        return False
    return True


def _participant(agent: _Agent, found: _Relations, *, log_read: bool) -> NativeParticipant:
    lifecycle = LifecycleStatus.UNKNOWN
    if not agent.parents:
        lifecycle = LifecycleStatus.COMPLETE
    elif log_read and not agent.doubtful:
        returned = all((agent.session, tool_id) in found.delivered for tool_id in agent.delegations)
        settled = agent.has_ended and bool(agent.delegations) and returned
        lifecycle = LifecycleStatus.COMPLETE if settled else LifecycleStatus.PENDING
    return NativeParticipant(
        key=agent.session,
        role=Role.CHILD if agent.parents else Role.ROOT,
        parent_key=agent.parent,
        native_ids={"session_id": (agent.session,)},
        execution_status=agent.status,
        evidence=(agent.first,),
        lifecycle=lifecycle,
    )


def _identity_claims(everyone: list[_Agent]) -> Iterator[IdentityClaim]:
    for agent in everyone:
        for response_id, _, evidence in agent.outputs:
            if response_id is not None:
                yield IdentityClaim(_RESPONSE_ID, response_id, agent.session, evidence)
    for agent in everyone:
        if agent.in_header is not None:
            yield IdentityClaim(f"header:{SESSION}", agent.session, agent.session, agent.in_header)


def _purpose_claims(source: AdapterInput, everyone: list[_Agent]) -> Iterator[PurposeClaim]:
    """What the agent itself marks, in its log or in a header."""
    for agent in everyone:
        for response_id, purpose, evidence in agent.outputs:
            if response_id is not None:
                yield PurposeClaim(_RESPONSE_ID, response_id, purpose, evidence)
    for call in source.wire_calls:
        for value in call.headers.get(PURPOSE, ()):
            if value in _PURPOSES:
                evidence = _evidence(EvidenceKind.ROLLER_HEADER, _EVENTS_SOURCE, call.line, value)
                yield PurposeClaim(f"header:{PURPOSE}", value, _PURPOSES[value], evidence)


def _coverage(everyone: list[_Agent]) -> NativeCoverage:
    """Each `output` event needs its call. Without any, nothing is expected and so nothing is known."""
    outputs = [
        NativeOutput(agent.session, response_id, evidence)
        for agent in everyone
        for response_id, _, evidence in agent.outputs
    ]
    return NativeCoverage(
        field=_RESPONSE_ID,
        strength=CoverageStrength.PER_ID,
        outputs=tuple(outputs) or None,
        protocol_count_name="output_events",
        protocol_count={agent.session: len(agent.outputs) for agent in everyone},
    )


def _evidence(kind: EvidenceKind, source: str, line: int, identifier: str) -> Evidence:
    named = f" id:{identifier}" if is_locatable(identifier) else ""
    return Evidence(kind, source, f"line:{line}{named}")
