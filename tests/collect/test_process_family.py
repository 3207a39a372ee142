"""Processes of a harness are found by their home, wherever they have gone, and ended."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.collect.process_family import end_members, find_members
from tests.support.collecting import alive, until

_SLEEPER = "import time; print('up', flush=True); time.sleep(1000)"
_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + _SLEEPER


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def _start(started: list[subprocess.Popen[str]], home: Path, program: str = _SLEEPER) -> int:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={"HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process.pid


def test_members_are_told_by_their_home(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """One in another session belongs to the harness, one with another home, be its name longer, does not."""
    leader, other = _start(started, tmp_path), _start(started, tmp_path)
    _start(started, tmp_path / "more")
    assert {member.pid for member in find_members((), tmp_path)} == {leader, other}


def test_a_process_without_the_home_is_told_by_its_session(
    started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """A child that cleared its environment is still in the session of its parent."""
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SLEEPER!r}], env={{}}); "
    leader = _start(started, tmp_path, child + "import time; time.sleep(1000)")
    until(lambda: len(find_members((), tmp_path)) == 2)
    end_members((), tmp_path, grace=5)
    assert find_members((), tmp_path) == []
    del leader


def test_a_descendant_is_told_by_its_keeper(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """Whatever its environment and session; the keeper itself is no member, and a stranger is none."""
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SLEEPER!r}], start_new_session=True); "
    keeper = _start(started, tmp_path / "one", child + "import time; time.sleep(1000)")
    stranger = _start(started, tmp_path / "two")
    until(lambda: len(find_members((keeper,), None)) == 1)
    end_members((keeper,), None, grace=5)
    assert find_members((keeper,), None) == []
    assert alive(keeper)
    assert alive(stranger)


def test_nobody_of_our_own_session_is_a_member() -> None:
    """Whatever HOME this process has, it does not end itself."""
    own = Path(os.environ.get("HOME", "/nowhere"))
    assert os.getpid() not in {member.pid for member in find_members((), own)}


@pytest.mark.parametrize("program", [_SLEEPER, _STUBBORN])
def test_all_members_are_ended(started: list[subprocess.Popen[str]], tmp_path: Path, program: str) -> None:
    """SIGTERM first, SIGKILL for who does not listen; a stranger lives on."""
    pids = [_start(started, tmp_path, program), _start(started, tmp_path, _SLEEPER)]
    stranger = _start(started, tmp_path / "more")
    end_members((), tmp_path, grace=0.3)
    assert not any(map(alive, pids))
    assert alive(stranger)
    assert started[0].wait() == (-9 if program is _STUBBORN else -15)


def test_nothing_to_end_is_fine(tmp_path: Path) -> None:
    """A harness that has ended by itself and left nothing."""
    end_members((), tmp_path, grace=1)
    end_members((2**22 - 1,), tmp_path, grace=1)
