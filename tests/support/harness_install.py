"""Where the pinned harnesses are, once `scripts/install_harness.sh` has put them there."""

import os
from pathlib import Path

from roller_capture.launchers import find_launcher

CLAUDE_CODE_VERSIONS = ("2.1.197", "2.1.332")
"""Pinned in harnesses/claude-code/."""

_REPOSITORY = Path(__file__).resolve().parent.parent.parent


class HarnessMissingError(Exception):
    """The harness is not installed; the message says what to do."""


def harness_binary(harness: str, version: str) -> Path:
    """The program of one installed version. Raises `HarnessMissingError`."""
    folder = _REPOSITORY / ".harnesses" / harness / version
    programs = sorted(folder.glob(find_launcher(harness).traits.installed_as))
    if not programs or not os.access(programs[0], os.X_OK):
        raise HarnessMissingError(f"{harness} {version} is not in {folder}: run make harness-{harness}")
    return programs[0]


def claude_code_binary(version: str) -> Path:
    """The native binary of one installed version. Raises `HarnessMissingError`."""
    return harness_binary("claude-code", version)
