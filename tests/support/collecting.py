"""Runs `collect` in a process of its own with a fake harness, against a scripted provider."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roller_capture.collect.command import run_collect
from roller_capture.collect.request import CollectRequest, KeyVia, Redo
from roller_capture.errors import RollerError
from roller_capture.terminal import say
from roller_capture.vocabulary import DebugRetention

REPOSITORY = Path(__file__).resolve().parent.parent.parent
REAL_KEY = "sk-real-key-canary-0123456789"
_LONGEST_WAIT = 90.0


def fake_claude(directory: Path) -> Path:
    """An executable that plays Claude Code."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "claude"
    source = (Path(__file__).parent / "fake_claude.py").read_text(encoding="utf-8")
    program.write_text(f"#!{sys.executable} -I\n{source}", encoding="utf-8")
    program.chmod(0o700)
    return program


def collecting(
    request: CollectRequest, *, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """A running `collect`, in a session of its own; stdout and stderr are pipes."""
    fields = {name: _plain(value) for name, value in _members(request).items()}
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLER_", "ANTHROPIC_"))}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.collecting", json.dumps(fields)],
        cwd=REPOSITORY,
        env={**variables, **({"ANTHROPIC_API_KEY": REAL_KEY} if environment is None else environment)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def _members(request: CollectRequest) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def until(true: Callable[[], object], process: "subprocess.Popen[str] | None" = None) -> None:
    """Waits for something to become true; fails after long, and at once when `process` ends first."""
    end = time.monotonic() + _LONGEST_WAIT
    while not true():
        if process is not None and process.poll() is not None and not true():
            raise AssertionError(f"collect ended first: {process.communicate()}")
        if time.monotonic() > end:
            raise AssertionError("it never came true")
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def main() -> int:
    """`python -m tests.support.collecting JSON`: what the command line does with its options."""
    fields = json.loads(sys.argv[1])
    for name in ("run_dir", "harness_bin", "workdir", "samples"):
        fields[name] = None if fields[name] is None else Path(fields[name])
    for name in ("prompts", "harness_args"):
        fields[name] = tuple(fields[name])
    for name, kind in (("key_via", KeyVia), ("capture_debug", DebugRetention)):
        fields[name] = kind(fields[name])
    fields["redo"] = None if fields["redo"] is None else Redo(fields["redo"])
    try:
        return run_collect(CollectRequest(**fields))
    except RollerError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
