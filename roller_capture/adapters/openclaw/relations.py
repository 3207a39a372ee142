"""Relations of each delegation, how each child ended, and what to look for in requests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.openclaw.announcements import ANNOUNCEMENT, Announcement, announcements
from roller_capture.adapters.openclaw.delegations import Delegation, Delegations
from roller_capture.adapters.openclaw.facts import Answer, ChildRun, Home, Place, Session, sent_id
from roller_capture.adapters.openclaw.identity import COMPACTION, RUN_HEADER
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
    ExecutionStatus,
    LifecycleStatus,
    RelationType,
)

_TERMINAL: Final = "terminal"
_OK: Final = "ok"
_FAILED_OUTCOMES: Final = frozenset({"error", "timeout"})
_KILLED: Final = "subagent-killed"
_DELIVERED: Final = "delivered"
_NOT_OWED: Final = frozenset({"not_required", "not_applicable"})
_TASK_STATUS: Final[Mapping[str | None, ExecutionStatus]] = {
    "succeeded": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "timed_out": ExecutionStatus.FAILED,
    "running": ExecutionStatus.INTERRUPTED,
    "queued": ExecutionStatus.INTERRUPTED,
    "cancelled": ExecutionStatus.INTERRUPTED,
    "lost": ExecutionStatus.INTERRUPTED,
}


@dataclass(slots=True)
class NativeRelations:
    """All relations and probes of a home."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)


def find_relations(home: Home, delegations: Delegations, wire_run_ids: frozenset[str], gaps: GapLog) -> NativeRelations:
    """What the delegations give. `wire_run_ids` are the run ids that requests carried."""
    return _Finder(home, wire_run_ids, gaps).find(delegations)


def child_status(home: Home, child: Session, delegations: Delegations) -> tuple[ExecutionStatus, LifecycleStatus]:
    """How a child stands at the end: by the registry, and by the task of the last message that was sent to it."""
    runs = [run for run in home.runs if run.child_key == child.key]
    if not runs:
        return ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN
    status = _run_status(runs[-1])
    settled = all(_is_settled(run) or _was_stopped(home, run) for run in runs)
    lifecycle = LifecycleStatus.COMPLETE if settled else LifecycleStatus.PENDING
    later = [item for item in delegations.of_child.get(child.key, ()) if not item.is_spawn]
    if later:
        task = later[-1].task
        status = _TASK_STATUS.get(task.status if task is not None else None, ExecutionStatus.UNKNOWN)
        if status is ExecutionStatus.INTERRUPTED:
            lifecycle = LifecycleStatus.PENDING
    return status, lifecycle


def _run_status(run: ChildRun) -> ExecutionStatus:
    if run.execution != _TERMINAL or run.ended_reason == _KILLED:
        return ExecutionStatus.INTERRUPTED
    if run.outcome == _OK:
        return ExecutionStatus.COMPLETED
    return ExecutionStatus.FAILED if run.outcome in _FAILED_OUTCOMES else ExecutionStatus.UNKNOWN


def _is_settled(run: ChildRun) -> bool:
    """Ended, and delivered where delivery is owed."""
    owed = run.expects_delivery and run.delivery not in _NOT_OWED
    return run.execution == _TERMINAL and (run.delivery == _DELIVERED or not owed)


def _was_stopped(home: Home, run: ChildRun) -> bool:
    """By a tool call of its own requester, so that it is owed no delivery. Also the end of the gateway or of the root's
    turn kills children (measured): these are cut."""
    requester = home.sessions.get(run.requester_key)
    if run.execution != _TERMINAL or run.ended_reason != _KILLED or requester is None:
        return False
    stopped = set[str]().union(*(thread.cancelled for thread in requester.threads))
    return any(
        task.task_id in stopped and task.run_id == run.task_run_id and task.session_key == run.child_key
        for task in home.tasks
    )


