"""What a person sees while the harness runs: on a terminal a line that moves, elsewhere nothing more than the turns."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from roller_capture.working_files import WORK_DIR


@contextlib.contextmanager
def running_line(attempt: Path) -> Iterator[Callable[[], None] | None]:
    """Something to call about once a second, or `None` where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    with Console(stderr=True).status("the harness is running") as status:

        def tick() -> None:
            seconds = int(time.monotonic() - started)
            calls = calls_so_far(attempt)
            told = "1 call" if calls == 1 else f"{calls} calls"
            status.update(f"the harness is running: {seconds // 60}:{seconds % 60:02}, {told}")

        yield tick


def calls_so_far(attempt: Path) -> int:
    """How many model requests have come, told from the names of their files."""
    try:
        with os.scandir(attempt / WORK_DIR / "bodies") as entries:
            return sum(entry.name.endswith(".request") for entry in entries)
    except OSError:
        return 0
