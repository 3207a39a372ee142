"""Asks an OpenCode before a run whether it has the hooks that our plugin needs.

OpenCode is one program with its JavaScript runtime and its source in it. `BUN_BE_BUN` makes it the bare runtime
(measured with 1.18.33), which then looks the hooks' names up in itself (`hooks/opencode/fits.js`, well below a second).
A program that starts another one, as npm's does, hands the variable on.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from roller_capture.adapters.native_values import as_list, as_mapping
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand
from roller_capture.launchers.environment import harness_environment
from roller_capture.shipped import shipped_path

_SECONDS: Final = 60
_AS_RUNTIME: Final = {"BUN_BE_BUN": "1", "OPENCODE_CONFIG_CONTENT": json.dumps({"enabled_providers": []})}
"""A program that does not become the runtime would take the script's path for a prompt: it has no model to ask."""


def check_hook(binary: Path, home: Path, environment: Mapping[str, str]) -> None:
    """Raises `RollerError` (exit 2) where the program lacks a hook of our plugin, or does not tell: no call of the run
    could be attributed by it. `environment` keeps the program within `home`."""
    command = HarnessCommand(
        (str(binary), "run", str(shipped_path("hooks", "opencode", "fits.js"))), {**environment, **_AS_RUNTIME}
    )
    try:
        process = subprocess.run(
            command.arguments,
            env=harness_environment(command, home),
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        problems = as_mapping(json.loads(process.stdout)).get("problems")
    except OSError as error:
        raise RollerError(f"{binary}: cannot be run ({error.strerror})", exit_code=2) from None
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        problems = None
    if problems != []:
        said = "; ".join(map(str, as_list(problems)))[:200] or "it does not tell its hooks"
        raise RollerError(
            f"{binary}: our plugin does not fit this OpenCode ({said}): use 1.18.33, or run it yourself behind "
            "mitmdump -s addons/capture.py, then roller-capture finalize",
            exit_code=2,
        )
