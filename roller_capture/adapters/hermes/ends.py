"""How an executor's last turn ended, by what Hermes told our plugin, or by its rows where there is no plugin log.

Measured with 0.19.0: a child whose model calls fail is reported as `completed` with the reason `max_iterations`, as is
one that was stopped at its limit of turns. So neither word is believed alone: the first one's last request has errors
and no answer, and its turn has no end event; the second one's turn ends, not completed, with every request answered.
"""

from dataclasses import dataclass
from enum import Enum

from roller_capture.adapters.hermes.executors import Executor
from roller_capture.adapters.hermes.facts import Place, PluginLog, Request, State
from roller_capture.vocabulary import ExecutionStatus

_LIMIT = "max_iterations"


class EndState(Enum):
    """How the last turn ended."""

    COMPLETED = "completed"
    LIMITED = "limited"  # at the limit of turns, with a last answer
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class End:
    """An end, Hermes's word for it, and where that stands."""

    state: EndState
    word: str | None = None
    place: Place | None = None

    @property
    def execution_status(self) -> ExecutionStatus:
        """As a participant is published."""
        return _STATUS[self.state]


_STATUS = {
    EndState.COMPLETED: ExecutionStatus.COMPLETED,
    EndState.LIMITED: ExecutionStatus.COMPLETED,
    EndState.FAILED: ExecutionStatus.FAILED,
    EndState.INTERRUPTED: ExecutionStatus.INTERRUPTED,
    EndState.UNKNOWN: ExecutionStatus.UNKNOWN,
}


def find_end(executor: Executor, state: State, log: PluginLog, *, has_ended: bool = False) -> End:
    """The end of the executor's last turn. `has_ended`: its process is known to have ended by itself, which the row of
    a session does not say after a turn that resumed it (measured)."""
    turns = [turn for turn in log.turns if turn.session_id in executor.session_ids]
    if not turns:
        return _by_rows(executor, state)
    last = turns[-1]
    end = log.turn_ends.get(last.turn_id)
    if end is None:
        return _without_end(executor, last.turn_id, log, has_ended=has_ended)
    if end.session_id not in executor.session_ids:
        return End(EndState.UNKNOWN)
    if end.interrupted:
        return End(EndState.INTERRUPTED, None, end.place)
    if end.completed:
        return End(EndState.COMPLETED, "completed", end.place)
    requests = _requests(executor, last.turn_id, log)
    row = state.last_rows.get(executor.session_ids[-1])
    answered = bool(requests) and all(request.request_id in log.outputs for request in requests)
    if answered and row is not None and row.role == "assistant" and row.has_text:
        return End(EndState.LIMITED, _LIMIT, end.place)
    return End(EndState.UNKNOWN, None, end.place)


def _without_end(executor: Executor, turn_id: str, log: PluginLog, *, has_ended: bool) -> End:
    """A turn without an end event was given up after a failed request, or was cut off."""
    requests = _requests(executor, turn_id, log)
    ended = has_ended or executor.sessions[-1].end_reason is not None or executor.key in log.child_ends
    if requests and ended and requests[-1].request_id not in log.outputs:
        errors = log.errors.get(requests[-1].request_id)
        if errors:
            return End(EndState.FAILED, errors[-1].reason or "failed", errors[-1].place)
    return End(EndState.INTERRUPTED)


def _requests(executor: Executor, turn_id: str, log: PluginLog) -> list[Request]:
    """Those of the executor's turn; another may be said to have been part of it."""
    own = executor.session_ids
    return [request for request in log.requests if request.turn_id == turn_id and request.session_id in own]


def _by_rows(executor: Executor, state: State) -> End:
    row = state.last_rows.get(executor.session_ids[-1])
    ended = executor.sessions[-1].end_reason is not None
    if row is None or not ended:
        return End(EndState.UNKNOWN)
    if row.role == "assistant" and row.finish == "stop":
        return End(EndState.COMPLETED, "completed", row.place)
    return End(EndState.UNKNOWN)
