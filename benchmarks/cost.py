"""Runs measured tasks, each in a fresh process, and keeps what they cost."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one task: wall and processor time in seconds, resident memory in bytes before it and at its highest."""

    seconds: float
    processor_seconds: float
    memory_before: int
    peak_memory: int


def measure(task: str, *paths: Path) -> Cost:
    """Runs a task of `benchmarks.child`. Raises `RuntimeError` with its words when it fails."""
    os.sync()  # else a task that syncs pays for what others wrote before
    command = [sys.executable, "-m", "benchmarks.child", task, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"{task} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return Cost(**json.loads(done.stdout))


def seconds(costs: Sequence[Cost]) -> list[float]:
    """Wall times."""
    return [cost.seconds for cost in costs]


def processor_seconds(costs: Sequence[Cost]) -> list[float]:
    """Processor times."""
    return [cost.processor_seconds for cost in costs]
