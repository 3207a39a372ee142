"""The launches and the ends of children, and whether each child's work is settled.

The rules are those of the protocol ("Relation semantics") and of design section 7: a child's own rollout says how its
turn ended; what its parent was told must agree; one that just stopped is neither completed nor failed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roller_capture.adapters.codex.delegations import Delegation, DelegationFinder
from roller_capture.adapters.codex.deliveries import Deliveries, DeliveryFinder
from roller_capture.adapters.codex.facts import EndState, Rollout, Turn
from roller_capture.adapters.codex.record_shapes import STOP_TOOLS, completed_turn
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
        end = _end(delegation, deliveries, gaps)
        if end is not None:
            found.relations.append(end)
        elif _has_no_turn(delegation):
            place = delegation.call.place
            reason = "nothing tells with which turn of its agent a further task ended"
            gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)
    found.relations += deliveries.relations
    stopped = _stopped(threads)
    for rollout in threads.by_id.values():
        if rollout.meta.is_subagent:
            own = delegations.get(rollout.thread_id, [])
            found.lifecycles[rollout.thread_id] = _lifecycle(rollout, own, deliveries, stopped)
    return found


def execution_status(rollout: Rollout) -> ExecutionStatus:
    """How a thread's last turn ended. Versions before `task_complete` do not say."""
    return _STATUS[rollout.turns[-1].state] if rollout.turns else ExecutionStatus.UNKNOWN


def _spawn(delegation: Delegation) -> NativeRelation:
    call = delegation.call
    evidence = (call.place.evidence("tool", call.call_id), *delegation.evidence, delegation.child.evidence())
    return _relation(RelationType.SPAWN, delegation, evidence, None)


def _end(delegation: Delegation, deliveries: Deliveries, gaps: GapLog) -> NativeRelation | None:
    """The end of one delegation, from the child's turn; its carriers must not say otherwise."""
    turn, carriers = delegation.turn, deliveries.of(delegation)
    if turn is None or turn.state not in (EndState.ENDED, EndState.FAILED):
        return None
    expected = "completed" if turn.state is EndState.ENDED else "errored"
    wrong = [item for item in carriers if item.state.word != expected or not _same_text(turn, item.state.message)]
    if wrong:
        reason = "what was told of an agent's end is not what its own rollout says"
        place = wrong[0].place
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)
        return None
    evidence = (
        turn.place.evidence("turn", turn.turn_id),
        *_told_by_harness(delegation, turn),
        *(item.evidence for item in carriers),
    )
    if turn.state is EndState.ENDED:
        return _relation(RelationType.CHILD_COMPLETED, delegation, evidence, "completed")
    return _relation(RelationType.CHILD_FAILED, delegation, evidence, turn.word or "error")


def _has_no_turn(delegation: Delegation) -> bool:
    """Whether a task was given to an agent that has ended, and none of its turns is known to be the task's."""
    turns = delegation.child.turns
    return delegation.turn is None and bool(turns) and turns[-1].state in (EndState.ENDED, EndState.FAILED)


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


def _stopped(threads: Threads) -> set[tuple[str, str]]:
    """(thread that stopped, thread that was stopped), by the harness's own records of such tool calls."""
    found: set[tuple[str, str]] = set()
    for rollout in threads.by_id.values():
        calls = {call.call_id for call in rollout.tool_calls.values() if call.name in STOP_TOOLS}
        for call in rollout.collab_calls.values():
            if call.call_id in calls and call.tool in STOP_TOOLS and call.succeeded:
                found |= {(rollout.thread_id, receiver) for receiver in call.receivers}
        for activity in rollout.activities:
            if activity.call_id in calls:
                found.add((rollout.thread_id, activity.thread_id))
    return found


def _lifecycle(
    child: Rollout, delegations: list[Delegation], deliveries: Deliveries, stopped: set[tuple[str, str]]
) -> LifecycleStatus:
    if not child.turns or child.is_unknown_fork:
        return LifecycleStatus.PENDING if delegations and not child.usages else LifecycleStatus.UNKNOWN
    last = child.turns[-1]
    ended = last.state in (EndState.ENDED, EndState.FAILED)
    if child.meta.side is not None:  # nobody waits for its result by a tool call
        return LifecycleStatus.COMPLETE if ended else LifecycleStatus.PENDING
    if not delegations:
        return LifecycleStatus.UNKNOWN
    if any((delegation.parent.thread_id, child.thread_id) in stopped for delegation in delegations):
        return LifecycleStatus.COMPLETE
    awaited = [item for item in delegations if item.turn is not None]
    delivered = all(deliveries.of(item) for item in awaited) and any(deliveries.of(item) for item in delegations)
    return LifecycleStatus.COMPLETE if ended and delivered else LifecycleStatus.PENDING
