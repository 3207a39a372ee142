"""Waits for a process, a signal, the proxy's death or a deadline, whichever comes first, without looking again and
again."""

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

_TICK_SECONDS: Final = 1.0


class Cause(StrEnum):
    """Why a wait ended. The text is what launcher.json calls it."""

    HARNESS_ENDED = "harness"
    STOP_SIGNAL = "signal"
    PROXY_DIED = "proxy"
    TIMEOUT = "timeout"
    DRAIN_TIMEOUT = "drain_timeout"
    SERVICE_ENDED = "service"  # the harness's own process that works for all turns
    COLLECT_FAILED = "collect"  # it failed itself, or was killed


STOPPED_BY_COLLECT: Final = frozenset((Cause.STOP_SIGNAL, Cause.TIMEOUT, Cause.DRAIN_TIMEOUT, Cause.COLLECT_FAILED))
"""Ends that `collect` itself has made, or its watchdog for it, while the proxy went on."""


@contextlib.contextmanager
def process_descriptor(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when this child of ours has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_for_first(
    descriptors: dict[int, Cause], deadline: float | None, tick: Callable[[], None] | None = None
) -> Cause | None:
    """The cause whose descriptor is the first to become readable, in the order given; `None` at the deadline.

    `deadline` is a time of `time.monotonic`. `tick` is called about once a second while waiting.
    """
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        pause = left if tick is None else min(_TICK_SECONDS, left if left is not None else _TICK_SECONDS)
        ready = {descriptor for descriptor, _ in poller.poll(None if pause is None else pause * 1000)}
        for descriptor, cause in descriptors.items():
            if descriptor in ready:
                return cause
        if deadline is not None and time.monotonic() >= deadline:
            return None
        if tick is not None:
            tick()
