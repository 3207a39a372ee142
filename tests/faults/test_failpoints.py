"""A strike falls where it was ordered: at that call, in that moment, in that process."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.failpoints import Failpoints, Moment, Strike


def child(attempt: Path, strike: Strike | None, work: Callable[[], object]) -> tuple[int, list[str]]:
    """How a forked process ended that did this work, and the calls that it made."""
    log = attempt.parent.with_suffix(".steps")
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            points = Failpoints(attempt, strike)
            points.install()
            work()
            log.write_text(json.dumps(points.steps))
            code = 0
        except OSError as error:
            code = error.errno or 3
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, json.loads(log.read_text()) if log.exists() else []


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """An attempt in a folder of its own."""
    folder = tmp_path / "here" / "attempt"
    folder.mkdir(parents=True)
    return folder


def two_writes(attempt: Path) -> Callable[[], object]:
    """An event and a body, written as the recorder writes them."""

    def work() -> None:
        for name, data in (("events.jsonl", b'{"type":"response"}\n'), ("body", b"1234")):
            descriptor = os.open(attempt / name, os.O_WRONLY | os.O_CREAT)
            os.write(descriptor, data)
            os.close(descriptor)
        (attempt / "body").rename(attempt / "moved")
        (attempt.parent.parent / "elsewhere").write_text("no step")

    return work


def test_steps_have_names(attempt: Path) -> None:
    """Of the function, and of what it touches; what lies elsewhere is no step."""
    code, steps = child(attempt, None, two_writes(attempt))
    assert code == 0
    assert steps == ["open events.jsonl", "write response", "open body", "write body", "rename moved"]


@pytest.mark.parametrize(
    ("moment", "stored"), [(Moment.BEFORE, b""), (Moment.TORN, b'{"type":"r'), (Moment.AFTER, b'{"type":"response"}\n')]
)
def test_a_kill_is_before_within_or_after_the_call(attempt: Path, moment: Moment, stored: bytes) -> None:
    """And nothing comes behind it."""
    code, _ = child(attempt, Strike("write response", 1, moment), two_writes(attempt))
    assert code == -signal.SIGKILL
    assert (attempt / "events.jsonl").read_bytes() == stored
    assert not (attempt / "body").exists()


def test_the_nth_call_is_counted_among_those_that_match(attempt: Path) -> None:
    """`*` counts all of them."""
    code, _ = child(attempt, Strike("*", 4, number=signal.SIGTERM), two_writes(attempt))
    assert code == -signal.SIGTERM
    assert (attempt / "events.jsonl").stat().st_size
    assert (attempt / "body").read_bytes() == b""


def test_a_disk_fails_from_a_call_on(attempt: Path) -> None:
    """With the given error."""
    code, _ = child(attempt, Strike("write *", 2, number=errno.ENOSPC, fails=True), two_writes(attempt))
    assert code == errno.ENOSPC
    assert (attempt / "body").read_bytes() == b""
