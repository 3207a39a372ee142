"""Where the pinned harnesses are, once `scripts/install_harness.sh` has put them there."""

import os
from pathlib import Path

CLAUDE_CODE_VERSIONS = ("2.1.197", "2.1.332")
"""Pinned in harnesses/claude-code/."""

_REPOSITORY = Path(__file__).resolve().parent.parent.parent


class HarnessMissingError(Exception):
    """The harness is not installed; the message says what to do."""


def claude_code_binary(version: str) -> Path:
    """The native binary of one installed version. Raises `HarnessMissingError`."""
    folder = _REPOSITORY / ".harnesses" / "claude-code" / version
    binaries = sorted(folder.glob("node_modules/@anthropic-ai/claude-code-*/claude"))  # npm installs one platform's
    if not binaries or not os.access(binaries[0], os.X_OK):
        raise HarnessMissingError(f"Claude Code {version} is not in {folder}: run make harness-claude-code")
    return binaries[0]
