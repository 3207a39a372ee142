"""Ends a process that works for others when all of them are gone, such as the recording proxy of a `collect` that was
killed together with its watchdog.

Whom it watches is told by descriptors that it inherits: process descriptors (`pidfd`), and the end of a pipe of which
others hold the other end. Standard library only.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from typing import Final

_SETTLE_SECONDS: Final = 0.5
"""So that it has seen that its clients are gone, before it is told to end itself."""

_END_SECONDS: Final = 30.0


def end_when_alone(processes: Sequence[int], pipe: int) -> None:
    """From now on this process ends by SIGTERM (and by SIGKILL if that is not enough) once all of `processes` have
    ended, and then everybody has closed the other end of `pipe`."""
    threading.Thread(target=_end_when_alone, args=(processes, pipe), daemon=True).start()


def _end_when_alone(processes: Sequence[int], pipe: int) -> None:
    for descriptor in processes:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll()
    while os.read(pipe, 1):
        pass
    time.sleep(_SETTLE_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
