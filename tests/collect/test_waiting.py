"""Which of several things happened first."""

import os
import subprocess
import sys
import time

from roller_capture.collect.waiting import Cause, process_descriptor, wait_for_first


def test_the_end_of_a_process_is_seen() -> None:
    """Without anybody waiting for it in the meantime."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    with process_descriptor(process.pid) as descriptor:
        assert wait_for_first({descriptor: Cause.HARNESS_ENDED}, None) is Cause.HARNESS_ENDED
    assert process.wait() == 0


def test_of_two_at_once_the_first_named_counts() -> None:
    """A harness that has ended did so by itself, whatever signal comes in the same moment."""
    pipes = [os.pipe(), os.pipe()]
    for _, write_end in pipes:
        os.close(write_end)
    causes = {pipes[0][0]: Cause.HARNESS_ENDED, pipes[1][0]: Cause.STOP_SIGNAL}
    assert wait_for_first(causes, None) is Cause.HARNESS_ENDED
    for read_end, _ in pipes:
        os.close(read_end)


def test_the_deadline_ends_a_wait() -> None:
    """Also one that is over already; and somebody who looks is told now and then."""
    read_end, write_end = os.pipe()
    told: list[None] = []
    assert wait_for_first({read_end: Cause.STOP_SIGNAL}, time.monotonic() - 1) is None
    assert wait_for_first({read_end: Cause.STOP_SIGNAL}, time.monotonic() + 1.2, lambda: told.append(None)) is None
    assert told
    os.close(read_end)
    os.close(write_end)
