"""The relations that the native logs prove, where to find them in requests, and how each child ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.deepseek.delegations import Delegation, Delegations, Manner
from roller_capture.adapters.deepseek.facts import Notice, Session, Turn
from roller_capture.adapters.gap_log import GapLog
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
    ExecutionStatus,
    LifecycleStatus,
    RelationType,
)

_STATUS_OF_REASON: Final = {
    "completed": ExecutionStatus.COMPLETED,
    "max-tokens": ExecutionStatus.COMPLETED,
    "error": ExecutionStatus.FAILED,
    "aborted": ExecutionStatus.INTERRUPTED,
}
_STATUS_OF_WORD: Final = {
    "finished": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "stopped": ExecutionStatus.INTERRUPTED,
}
_STATUS_OF_OUTCOME: Final = {"completed": ExecutionStatus.COMPLETED, "failed": ExecutionStatus.FAILED}


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How a child ended, and whether it was settled."""

    status: ExecutionStatus
    lifecycle: LifecycleStatus


@dataclass(slots=True)
class NativeRelations:
    """What the logs prove of all children."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    outcomes: dict[str, ChildOutcome] = field(default_factory=dict)


def last_status(session: Session) -> ExecutionStatus:
    """How a session's last turn ended; one that still ran was interrupted."""
    return _status(session.turns[-1]) if session.turns else ExecutionStatus.UNKNOWN


def _status(turn: Turn) -> ExecutionStatus:
    if turn.end is None:
        return ExecutionStatus.INTERRUPTED
    return _STATUS_OF_REASON.get(turn.reason or "", ExecutionStatus.UNKNOWN)


class RelationFinder:
    """Makes the relations of all delegations."""

    def __init__(self, sessions: Mapping[str, Session], delegations: Delegations, gaps: GapLog) -> None:
        self._sessions = sessions
        self._delegations = delegations
        self._gaps = gaps
        self._found = NativeRelations()

    def find(self) -> NativeRelations:
        """All relations, probes and outcomes."""
        for child_id, delegations in self._delegations.of_child.items():
            settled = []
            for delegation in delegations:
                self._launched(delegation)
                settled.append(self._ended(delegation, len(delegations)))
            self._found.outcomes[child_id] = self._outcome(child_id, settled)
        return self._found

    def _launched(self, delegation: Delegation) -> None:
        call, result = delegation.call, delegation.result
        evidence = [call.place.evidence("tool", call.tool_id), delegation.link.evidence("session", delegation.child_id)]
        child = self._sessions.get(delegation.child_id)
        if child is not None:
            parent_id = delegation.parent.session_id
            evidence.append(child.header.evidence("session", parent_id, EvidenceKind.NATIVE_METADATA))
        if result is not None and delegation.manner is not Manner.WORKFLOW:
            evidence.append(result.place.evidence("tool", call.tool_id))
        self._add(delegation, RelationType.SPAWN, evidence)
        if result is not None and delegation.manner is not Manner.WORKFLOW:
            delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, call.tool_id)
            place = [result.place.evidence("tool", call.tool_id)]
            acknowledged = self._add(delegation, RelationType.LAUNCH_ACKNOWLEDGED, place, delivery=delivery)
            self._found.probes.append(ContextProbe(acknowledged, _tool_result(call.tool_id)))

    def _ended(self, delegation: Delegation, count: int) -> LifecycleStatus:
        """The end, told by the child's own log and by who waited for it, and whether that settled the delegation; where
        they disagree, or one tells it in an unknown way, there is no end, and nobody knows."""
        if delegation.child_id in self._delegations.contradicted:
            return LifecycleStatus.UNKNOWN
        told = _told(delegation)
        if told is None:
            return LifecycleStatus.UNKNOWN if _is_told(delegation) else LifecycleStatus.PENDING
        turn = self._turn(delegation, count)
        if turn is None or turn.end is None or _status(turn) is not told:
            self._unproven(delegation, "an agent's own log does not confirm how it is said to have ended")
            return LifecycleStatus.UNKNOWN
        end = turn.end.evidence("turn", None)
        if told is ExecutionStatus.COMPLETED:
            self._add(delegation, RelationType.CHILD_COMPLETED, [end])
        elif told is ExecutionStatus.FAILED:
            self._add(delegation, RelationType.CHILD_FAILED, [end], outcome=turn.detail or turn.reason)
        if told is not ExecutionStatus.INTERRUPTED:
            self._delivered(delegation)
        return LifecycleStatus.COMPLETE if _is_settled(delegation) else LifecycleStatus.PENDING

    def _turn(self, delegation: Delegation, count: int) -> Turn | None:
        """The child's turn with which a delegation ended. No id ties a turn to a delegation: the last one ends the
        last; earlier ones are known only where the child's log tells as many delegations as the parent's."""
        child = self._sessions.get(delegation.child_id)
        if child is None or not child.turns:
            return None
        if delegation.number == count:
            return child.turns[-1]
        resumptions = [number for number, turn in enumerate(child.turns) if turn.is_resumption]
        if len(resumptions) != count - 1:
            return None
        return child.turns[resumptions[delegation.number - 1] - 1]

    def _delivered(self, delegation: Delegation) -> None:
        if delegation.manner is Manner.WORKFLOW:
            result, tool_id = delegation.result, delegation.call.tool_id
            if result is not None and not result.is_error:
                delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, tool_id)
                evidence = [result.place.evidence("tool", tool_id)]
                relation = self._add(delegation, RelationType.RESULT_DELIVERED, evidence, delivery=delivery)
                self._found.probes.append(ContextProbe(relation, _tool_result(tool_id)))
            return
        notice, reader = delegation.notice, delegation.notice_reader
        if notice is None or reader is None or notice.read is None:
            return
        delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.MESSAGE_ID, notice.message_id)
        evidence = [notice.read.evidence("message", notice.message_id)]
        relation = self._add(delegation, RelationType.RESULT_DELIVERED, evidence, delivery=delivery, reader=reader)
        item = _notification(notice, reader)
        if item is None:
            self._unproven(delegation, "a notice's text is no other than that of another notice")
        else:
            self._found.probes.append(ContextProbe(relation, item))

    def _outcome(self, child_id: str, settled: list[LifecycleStatus]) -> ChildOutcome:
        """Of a child whose delegations were `settled` so: what is known of all of them."""
        child = self._sessions.get(child_id)
        if child is None:
            return ChildOutcome(ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)
        if not settled or LifecycleStatus.UNKNOWN in settled:
            return ChildOutcome(last_status(child), LifecycleStatus.UNKNOWN)
        pending = LifecycleStatus.PENDING in settled
        return ChildOutcome(last_status(child), LifecycleStatus.PENDING if pending else LifecycleStatus.COMPLETE)

    def _add(
        self,
        delegation: Delegation,
        kind: RelationType,
        evidence: list[Evidence],
        *,
        delivery: Delivery | None = None,
        outcome: str | None = None,
        reader: Session | None = None,
    ) -> NativeRelation:
        parent_id = delegation.parent.session_id
        relation = NativeRelation(
            type=kind,
            parent_key=parent_id,
            child_key=delegation.child_id,
            tool_call_id=delegation.call.tool_id,
            parent_output_id=delegation.call.output_id,
            evidence=tuple(evidence),
            receiver_key=reader.session_id if reader is not None and reader.session_id != parent_id else None,
            delegation=delegation.number,
            task_index=delegation.task_index,
            delivery=delivery,
            outcome=outcome,
        )
        self._found.relations.append(relation)
        return relation

    def _unproven(self, delegation: Delegation, reason: str) -> None:
        place = delegation.notice.arrived if delegation.notice is not None else delegation.link
        self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)