class _Finder:
    def __init__(self, home: Home, wire_run_ids: frozenset[str], gaps: GapLog) -> None:
        self._home = home
        self._wire_run_ids = wire_run_ids
        self._gaps = gaps
        self._found = NativeRelations()
        self._announced: dict[str, list[Announcement]] = {}

    def find(self, delegations: Delegations) -> NativeRelations:
        for delegation in delegations.all():
            self._relate(delegation, RelationType.SPAWN)
            if delegation.is_spawn or delegation.result.status != _OK:
                self._acknowledged(delegation)
            if delegation.is_spawn:
                self._spawn_ended(delegation)
            else:
                self._message_answered(delegation)
        self._name_strange_announcements()
        return self._found

    def _name_strange_announcements(self) -> None:
        """Announcements of runs that the registry does not have tell of nobody; and one in whose run a request was made
        must stand in a log."""
        logged = set[str]()
        for requester in self._home.sessions.values():
            runs = [run for run in self._home.runs if run.requester_key == requester.key]
            announcements = self._announcements(requester)
            whole_ids = {one.announcement_id for one in announcements}
            for announcement in announcements:
                logged.add(announcement.announcement_id)
                place = announcement.place
                strange = not any(announcement.names(run) for run in runs)
                if place is not None and strange and not announcement.is_short_for(whole_ids):
                    self._unproven("an announcement names no run that the registry has of its requester", place)
        for run_id in {wire_id.partition(COMPACTION)[0] for wire_id in self._wire_run_ids} - logged:
            if run_id.startswith(ANNOUNCEMENT):
                reason = "a request was made in the run of an announcement of which no log has a message or an answer"
                self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)

    def _relate(
        self,
        delegation: Delegation,
        kind: RelationType,
        evidence: tuple[Evidence, ...] = (),
        delivery: Delivery | None = None,
        outcome: str | None = None,
    ) -> NativeRelation:
        relation = NativeRelation(
            type=kind,
            parent_key=delegation.parent.key,
            child_key=delegation.child.key,
            tool_call_id=delegation.call.tool_id,
            evidence=evidence or delegation.evidence(),
            parent_output_id=delegation.answer.response_id,
            delegation=delegation.number,
            delivery=delivery,
            outcome=outcome,
        )
        self._found.relations.append(relation)
        return relation

    def _acknowledged(self, delegation: Delegation) -> None:
        """The tool result of every spawn says only that the child was started."""
        relation = self._by_tool_result(delegation, RelationType.LAUNCH_ACKNOWLEDGED)
        self._probe_tool_result(delegation, relation)

    def _by_tool_result(self, delegation: Delegation, kind: RelationType) -> NativeRelation:
        tool_id = delegation.result.tool_id
        evidence = delegation.result.place.evidence("tool", tool_id)
        return self._relate(
            delegation, kind, (evidence,), Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, tool_id)
        )

    def _probe_tool_result(self, delegation: Delegation, relation: NativeRelation) -> None:
        """Looks for the result by the ids that the native resolver had in its place (protocol, OpenClaw)."""
        hook, answer, parent = self._home.hook, delegation.answer, delegation.parent
        wire_ids: dict[str, None] = {}
        if hook is not None and answer.response_id is not None:
            wire_ids = dict.fromkeys(
                map(sent_id, hook.resolved_in(parent, answer.response_id, delegation.call.position))
            )
        if not wire_ids and self._was_answered(delegation):
            self._unproven("nothing tells under which id a tool result was sent to the model", delegation.result.place)
        for wire_id in wire_ids:
            if hook is not None and hook.is_shared(parent, wire_id):
                reason = "the id under which a tool result was sent to the model stands for two tool calls"
                place = delegation.result.place
                self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)
            else:
                self._found.probes.append(ContextProbe(relation, ToolResultItem(wire_id)))

    def _was_answered(self, delegation: Delegation) -> bool:
        """Whether the parent went on, so that a request must have held the result."""
        line = delegation.result.place.line
        return any(answer.place.line > line for thread in delegation.parent.threads for answer in thread.answers)

    def _spawn_ended(self, delegation: Delegation) -> None:
        run = delegation.run
        if run is None or run.execution != _TERMINAL:
            return
        last = _last_answer(delegation.child, {run.run_id, run.task_run_id})
        self._ended(delegation, _run_status(run), run.outcome, (run.place.evidence(),), last)
        named = [item for item in self._announcements(delegation.parent) if item.names(run)]
        if run.delivery != _DELIVERED:
            return
        if not named:
            self._unproven("the registry says delivered, and the requester's log has no announcement", run.place)
        for announcement in named:
            self._delivered(delegation, run, announcement)

    def _ended(
        self,
        delegation: Delegation,
        status: ExecutionStatus,
        outcome: str | None,
        evidence: tuple[Evidence, ...],
        last: Answer | None,
    ) -> None:
        """`completed` needs a good end in the child's own log too."""
        if last is not None:
            evidence = (*evidence, last.place.evidence("response", last.response_id))
        if status is ExecutionStatus.COMPLETED:
            if last is None or not last.is_output:
                place = delegation.child.node or delegation.result.place
                self._unproven("a child is said to have completed, and its own log does not end well", place)
                return
            self._relate(delegation, RelationType.CHILD_COMPLETED, evidence)
        elif status is ExecutionStatus.FAILED:
            self._relate(delegation, RelationType.CHILD_FAILED, evidence, outcome=outcome or "failed")
        elif status is ExecutionStatus.UNKNOWN:
            self._unproven("a child has ended, and no word that is known says how", delegation.result.place)

    def _announcements(self, requester: Session) -> list[Announcement]:
        if requester.key not in self._announced:
            self._announced[requester.key] = list(announcements(requester))
        return self._announced[requester.key]

    def _delivered(self, delegation: Delegation, run: ChildRun, announcement: Announcement) -> None:
        place = announcement.place
        if place is None:
            return
        delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID, announcement.announcement_id)
        evidence = (run.place.evidence(), place.evidence("run", announcement.announcement_id))
        relation = self._relate(delegation, RelationType.RESULT_DELIVERED, evidence, delivery)
        item = self._notification(run, announcement)
        if item is None:
            self._unproven("an announcement has no answer that would tell its request", place)
        else:
            self._found.probes.append(ContextProbe(relation, item))

    def _notification(self, run: ChildRun, announcement: Announcement) -> NotificationItem | None:
        """The request of the announcement's own run, by the hook's header; else that of its first answer."""
        texts, later = announcement.texts(run), announcement.later_texts
        if not announcement.is_active_wake and announcement.announcement_id in self._wire_run_ids:
            return NotificationItem(texts, announcement.announcement_id, f"header:{RUN_HEADER}", later_texts=later)
        answer = announcement.answer
        if answer is None or answer.response_id is None:
            return None
        return NotificationItem(texts, answer.response_id, later_texts=later)

    def _message_answered(self, delegation: Delegation) -> None:
        """A message that was sent and waited for: its tool result holds the answer."""
        if delegation.result.status != _OK:
            return
        task = delegation.task
        status = _TASK_STATUS.get(task.status if task is not None else None, ExecutionStatus.UNKNOWN)
        if task is None or status not in (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED):
            reason = "a message to a session was answered, and no task says that its run has ended"
            self._unproven(reason, delegation.result.place)
            return
        last = _last_answer(delegation.child, {delegation.result.run_id})
        self._ended(delegation, status, task.status, (task.place.evidence(),), last)
        relation = self._by_tool_result(delegation, RelationType.RESULT_DELIVERED)
        self._probe_tool_result(delegation, relation)

    def _unproven(self, reason: str, place: Place) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)


def _last_answer(child: Session, run_ids: Collection[str | None]) -> Answer | None:
    """A child's last answer in these runs."""
    answers = [
        answer
        for thread in child.threads
        for answer in thread.answers
        if not answer.is_copy and answer.run_id in run_ids
    ]
    return answers[-1] if answers else None
