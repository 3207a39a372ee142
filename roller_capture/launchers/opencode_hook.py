"""Asks an OpenCode before a run whether it has the hooks that our plugin needs.

OpenCode is one program with its JavaScript runtime and its source in it. `BUN_BE_BUN` makes it the bare runtime
(measured with 1.18.33), which then looks the hooks' names up in itself (`hooks/opencode/fits.js`, well below a second).
A program that starts another one, as npm's does, hands the variable on.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from roller_capture.adapters.native_values import as_list, as_mapping
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand
from roller_capture.launchers.binaries import program_state
from roller_capture.launchers.environment import harness_environment
from roller_capture.shipped import shipped_path

_SECONDS: Final = 20
_PROBLEMS: Final[dict[tuple[Path, tuple[int, ...]], str | None]] = {}
"""What programs have told, by path and state: asked once in a process, and not by every sample of a run."""
_AS_RUNTIME: Final = {"BUN_BE_BUN": "1", "OPENCODE_CONFIG_CONTENT": json.dumps({"enabled_providers": []})}
"""A program that does not become the runtime would take the script's path for a prompt: it has no model to ask."""


def check_hook(binary: Path, home: Path, environment: Mapping[str, str]) -> None:
    """Raises `RollerError` (exit 2) where the program lacks a hook of our plugin, or does not tell: no call of the run
    could be attributed by it. `environment` keeps the program within `home`."""
    key = (binary, program_state(binary))
    if key not in _PROBLEMS:
        _PROBLEMS[key] = _ask(binary, home, environment)
    if _PROBLEMS[key] is not None:
        raise RollerError(
            f"{binary}: our plugin does not fit this OpenCode ({_PROBLEMS[key]}): use 1.18.33, or run it yourself "
            "behind mitmdump -s addons/capture.py, then roller-capture finalize",
            exit_code=2,
        )


def _ask(binary: Path, home: Path, environment: Mapping[str, str]) -> str | None:
    """What is wrong with the program, in words, or `None`. Nothing that it starts in its session outlives this."""
    command = HarnessCommand(
        (str(binary), "run", str(shipped_path("hooks", "opencode", "fits.js"))), {**environment, **_AS_RUNTIME}
    )
    try:
        process = subprocess.Popen(
            command.arguments,
            env=harness_environment(command, home),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise RollerError(f"{binary}: cannot be run ({error.strerror})", exit_code=2) from None
    try:
        output, _ = process.communicate(timeout=_SECONDS)
        problems = as_mapping(json.loads(output)).get("problems")
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        problems = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return None if problems == [] else "; ".join(map(str, as_list(problems)))[:200] or "it does not tell its hooks"
