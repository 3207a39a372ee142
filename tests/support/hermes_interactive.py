"""Runs the real Hermes interactively in a pseudo-terminal, behind the recorder.

This is the one use in which its children run in the background, and in which it names its sessions. `collect` never
does it; a user by hand may.
"""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.environment import harness_environment
from roller_capture.launchers.hermes import LAUNCHER
from roller_capture.proxy_process import ProxyProcess
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.vocabulary import Protocol
from tests.support.capture import Capture, read_lines, roller_capture

_LIMIT_SECONDS = 120.0
_QUIET_SECONDS = 3.0
_KEY = "OPENAI_API_KEY"


def capture_interactively(
    binary: Path, scenario: Scenario, directory: Path, *settings: str, then: str | None = None
) -> Capture:
    """Types the scenario's prompt, waits for `kill_when` and for silence, types `then` if given, and leaves with
    `/exit`; then finalizes as a user would, with the home. The attempt is `directory/attempt`."""
    provider = _run(binary, scenario, directory, settings, then)
    attempt = directory / "attempt"
    done = roller_capture("finalize", str(attempt), "--native", str(directory / "home"), "--capture-debug", "full")
    assert done.returncode == 0, done.stderr
    return Capture(
        provider.truth.records,
        len(provider.truth.others),
        0,
        attempt,
        json.loads((attempt / "manifest.json").read_bytes()),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )


def _run(
    binary: Path, scenario: Scenario, directory: Path, settings: Sequence[str], then: str | None
) -> ScriptedProvider:
    for name in ("home", "temporary", "work"):
        (directory / name).mkdir(parents=True)
    with (
        ScriptedProvider(scenario.decide) as provider,
        ProxyProcess(directory / "attempt", "hermes", provider.url) as proxy,
    ):
        launch = LaunchSettings(
            binary=binary,
            home=directory / "home",
            temporary=directory / "temporary",
            workdir=directory / "work",
            base_url=proxy.url,
            key_variable=_KEY,
            key="dummy-key",
            model="scripted-model",
            protocol=Protocol.OPENAI_CHAT_COMPLETIONS,
            profile=None,
            drain_timeout=60.0,
            arguments=tuple(part for setting in settings for part in ("--config", setting)),
        )
        LAUNCHER.prepare(launch)
        environment = harness_environment(LAUNCHER.turn(launch, "", None), launch.home)
        environment.pop("ROLLER_HERMES_FINITE")
        environment |= {"TERM": "xterm", "COLUMNS": "150", "LINES": "50"}
        terminal = _Terminal([str(binary), "chat", "--yolo", "--cli"], launch.workdir, environment)
        try:
            terminal.until(terminal.has_printed)
            terminal.until_quiet()
            terminal.say(scenario.prompt)
            assert scenario.kill_when is not None
            terminal.until(scenario.kill_when.is_set)
            terminal.until_quiet()
            if then is not None:
                terminal.say(then)
                terminal.until_quiet()
            terminal.say("/exit")
            terminal.until(terminal.has_ended)
        finally:
            terminal.close()
    return provider


class _Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str]) -> None:
        self._descriptor, inner = pty.openpty()
        self._process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
        )
        os.close(inner)
        self._printed = False

    def has_ended(self) -> bool:
        """Whether the program is gone."""
        return self._process.poll() is not None

    def has_printed(self) -> bool:
        """Whether anything has been seen of it."""
        return self._printed

    def say(self, text: str) -> None:
        """Types a line."""
        os.write(self._descriptor, text.encode())
        self._read(0.5)
        os.write(self._descriptor, b"\r")

    def until(self, event: Callable[[], bool]) -> None:
        """Reads on until the event."""
        end = time.monotonic() + _LIMIT_SECONDS
        while not event():
            assert time.monotonic() < end, "Hermes did not come to the awaited point"
            self._read(0.2)

    def until_quiet(self) -> None:
        """Reads on until nothing has come for a while."""
        while self._read(_QUIET_SECONDS):
            pass

    def _read(self, seconds: float) -> bool:
        """Reads once; whether anything came in that time."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return False
        with contextlib.suppress(OSError):  # the program has closed its side
            data = os.read(self._descriptor, 65536)
            self._printed = True
            if b"\x1b[6n" in data:
                os.write(self._descriptor, b"\x1b[1;1R")  # it asked where the cursor is
            return bool(data)
        return False

    def close(self) -> None:
        """Ends the program, and all that it started in its session."""
        if not self.has_ended():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._descriptor)
