"""How far an executor got: read from the last assistant message of its session.

Measured with 1.18.33: a message that ended well has `time.completed` and `finish`; one that failed has an error in
place of `finish`; one that was cut by the end of the run has neither, or the error `MessageAbortedError`.
"""

from dataclasses import dataclass
from typing import Final

from roller_capture.adapters.opencode.facts import EndState, Message, Session
from roller_capture.vocabulary import ExecutionStatus

_ABORTED: Final = "MessageAbortedError"
_GOES_ON: Final = frozenset({"tool-calls"})
"""Finish reasons after which another model call follows."""

_STATUS: Final = {
    EndState.ENDED: ExecutionStatus.COMPLETED,
    EndState.FAILED: ExecutionStatus.FAILED,
    EndState.ABORTED: ExecutionStatus.INTERRUPTED,
    EndState.RUNNING: ExecutionStatus.INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class End:
    """The last word of an executor: its state, the message that shows it, and the finish reason or the error."""

    state: EndState
    message: Message
    word: str | None

    @property
    def execution_status(self) -> ExecutionStatus:
        """The participant's status. One that just stopped is interrupted."""
        return _STATUS[self.state]


def end_of(session: Session) -> End | None:
    """The end of a session; `None` where no model ever answered in it."""
    last = next((message for message in reversed(session.messages) if message.role == "assistant"), None)
    if last is None:
        return None
    return End(_state_of(last), last, last.error or last.finish)


def _state_of(message: Message) -> EndState:
    if message.error is not None:
        return EndState.ABORTED if message.error == _ABORTED else EndState.FAILED
    if message.is_completed_assistant and message.finish not in _GOES_ON and not message.is_compaction:
        return EndState.ENDED
    return EndState.RUNNING
