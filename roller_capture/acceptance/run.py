"""Runs one scenario: the real harness through `collect`, as a user would give the command, against a scripted
provider or a real service."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.acceptance.captured_run import Capture, read_lines, roller_capture
from roller_capture.acceptance.expected import Cell, Plan
from roller_capture.launchers import find_launcher
from roller_capture.launchers.binaries import Binary
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.scenario import Scenario

MODEL: Final = "scripted-model"
_KEY: Final = "sk-acceptance-key"
_LOOK_EVERY: Final = 0.05
RUN: Final = "run"
"""The run directory of a cell, below its folder."""
_PROJECT: Final = "project"
"""Not `work`, which is what an attempt's own working files are called."""
_PROC: Final = Path("/proc")
_KEEPER: Final = b"/keeper.py\0"
"""`collect`'s own process above the harness, whose command line holds the harness's."""


class RunFailedError(Exception):
    """`collect` did not publish anything; the text says why, in its own last words."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all cells of a command: times in seconds, `directory` for the runs."""

    harness: str
    binary: Binary
    directory: Path
    timeout: float
    protocol: str | None = None


def run_cell(setting: Setting, cell: Cell, scenario: Scenario, arguments: tuple[str, ...]) -> Capture:
    """One run against a scripted provider, with further `arguments` of the harness. Raises `RunFailedError`."""
    directory = setting.directory / f"{cell.scenario}-{secrets.token_hex(4)}"
    with ScriptedProvider(scenario.decide) as provider:
        # A mark of its own tells the processes of this run from those of another.
        prompts = (f"{scenario.prompt} This is run {secrets.token_hex(8)}.", *cell.more_prompts)
        options = [*cell.options, *_workdir(directory, scenario.files)]
        command = _command(setting, directory, provider.url, MODEL, prompts)
        command += [*options, *(["--", *arguments] if arguments else [])]
        environment = _environment(setting.harness, _KEY)
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            if cell.kill:
                _kill_when_held(process, scenario, setting)
            _, err = process.communicate()
        provider.stop()
        return _captured(provider, _attempt(directory), process.returncode, err.decode("utf-8", "replace"))


def run_real(
    setting: Setting, plan: Plan, api_base: str, model: str | None, key: str
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run against a real service: the attempt, and what `validate --deep` says. Raises `RunFailedError`."""
    directory = setting.directory / f"real-{secrets.token_hex(4)}"
    command = [*_command(setting, directory, api_base, model, (plan.request,)), *plan.request_options]
    process = subprocess.run(
        command, env=_environment(setting.harness, key), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    attempt = _attempt(directory)
    _refuse_unpublished(attempt, process.stderr.decode("utf-8", "replace"))
    return attempt, roller_capture("validate", "--deep", str(attempt))


def _command(
    setting: Setting, directory: Path, api_base: str, model: str | None, prompts: tuple[str, ...]
) -> list[str]:
    command = [sys.executable, "-m", "roller_capture", "collect", "--harness", setting.harness, "--capture-calls"]
    command += ["--api-base", api_base, "--run-dir", str(directory / RUN), "--harness-bin", str(setting.binary.path)]
    command += ["--timeout", str(setting.timeout), "--capture-debug", "full"]
    command += ["--model", model] if model is not None else []
    command += ["--protocol", setting.protocol] if setting.protocol is not None else []
    for prompt in prompts:
        command += ["--prompt", prompt]
    return command


def _environment(harness: str, key: str) -> dict[str, str]:
    """The key in every variable in which this harness may look for it; which one that is depends on the protocol."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLER_")}
    return {**kept, **dict.fromkeys(find_launcher(harness).traits.key_variables, key)}


def _workdir(directory: Path, files: Mapping[str, str]) -> list[str]:
    if not files:
        return []
    for name, text in files.items():
        path = directory / _PROJECT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return ["--workdir", str(directory / _PROJECT)]


def _attempt(directory: Path) -> Path:
    return directory / RUN / "samples" / "sample-0001" / "capture" / "attempt-0001"


def _kill_when_held(process: subprocess.Popen[bytes], scenario: Scenario, setting: Setting) -> None:
    """Ends the harness, and nothing else, once the script holds the answer that it was to be killed in."""
    while scenario.kill_when is not None and not scenario.kill_when.wait(_LOOK_EVERY):
        if process.poll() is not None:
            return
    executable = find_launcher(setting.harness).traits.executable.encode()
    for pid in sorted(_descendants(process.pid), reverse=True):  # a turn before the service that works for it
        with contextlib.suppress(OSError):
            line, name = ((_PROC / str(pid) / file).read_bytes() for file in ("cmdline", "comm"))
            # Pi overwrites its command line with its name, OpenClaw with `openclaw-gateway` and the like.
            named = name.strip() == executable or name.startswith(executable + b"-")
            if (named or str(setting.binary.path).encode() in line) and _KEEPER not in line:
                os.kill(pid, signal.SIGKILL)
    time.sleep(_LOOK_EVERY)


def _descendants(ancestor: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    found = {ancestor}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {ancestor}


def _captured(provider: ScriptedProvider, attempt: Path, code: int, err: str) -> Capture:
    if provider.script_errors:
        raise RunFailedError(f"the script broke: {provider.script_errors[0]}")
    _refuse_unpublished(attempt, err)
    return Capture(
        provider.truth.records,
        len(provider.truth.others),
        code,
        attempt,
        json.loads((attempt / "manifest.json").read_bytes()),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )


def _refuse_unpublished(attempt: Path, err: str) -> None:
    if not (attempt / "manifest.json").is_file():
        said = [line for line in err.splitlines() if line.strip()][-1:] or ["nothing"]
        raise RunFailedError(f"collect published nothing; its last words: {said[0][:300]}")
