"""Proxies come up by turns: each needs a core for about a second, so that more at once would only make all of them
late, and some so late that they are given up."""

import threading
from types import TracebackType

from roller_capture.collect.stop_signal import StopSignal
from roller_capture.errors import RollerError
from roller_capture.vocabulary import ExecutionStatus


class StoppedError(RollerError):
    """The user stopped what runs while this attempt waited for its turn: it never began."""

    execution_status = ExecutionStatus.INTERRUPTED


class Starting:
    """A turn to start; a context manager that many threads share. Raises `StoppedError` for who waited in vain."""

    def __init__(self, stop: StopSignal, at_once: int) -> None:
        self._stop = stop
        self._turns = threading.BoundedSemaphore(at_once)

    def __enter__(self) -> None:
        if self._turns.acquire(blocking=False):
            return
        self._turns.acquire()
        if self._stop.received is not None:
            self._turns.release()
            raise StoppedError("was stopped before it began")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.release()
