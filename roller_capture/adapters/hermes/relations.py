"""The native relations of every delegation, and how each child ended.

The rules are those of design section 7 and of the protocol ("Relation semantics", "Execution boundaries").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.delegations import Delegation, notice_places
from roller_capture.adapters.hermes.ends import End, EndState
from roller_capture.adapters.hermes.executors import Executors
from roller_capture.adapters.hermes.facts import Place, PluginLog, State
from roller_capture.adapters.hermes.identity import REQUEST_FIELD
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    Evidence,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.vocabulary import (
    AttemptErrorCode,
    BoundBy,
    DeliveryKind,
    EvidenceKind,
    LifecycleStatus,
    RelationType,
)

_DELIVERED = "delivered"

_OF_CHILD: Final[Mapping[str | None, EndState]] = {
    "completed": EndState.COMPLETED,
    "failed": EndState.FAILED,
    "error": EndState.FAILED,
    "timeout": EndState.FAILED,
    "interrupted": EndState.INTERRUPTED,
}
"""What the words of `results[].status` mean, by Hermes's own source. Any other proves nothing."""

_OF_BATCH: Final[Mapping[str | None, EndState]] = {"completed": EndState.COMPLETED, "error": EndState.INTERRUPTED}
"""What those of `async_delegations.state` mean, which is of a whole batch. `error` says that none of its children ended
well: failed ones need their own log's word. `unknown` is Hermes's own word for one whose process went away."""


