"""The launches and the ends of children.

The rules are those of the protocol ("Relation semantics") and of design section 7: a child's own rollout says how its
turn ended; what its parent was told must agree; one that just stopped is neither completed nor failed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roller_capture.adapters.codex.delegations import Delegation, DelegationFinder
from roller_capture.adapters.codex.deliveries import Carrier, Deliveries, DeliveryFinder
from roller_capture.adapters.codex.facts import EndState, Place, Rollout, Turn, has_ended
from roller_capture.adapters.codex.lifecycle import find_stops, lifecycle
from roller_capture.adapters.codex.record_shapes import completed_turn
from roller_capture.adapters.codex.threads import Threads
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import ContextProbe, Evidence, NativeRelation
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus, LifecycleStatus, RelationType

_STATUS = {
    EndState.ENDED: ExecutionStatus.COMPLETED,
    EndState.FAILED: ExecutionStatus.FAILED,
    EndState.ABORTED: ExecutionStatus.INTERRUPTED,
    EndState.RUNNING: ExecutionStatus.INTERRUPTED,
}


@dataclass(slots=True)
class NativeRelations:
    """Relations and probes of all children, and how settled each child is, by thread id."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    lifecycles: dict[str, LifecycleStatus] = field(default_factory=dict)


def find_relations(threads: Threads, gaps: GapLog) -> NativeRelations:
    """All of an attempt."""
    delegations = DelegationFinder(threads, gaps).find()
    deliveries = DeliveryFinder(threads, delegations, gaps).find()
    found = NativeRelations(probes=deliveries.probes)
    for delegation in (item for many in delegations.values() for item in many):
        found.relations.append(_spawn(delegation))
        wrong = _told_otherwise(delegation, deliveries)
        if wrong is not None:
            reason = "what was told of an agent's end is not what its own rollout says"
            _unproven(threads, delegation, reason, wrong.place, gaps)
        elif _has_no_turn(delegation):
            reason = "nothing tells with which turn of its agent a further task ended"
            _unproven(threads, delegation, reason, delegation.call.place, gaps)
        elif has_ended(delegation.turn):
            found.relations.append(_end(delegation, delegation.turn, deliveries))
    found.relations += deliveries.relations
    stops = find_stops(threads)
    for thread_id, rollout in threads.by_id.items():
        if rollout.meta.is_subagent:
            own, its_stops = delegations.get(thread_id, []), stops.get(thread_id, [])
            doubtful = thread_id in threads.doubtful or rollout.has_stray_end
            found.lifecycles[thread_id] = lifecycle(rollout, own, deliveries, its_stops, is_doubtful=doubtful)
    return found


def execution_status(rollout: Rollout) -> ExecutionStatus:
    """How a thread's last turn ended. Versions before `task_complete` do not say."""
    return _STATUS[rollout.turns[-1].state] if rollout.turns else ExecutionStatus.UNKNOWN


def _spawn(delegation: Delegation) -> NativeRelation:
    call = delegation.call
    evidence = (call.place.evidence("tool", call.call_id), *delegation.evidence, delegation.child.evidence())
    return _relation(RelationType.SPAWN, delegation, evidence, None)


def _told_otherwise(delegation: Delegation, deliveries: Deliveries) -> Carrier | None:
    """What brought a result that is not the one that the child's own turn ended with."""
    turn = delegation.turn
    if not has_ended(turn):
        return None
    expected = "completed" if turn.state is EndState.ENDED else "errored"
    for carrier in deliveries.of(delegation):
        if carrier.state.word != expected or not _same_text(turn, carrier.state.message):
            return carrier
    return None


def _unproven(threads: Threads, delegation: Delegation, reason: str, place: Place, gaps: GapLog) -> None:
    threads.doubtful.add(delegation.child.thread_id)
    gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)


def _end(delegation: Delegation, turn: Turn, deliveries: Deliveries) -> NativeRelation:
    """The end of one delegation, from the child's turn."""
    evidence = (
        turn.place.evidence("turn", turn.turn_id),
        *_told_by_harness(delegation, turn),
        *(item.evidence for item in deliveries.of(delegation)),
    )
    if turn.state is EndState.ENDED:
        return _relation(RelationType.CHILD_COMPLETED, delegation, evidence, "completed")
    return _relation(RelationType.CHILD_FAILED, delegation, evidence, turn.word or "error")


def _has_no_turn(delegation: Delegation) -> bool:
    """Whether a task was given to an agent that has ended, and none of its turns is known to be the task's."""
    turns = delegation.child.turns
    return delegation.turn is None and bool(turns) and has_ended(turns[-1])


def _told_by_harness(delegation: Delegation, turn: Turn) -> Iterator[Evidence]:
    """The harness's own records, in the parent's rollout, that this very turn of the agent has ended (v2)."""
    for activity in delegation.parent.activities:
        is_its = activity.thread_id == delegation.child.thread_id and turn.turn_id is not None
        if is_its and completed_turn(activity.call_id) == turn.turn_id:
            yield activity.place.evidence("item", activity.call_id)


def _same_text(turn: Turn, told: str | None) -> bool:
    """The answer, or the error, is told in the words of the child's own rollout; an empty answer in none."""
    return None in (told, turn.message) or told == turn.message


def _relation(
    kind: RelationType, delegation: Delegation, evidence: Iterable[Evidence], outcome: str | None
) -> NativeRelation:
    return NativeRelation(
        kind,
        delegation.parent.thread_id,
        delegation.child.thread_id,
        delegation.call.call_id,
        tuple(dict.fromkeys(evidence)),
        delegation=delegation.number,
        outcome=outcome,
    )
