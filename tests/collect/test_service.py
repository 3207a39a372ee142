"""A harness's own service beside the turns: ready before the first, drained after each, gone at the end."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect import service as service_module
from roller_capture.collect.guard import Guard
from roller_capture.collect.kept_process import Keeping
from roller_capture.collect.process_family import find_members
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.collect.turns import RunOutcome, TurnFiles, TurnLimits, TurnRunner
from roller_capture.collect.waiting import Cause
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand, LaunchSettings
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus, Protocol
from tests.support.collecting import alive

GATEWAY = """
import pathlib, subprocess, sys, time
home = pathlib.Path(sys.argv[1])
if "slow" in sys.argv: time.sleep(0.5)
if "dies" in sys.argv: sys.exit(3)
if "with-child" in sys.argv:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
    (home / "pids").write_text(f"{child.pid}\\n")
print("ready", flush=True)
while True:
    if (home / "turn").exists():
        if "with-child" in sys.argv:
            time.sleep(0.5)
            if child.poll() is None: print("child of the service lives", flush=True)
        if "dies-draining" in sys.argv:
            if (home / "asked").exists(): sys.exit(3)
            continue
        if "never-settles" not in sys.argv:
            time.sleep(0.5)
            (home / "turn").unlink()
    time.sleep(0.02)
