"""A harness's process that works for all turns of an attempt, such as a gateway: started, ready, drained, ended.

Stop order (design section 11): the turns' processes have ended by themselves, the subtasks in the service have been
waited for, then the service goes, and only then the proxy.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from roller_capture.collect.kept_process import Keeping, KeptProcess, Output
from roller_capture.collect.private_umask import open_private
from roller_capture.collect.waiting import Cause, wait_for_first
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand, HarnessService, LaunchSettings
from roller_capture.terminal import say

READY_SECONDS: Final = 180.0
_LOOK_FOR_READY: Final = 0.1
_LOOK_FOR_SETTLED: Final = 1.0


class RunningService:
    """A service whose process has been started. `descriptor` becomes readable when it ends."""

    def __init__(self, service: HarnessService, descriptor: int, output: Path) -> None:
        self._service = service
        self.descriptor: Final = descriptor
        self._output = output

    def wait_until_ready(self, others: dict[int, Cause], tick: Callable[[], None] | None) -> Cause | None:
        """Waits until turns can be sent to it. `None` when they can; else what came first of `others`.

        Raises `RollerError` when it ends before, or is not ready in time.
        """
        deadline = time.monotonic() + READY_SECONDS
        descriptors = {**others, self.descriptor: Cause.SERVICE_ENDED}
        while not self._service.is_ready(self._output):
            if time.monotonic() > deadline:
                raise RollerError(f"the harness's service was not ready within {READY_SECONDS:g} s")
            cause = wait_for_first(descriptors, time.monotonic() + _LOOK_FOR_READY, tick)
            if cause is Cause.SERVICE_ENDED:
                raise RollerError("the harness's service ended before it was ready")
            if cause is not None:
                return cause
        return None

    def drain(
        self,
        others: dict[int, Cause],
        seconds: float,
        tick: Callable[[], None] | None,
        tell: Callable[[str], None] = say,
    ) -> Cause | None:
        """Waits until every subtask has ended and was delivered. `None` when it is so; else what came first."""
        deadline = time.monotonic() + seconds
        descriptors = {**others, self.descriptor: Cause.SERVICE_ENDED}
        told = False
        while not self._service.is_settled():
            if time.monotonic() > deadline:
                return Cause.DRAIN_TIMEOUT
            if not told:
                tell("the turn has ended; waiting for its subtasks")
                told = True
            cause = wait_for_first(descriptors, time.monotonic() + _LOOK_FOR_SETTLED, tick)
            if cause is not None:
                return cause
        return None


@contextlib.contextmanager
def running(
    service: HarnessService, settings: LaunchSettings, output: Path, keeping: Keeping, on_start: Callable[[int], None]
) -> Iterator[RunningService]:
    """Starts it, its output going to `output`. All processes in the attempt's home are gone when this ends.

    Raises `RollerError` when it cannot be started.
    """
    command = service.command
    with open_private(output) as stream:
        try:
            process = KeptProcess.start(command, settings, Output(stream, stream), keeping)
        except OSError as error:
            raise _not_started(command, error) from None
    try:
        on_start(process.pid)
        yield RunningService(service, process.ended, output)
    finally:
        try:
            process.end(settings.home)
        except OSError as error:
            raise _not_started(command, error) from None


def _not_started(command: HarnessCommand, error: OSError) -> RollerError:
    return RollerError(f"{command.arguments[0]}: cannot be started ({error.strerror})", exit_code=2)
