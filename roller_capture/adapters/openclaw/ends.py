"""How each child stands at the end: by the registry, and by the tasks of the messages that were sent to it later."""

from collections.abc import Iterator, Mapping
from typing import Final

from roller_capture.adapters.openclaw.delegations import Delegation, Delegations
from roller_capture.adapters.openclaw.facts import ChildRun, Home, Session, Task
from roller_capture.vocabulary import ExecutionStatus, LifecycleStatus

DELIVERED: Final = "delivered"
_TERMINAL: Final = "terminal"
_OK: Final = "ok"
_FAILED_OUTCOMES: Final = frozenset({"error", "timeout"})
_KILLED: Final = "subagent-killed"
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


def child_status(home: Home, child: Session, delegations: Delegations) -> tuple[ExecutionStatus, LifecycleStatus]:
    """How a child ended its last task, and whether all of them have ended and were told. One of which a record speaks
    that does not fit is `unknown`, whatever the others say (protocol, OpenClaw: an identity mismatch)."""
    runs = [run for run in home.runs if run.child_key == child.key]
    if not runs:
        return ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN
    messages = [item for item in delegations.of_child.get(child.key, ()) if not item.is_spawn]
    status = task_status(messages[-1].task) if messages else run_status(runs[-1])
    found = set(_lifecycles(home, runs, messages))
    if child.key in delegations.doubtful | home.contradicted or LifecycleStatus.UNKNOWN in found:
        return status, LifecycleStatus.UNKNOWN
    return status, LifecycleStatus.PENDING if LifecycleStatus.PENDING in found else LifecycleStatus.COMPLETE


def has_ended(run: ChildRun) -> bool:
    """Whether the registry says that a run is over."""
    return run.execution == _TERMINAL


def run_status(run: ChildRun) -> ExecutionStatus:
    """How a run of the registry ended."""
    if not has_ended(run) or run.ended_reason == _KILLED:
        return ExecutionStatus.INTERRUPTED
    if run.outcome == _OK:
        return ExecutionStatus.COMPLETED
    return ExecutionStatus.FAILED if run.outcome in _FAILED_OUTCOMES else ExecutionStatus.UNKNOWN


def task_status(task: Task | None) -> ExecutionStatus:
    """How the run of a message ended, as its task says."""
    return _TASK_STATUS.get(task.status if task is not None else None, ExecutionStatus.UNKNOWN)


def _lifecycles(home: Home, runs: list[ChildRun], messages: list[Delegation]) -> Iterator[LifecycleStatus]:
    for run in runs:
        settled = _is_settled(run) or _was_stopped(home, run)
        yield LifecycleStatus.COMPLETE if settled else LifecycleStatus.PENDING
    for item in messages:
        status = task_status(item.task)
        if status is ExecutionStatus.UNKNOWN:
            yield LifecycleStatus.UNKNOWN
        else:
            told = status is not ExecutionStatus.INTERRUPTED and (item.is_answered or item.told is not None)
            yield LifecycleStatus.COMPLETE if told else LifecycleStatus.PENDING


def _is_settled(run: ChildRun) -> bool:
    """Ended, and delivered where delivery is owed."""
    owed = run.expects_delivery and run.delivery not in _NOT_OWED
    return has_ended(run) and (run.delivery == DELIVERED or not owed)


def _was_stopped(home: Home, run: ChildRun) -> bool:
    """By a tool call of its own requester, so that it is owed no delivery. Also the end of the gateway or of the root's
    turn kills children (measured): these are cut."""
    requester = home.sessions.get(run.requester_key)
    if not has_ended(run) or run.ended_reason != _KILLED or requester is None:
        return False
    stopped = set[str]().union(*(thread.cancelled for thread in requester.threads))
    return any(
        task.task_id in stopped and task.run_id == run.task_run_id and task.session_key == run.child_key
        for task in home.tasks
    )