"""


class Gateway:
    """A service that is settled when no file `turn` is there; each turn leaves one."""

    def __init__(self, settings: LaunchSettings, *words: str) -> None:
        self._home = settings.home
        self.command = HarnessCommand((sys.executable, "-c", GATEWAY, str(settings.home), *words), {})

    def is_ready(self, output: Path) -> bool:
        return "ready" in output.read_text()

    def is_settled(self) -> bool:
        (self._home / "asked").touch()
        return not (self._home / "turn").exists()


class FakeLauncher:
    """Turns that leave something to do for the gateway, and a helper process of their own."""

    def __init__(self, *words: str, code: int = 0, says_failed: bool = False) -> None:
        self._words = words
        self._code = code
        self._says_failed = says_failed

    def service(self, settings: LaunchSettings) -> Gateway:
        return Gateway(settings, *self._words)

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:  # noqa: ARG002
        text = (
            f"import pathlib, subprocess, sys; home = pathlib.Path({str(settings.home)!r})\n"
            "assert not (home / 'turn').exists(), 'the turn before was not drained'\n"
            "(home / 'turn').touch()\n"
            "pids = (home / 'pids').open('a')\n"
            "helper = subprocess.Popen(['sleep', '600'], start_new_session=True, env={})\n"
            "print(helper.pid, file=pids, flush=True)\n"
            f"sys.exit({self._code})"
        )
        return HarnessCommand((sys.executable, "-c", text), {})

    def session_ids(self, stdout: Path) -> list[str]:  # noqa: ARG002
        return ["s1"]

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def has_answered(self, stdout: Path) -> bool:  # noqa: ARG002
        return True

    def turn_has_ended(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return self._says_failed


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    """Nobody stops the run unless a test does."""
    with StopSignal.installed() as signal:
        yield signal


def run(tmp_path: Path, stop: StopSignal, launcher: Any, turns: int = 1, drain: float = 30) -> RunOutcome:
    """The turns in a home of their own; nothing of them is alive afterwards."""
    home = tmp_path / "home"
    home.mkdir()
    settings = LaunchSettings(
        binary=Path(sys.executable),
        home=home,
        temporary=tmp_path,
        workdir=tmp_path,
        base_url=None,
        key_variable="KEY",
        key=None,
        model=None,
        protocol=Protocol.ANTHROPIC_MESSAGES,
        profile=None,
        drain_timeout=drain,
        arguments=(),
    )
    files = TurnFiles(tmp_path / "out", tmp_path / "err", tmp_path / "service")
    with Guard() as guard, guard.lifeline() as lifeline:
        runner = TurnRunner(launcher, settings, TurnLimits(60, stop, None, Keeping(lifeline)), files)
        try:
            return runner.run(("again",) * turns, lambda _: None, None)
        finally:
            assert find_members((), home) == []


@pytest.mark.parametrize("word", ["quick", "slow"])
def test_every_turn_finds_the_service_ready_and_the_turn_before_drained(
    tmp_path: Path, stop: StopSignal, word: str
) -> None:
    """The service lives through all turns, though what each of them started is ended with it."""
    outcome = run(tmp_path, stop, FakeLauncher(word), turns=3)
    assert (tmp_path / "err").read_text() == ""
    assert (outcome.exit_codes, outcome.ended_by, outcome.errors) == ([0, 0, 0], Cause.HARNESS_ENDED, [])
    assert outcome.execution_status is ExecutionStatus.COMPLETED
    assert (tmp_path / "service").read_text() == "ready\n"


@pytest.mark.parametrize(
    ("word", "code", "status"),
    [
        ("never-settles", 0, ExecutionStatus.COMPLETED),
        ("never-settles", 1, ExecutionStatus.FAILED),
        ("dies-draining", 0, ExecutionStatus.COMPLETED),
        ("dies-draining", 1, ExecutionStatus.FAILED),
    ],
)
def test_a_failed_drain_is_an_error_beside_the_turn(
    tmp_path: Path, stop: StopSignal, word: str, code: int, status: ExecutionStatus
) -> None:
    """A successful main turn stays successful."""
    drain = 0.5 if word == "never-settles" else 60
    outcome = run(tmp_path, stop, FakeLauncher(word, code=code), drain=drain)
    assert [error.code for error in outcome.errors] == [AttemptErrorCode.DRAIN_FAILED]
    assert (outcome.exit_codes, outcome.execution_status) == ([code], status)


def test_no_turn_follows_a_failed_drain(tmp_path: Path, stop: StopSignal) -> None:
    """Its subtasks would mix with those of the next one."""
    outcome = run(tmp_path, stop, FakeLauncher("never-settles"), turns=2, drain=0.3)
    assert (outcome.exit_codes, outcome.turns_not_run) == ([0], 1)
    assert outcome.execution_status is ExecutionStatus.INTERRUPTED


def test_no_turn_follows_one_that_failed_by_its_own_words(tmp_path: Path, stop: StopSignal) -> None:
    """Its exit code is 0."""
    outcome = run(tmp_path, stop, FakeLauncher("quick", says_failed=True), turns=2)
    assert (outcome.exit_codes, outcome.turns_not_run) == ([0], 1)
    assert outcome.execution_status is ExecutionStatus.FAILED


@pytest.mark.parametrize(("words", "text"), [(("dies",), "ended before"), ((), "not ready within")])
def test_a_service_that_does_not_start_is_said(
    tmp_path: Path, stop: StopSignal, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    """No turn is run."""
    monkeypatch.setattr(service_module, "READY_SECONDS", 0.4 if not words else 60.0)
    launcher = FakeLauncher(*words)
    if not words:
        monkeypatch.setattr(Gateway, "is_ready", lambda *_: False)
    with pytest.raises(RollerError, match=text):
        run(tmp_path, stop, launcher)
    assert not (tmp_path / "out").exists()


def test_only_what_a_turn_has_started_ends_with_it(tmp_path: Path, stop: StopSignal) -> None:
    """Wherever it has gone; the service and its children go on, until it is ended too."""
    outcome = run(tmp_path, stop, FakeLauncher("with-child"), turns=2)
    assert outcome.exit_codes == [0, 0]
    assert (tmp_path / "service").read_text() == "ready\n" + "child of the service lives\n" * 2
    pids = [int(pid) for pid in (tmp_path / "home" / "pids").read_text().split()]
    assert len(pids) == 3
    assert not any(map(alive, pids))


def test_a_stop_while_draining_ends_the_service(tmp_path: Path, stop: StopSignal) -> None:
    """The user's signal comes first."""
    original = Gateway.is_settled

    def stopped(self: Gateway) -> bool:
        os.kill(os.getpid(), 15)
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gateway, "is_settled", stopped)
        outcome = run(tmp_path, stop, FakeLauncher("never-settles"))
    assert outcome.ended_by is Cause.STOP_SIGNAL
    assert outcome.execution_status is ExecutionStatus.INTERRUPTED
