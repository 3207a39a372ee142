"""Relations of each delegation, and what to look for in requests."""

from collections.abc import Collection
from dataclasses import dataclass, field

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.openclaw.announcements import ANNOUNCEMENT, Announcement, announcements
from roller_capture.adapters.openclaw.delegations import Delegation, Delegations
from roller_capture.adapters.openclaw.ends import DELIVERED, has_ended, run_status, task_status
from roller_capture.adapters.openclaw.facts import Answer, Home, Place, Session, sent_id
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
    RelationType,
)


@dataclass(slots=True)
class NativeRelations:
    """All relations and probes of a home."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)


def find_relations(home: Home, delegations: Delegations, wire_run_ids: frozenset[str], gaps: GapLog) -> NativeRelations:
    """What the delegations give. `wire_run_ids` are the run ids that requests carried. A child whose records do not fit
    together is put among the doubtful ones."""
    return _Finder(home, delegations, wire_run_ids, gaps).find()


class _Finder:
    def __init__(self, home: Home, delegations: Delegations, wire_run_ids: frozenset[str], gaps: GapLog) -> None:
        self._home = home
        self._delegations = delegations
        self._wire_run_ids = wire_run_ids
        self._gaps = gaps
        self._found = NativeRelations()
        self._announced: dict[str, list[Announcement]] = {}

    def find(self) -> NativeRelations:
        for delegation in self._delegations.all():
            self._relate(delegation, RelationType.SPAWN)
            if not delegation.is_answered:
                self._acknowledged(delegation)
            if delegation.is_spawn:
                self._spawn_ended(delegation)
            else:
                self._message_ended(delegation)
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
                    self._delegations.missing = True
                    self._unproven("an announcement names no run that the registry has of its requester", place)
        for run_id in {wire_id.partition(COMPACTION)[0] for wire_id in self._wire_run_ids} - logged:
            if run_id.startswith(ANNOUNCEMENT):
                self._delegations.missing = True
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
        if run is None or not has_ended(run):
            return
        last = _last_answer(delegation.child, {run.run_id, run.task_run_id})
        self._ended(delegation, run_status(run), run.outcome, run.place, last)
        named = [item for item in self._announcements(delegation.parent) if item.names(run)]
        if run.delivery != DELIVERED:
            return
        if not named:
            reason = "the registry says delivered, and the requester's log has no announcement"
            self._doubt(delegation, reason, run.place)
        for announcement in named:
            self._delivered(delegation, announcement, run.place, announcement.texts(run))

    def _ended(
        self,
        delegation: Delegation,
        status: ExecutionStatus,
        outcome: str | None,
        said: Place,
        last: Answer | None,
    ) -> None:
        """`completed` needs a good end in the child's own log too. `said` is where the registry tells the end."""
        evidence: tuple[Evidence, ...] = (said.evidence(),)
        if last is not None:
            evidence = (*evidence, last.place.evidence("response", last.response_id))
        if status is ExecutionStatus.COMPLETED:
            if last is None or not last.is_output:
                place = delegation.child.node or delegation.result.place
                self._doubt(delegation, "a child is said to have completed, and its own log does not end well", place)
                return
            self._relate(delegation, RelationType.CHILD_COMPLETED, evidence)
        elif status is ExecutionStatus.FAILED:
            self._relate(delegation, RelationType.CHILD_FAILED, evidence, outcome=outcome or "failed")
        elif status is ExecutionStatus.UNKNOWN:
            self._doubt(delegation, "a child has ended, and no word that is known says how", delegation.result.place)

    def _announcements(self, requester: Session) -> list[Announcement]:
        if requester.key not in self._announced:
            self._announced[requester.key] = list(announcements(requester))
        return self._announced[requester.key]

    def _delivered(
        self, delegation: Delegation, announcement: Announcement, said: Place, texts: tuple[str, ...]
    ) -> None:
        place = announcement.place
        if place is None:
            return
        delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID, announcement.announcement_id)
        evidence = (said.evidence(), place.evidence("run", announcement.announcement_id))
        relation = self._relate(delegation, RelationType.RESULT_DELIVERED, evidence, delivery)
        item = self._notification(announcement, texts)
        if item is None:
            self._unproven("an announcement has no answer that would tell its request", place)
        else:
            self._found.probes.append(ContextProbe(relation, item))

    def _notification(self, announcement: Announcement, texts: tuple[str, ...]) -> NotificationItem | None:
        """The request of the announcement's own run, by the hook's header; else that of its first answer."""
        later = announcement.later_texts
        if not announcement.is_active_wake and announcement.announcement_id in self._wire_run_ids:
            return NotificationItem(texts, announcement.announcement_id, f"header:{RUN_HEADER}", later_texts=later)
        answer = announcement.answer
        if answer is None or answer.response_id is None:
            return None
        return NotificationItem(texts, answer.response_id, later_texts=later)

    def _message_ended(self, delegation: Delegation) -> None:
        """A message that was sent to a child later. Its answer comes by its tool result where it was waited for."""
        task, status = delegation.task, task_status(delegation.task)
        ended = status in (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
        told = delegation.is_answered or delegation.told is not None
        if task is None or (told and not ended):
            reason = "no task says that the run of a message to a session has ended"
            self._doubt(delegation, reason, delegation.result.place)
            return
        if status is not ExecutionStatus.INTERRUPTED:
            last = _last_answer(delegation.child, {delegation.result.run_id})
            self._ended(delegation, status, task.status, task.place, last)
        if delegation.told is not None:
            self._delivered(delegation, delegation.told, task.place, delegation.told.texts(None))
        elif told:
            relation = self._by_tool_result(delegation, RelationType.RESULT_DELIVERED)
            self._probe_tool_result(delegation, relation)

    def _doubt(self, delegation: Delegation, reason: str, place: Place) -> None:
        self._delegations.doubtful.add(delegation.child.key)
        self._unproven(reason, place)

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
