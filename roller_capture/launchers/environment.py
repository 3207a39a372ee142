"""The environment of a harness: an allow-list of the user's variables, the private home, and the launcher's own."""

import os
from pathlib import Path
from typing import Final

from roller_capture.launchers import HarnessCommand

_FROM_THE_USER: Final = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
)
"""All that a harness gets of the user's environment: any other variable could hold a credential, name a configuration
of the user's own, or lead around the proxy."""


def harness_environment(command: HarnessCommand, home: Path) -> dict[str, str]:
    """What the process of `command` is started with."""
    inherited = {name: os.environ[name] for name in _FROM_THE_USER if name in os.environ}
    defaults = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb"}
    return {**defaults, **inherited, "HOME": str(home), **command.environment}