def _told(delegation: Delegation) -> ExecutionStatus | None:
    """How the delegation ended by what the one who waits was told."""
    if delegation.agent is not None:
        return _STATUS_OF_OUTCOME.get(delegation.agent.outcome or "")
    return _STATUS_OF_WORD.get(delegation.notice.word or "") if delegation.notice is not None else None


def _is_told(delegation: Delegation) -> bool:
    """Whether the one who waits was told of an end at all."""
    if delegation.agent is not None:
        return delegation.agent.end is not None
    return delegation.notice is not None


def _is_settled(delegation: Delegation) -> bool:
    """Of one that has ended: delivered; or stopped by an agent, which needs no delivery."""
    if delegation.manner is Manner.WORKFLOW:
        return delegation.result is not None and not delegation.result.is_error
    notice = delegation.notice
    return notice is not None and (notice.read is not None or (delegation.is_stopped and notice.word == "stopped"))


def _tool_result(tool_id: str) -> ToolResultItem:
    """The result as a request holds it: with Responses, the native id is `call_id|item_id`, and it has the first."""
    return ToolResultItem(tool_id.partition("|")[0])


def _notification(notice: Notice, reader: Session) -> NotificationItem | None:
    """The notice as the receiver's request holds it: a text of its own, in the request that it must have caused.

    That is the one of the first output after it, where the log has that output's response id. Else the harness sends
    along, with each request, the events of its log that the provider has not accepted yet, so that the notice's own id
    stands at a known place of the body of the first request that can hold it.
    """
    others = [other for other in reader.notices.values() if other.message_id != notice.message_id]
    own = next(
        (
            text
            for text in notice.texts
            if len(notice.texts) == 1 or not any(text in held for other in others for held in other.texts)
        ),
        None,
    )
    if own is None or notice.read is None:
        return None
    if notice.answered_by is not None:
        return NotificationItem(texts=(own,), value=notice.answered_by)
    position = notice.read.seq - notice.accepted_before - 1
    return NotificationItem(
        texts=(own,), value=notice.message_id, field=f"context:/dsh_session_log/events/{position}/data/id"
    )
