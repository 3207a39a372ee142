"""Runs the real Claude Code once, in a home of its own, against a scripted provider or a proxy before it."""

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from roller_capture.scripted_provider.scenario import Scenario

_LIMIT_SECONDS = 150  # a run that hangs must end some day; the slowest scenario takes under 30 s
_QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)


@dataclass(frozen=True, slots=True)
class ClaudeCodeRun:
    """What one run left behind."""

    exit_code: int
    home: Path
    stdout: Path
    stderr: Path

    @property
    def projects(self) -> Path:
        """The native logs."""
        return self.home / ".claude" / "projects"


def run_claude_code(binary: Path, scenario: Scenario, directory: Path, base_url: str) -> ClaudeCodeRun:
    """Runs `claude -p PROMPT` below `directory` with no setting of this machine's user."""
    home, workspace = directory / "home", directory / "workspace"
    home.mkdir(parents=True)
    workspace.mkdir()
    for name, text in scenario.files.items():
        target = workspace / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    command = [str(binary), "-p", scenario.prompt, "--output-format", "stream-json", "--verbose"]
    run = ClaudeCodeRun(0, home, directory / "stdout.jsonl", directory / "stderr.txt")
    with run.stdout.open("wb") as out, run.stderr.open("wb") as err:
        process = subprocess.Popen(
            [*command, "--dangerously-skip-permissions"],
            cwd=workspace,
            env=_environment(home, base_url) | dict(scenario.environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        exit_code = _wait(process, scenario.kill_when)
    return ClaudeCodeRun(exit_code, home, run.stdout, run.stderr)


def _environment(home: Path, base_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "IS_SANDBOX": "1",
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_MODEL": "scripted-model",
        "ANTHROPIC_SMALL_FAST_MODEL": "scripted-small",
        **dict.fromkeys(_QUIET, "1"),
    }


def _wait(process: subprocess.Popen[bytes], kill_when: threading.Event | None) -> int:
    try:
        if kill_when is not None and kill_when.wait(_LIMIT_SECONDS):
            os.killpg(process.pid, signal.SIGTERM)
        return process.wait(_LIMIT_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):  # what is left of it, and of the commands it ran
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
