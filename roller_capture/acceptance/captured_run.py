"""One real run of a harness through the whole product, beside what the provider knows of it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roller_capture.scripted_provider import TruthRecord


@dataclass(frozen=True)
class Capture:
    """What the provider knows, and what was published."""

    truth: tuple[TruthRecord, ...]
    other_requests: int
    harness_exit_code: int
    attempt: Path
    manifest: dict[str, Any]
    calls: tuple[dict[str, Any], ...]
    relations: tuple[dict[str, Any], ...]
    validation: subprocess.CompletedProcess[str]


def roller_capture(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user would."""
    command = [sys.executable, "-m", "roller_capture", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read_lines(path: Path) -> tuple[dict[str, Any], ...]:
    """The objects of a JSON Lines file."""
    return tuple(json.loads(line) for line in path.read_bytes().splitlines())