@dataclass(slots=True)
class NativeRelations:
    """Relations and probes of all children, and each child's lifecycle by key. `undecided` are children whose parent
    was told of an end, of which their own log does not tell."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    lifecycles: dict[str, LifecycleStatus] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)


class RelationFinder:
    """Makes the relations of one attempt."""

    def __init__(
        self,
        executors: Executors,
        delegations: Mapping[str, Delegation],
        ends: Mapping[str, End],
        state: State,
        log: PluginLog,
        gaps: GapLog,
    ) -> None:
        self._executors = executors
        self._delegations = delegations
        self._ends = ends
        self._state = state
        self._log = log
        self._gaps = gaps
        self._found = NativeRelations()

    def find(self) -> NativeRelations:
        """The relations of all children."""
        for executor in self._executors.by_key.values():
            delegation = self._delegations.get(executor.key)
            if delegation is not None:
                self._found.lifecycles[executor.key] = self._child(delegation)
            elif executor.is_child:
                self._found.lifecycles[executor.key] = LifecycleStatus.UNKNOWN
        return self._found

    def _child(self, delegation: Delegation) -> LifecycleStatus:
        self._add(RelationType.SPAWN, delegation, (self._use(delegation), *self._start(delegation)))
        result = delegation.result
        if result is None:
            return LifecycleStatus.PENDING
        if result.dispatched_as is not None:
            return self._background(delegation, result.dispatched_as, result.place)
        if delegation.told is None:
            return LifecycleStatus.UNKNOWN
        delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, delegation.tool_call_id)
        evidence = self._row(result.place, "tool", delegation.tool_call_id)
        relation = self._add(RelationType.RESULT_DELIVERED, delegation, (evidence,), delivery=delivery)
        self._found.probes.append(ContextProbe(relation, ToolResultItem(delegation.tool_call_id)))
        word = delegation.told.status
        return self._end(delegation, evidence, word, _OF_CHILD.get(word))

    def _background(self, delegation: Delegation, dispatched_as: str, place: Place) -> LifecycleStatus:
        """The tool row is an acknowledgement; the result comes as a message that begins a turn of the parent."""
        acknowledgement = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, delegation.tool_call_id)
        evidence = self._row(place, "tool", delegation.tool_call_id)
        relation = self._add(RelationType.LAUNCH_ACKNOWLEDGED, delegation, (evidence,), delivery=acknowledgement)
        self._found.probes.append(ContextProbe(relation, ToolResultItem(delegation.tool_call_id)))
        told = self._state.background.get(dispatched_as)
        if told is None:
            self._unproven("a background delegation has no row of its own", place)
            return LifecycleStatus.UNKNOWN
        notices = list(notice_places(delegation, self._state))
        is_delivered = told.delivery_state == _DELIVERED
        if not notices or not is_delivered:
            return self._undelivered(place, notices, is_delivered=is_delivered)
        notice = self._row(notices[0], "delegation", dispatched_as)
        row = self._row(told.place, "delegation", dispatched_as)
        delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.DELEGATION_ID, dispatched_as)
        relation = self._add(RelationType.RESULT_DELIVERED, delegation, (notice, row, evidence), delivery=delivery)
        request_id = self._turn_request(delegation, dispatched_as)
        if request_id is None:
            self._unproven("no turn is known that a background delegation's end began", notices[0])
        else:
            item = NotificationItem((f"COMPLETE — {dispatched_as}]",), request_id, REQUEST_FIELD)
            self._found.probes.append(ContextProbe(relation, item))
        ended = self._end(delegation, row, told.state, _OF_BATCH.get(told.state))
        return ended if request_id is not None else LifecycleStatus.UNKNOWN

    def _undelivered(self, place: Place, notices: list[Place], *, is_delivered: bool) -> LifecycleStatus:
        """A message of the right form proves no delivery, since anybody can write one; nor does the row without it."""
        if notices:
            reason = "a message tells of the end of a background delegation of which no row says that it was delivered"
            self._unproven(reason, notices[0])
            return LifecycleStatus.UNKNOWN
        if is_delivered:
            self._unproven("a background delegation is said to be delivered, and no message tells of it", place)
        return LifecycleStatus.PENDING

    def _turn_request(self, delegation: Delegation, dispatched_as: str) -> str | None:
        """The first request of the one turn that the notification began."""
        turns = {
            turn.turn_id
            for turn in self._log.turns
            if turn.delegation_id == dispatched_as and turn.session_id in delegation.parent.session_ids
        }
        if len(turns) != 1:
            return None
        [turn_id] = turns
        return next((request.request_id for request in self._log.requests if request.turn_id == turn_id), None)

    def _end(self, delegation: Delegation, told: Evidence, word: str | None, meant: EndState | None) -> LifecycleStatus:
        """The child's end, of which its parent was told with `word`. While that is not proven, the child may not have
        ended, whatever was delivered."""
        end = self._ends[delegation.child.key]
        doubt = self._doubt(delegation, end, told, word, meant)
        if doubt is None:
            return LifecycleStatus.COMPLETE
        place = delegation.result.place if delegation.result is not None else delegation.use.place
        self._unproven(doubt, place)
        if end.place is None and meant is not EndState.INTERRUPTED:
            self._found.undecided.add(delegation.child.key)
        return LifecycleStatus.UNKNOWN

    def _doubt(
        self, delegation: Delegation, end: End, told: Evidence, word: str | None, meant: EndState | None
    ) -> str | None:
        """Why a child's end is not proven; else `None`, and then there is a relation of it, save where it was
        interrupted. The child's own log decides: `completed` is also said of children whose requests failed."""
        own = (self._own(end.place, delegation.child.key), told) if end.place is not None else (told,)
        ended_well = end.state in (EndState.COMPLETED, EndState.LIMITED)
        if meant is None:
            return f"a child's end is told with {word or 'no word that is known'}, which proves none"
        if end.state is EndState.FAILED:
            self._add(RelationType.CHILD_FAILED, delegation, own, outcome=end.word)
        elif ended_well and meant is EndState.COMPLETED:
            self._add(RelationType.CHILD_COMPLETED, delegation, own, outcome=end.word)
        elif meant is EndState.FAILED and not ended_well:
            self._add(RelationType.CHILD_FAILED, delegation, own, outcome=word)
        elif not (meant is end.state is EndState.INTERRUPTED):
            return "a child's own log and what its parent was told of its end do not agree"
        elif end.place is None:
            return "a child is said to have been interrupted, and its own log tells of no end"
        return None

    def _add(
        self,
        kind: RelationType,
        delegation: Delegation,
        evidence: tuple[Evidence, ...],
        *,
        delivery: Delivery | None = None,
        outcome: str | None = None,
    ) -> NativeRelation:
        relation = NativeRelation(
            kind,
            delegation.parent.key,
            delegation.child.key,
            delegation.tool_call_id,
            evidence,
            task_index=delegation.task_index,
            delivery=delivery,
            outcome=outcome,
        )
        self._found.relations.append(relation)
        return relation

    def _use(self, delegation: Delegation) -> Evidence:
        return self._row(delegation.use.place, "tool", delegation.tool_call_id)

    def _start(self, delegation: Delegation) -> tuple[Evidence, Evidence]:
        event = delegation.start.place.evidence(EvidenceKind.NATIVE_RECORD, "tool", delegation.tool_call_id)
        return event, delegation.child.evidence(EvidenceKind.NATIVE_METADATA)

    def _own(self, place: Place, key: str) -> Evidence:
        """An event or row of the child's own end, which names one of its sessions."""
        child = self._executors.by_key[key]
        return place.evidence(EvidenceKind.NATIVE_RECORD, "session", child.session_ids[-1])

    @staticmethod
    def _row(place: Place, what: str, identifier: str) -> Evidence:
        return place.evidence(EvidenceKind.NATIVE_RECORD, what, identifier)

    def _unproven(self, reason: str, place: Place) -> None:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        self._gaps.add(code, reason, source=place.source, line=place.line)
