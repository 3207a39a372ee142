"""What a person sees while samples run: on a terminal lines that move, elsewhere a plain line for each that has ended.

A single sample has one moving line; many have a board with one line for each that runs.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from roller_capture.collect.outcome import SampleOutcome
from roller_capture.collect.recorded import Recorded, recorded_so_far
from roller_capture.terminal import safe, say
from roller_capture.view.words import count

_LOOKING_SHARE: Final = 20
"""Looking at an attempt's files may take this fraction of the time, however many they are."""

_LONGEST_NAME: Final = 40


@contextlib.contextmanager
def running_line(attempt: Path) -> Iterator[Callable[[], None] | None]:
    """Something to call about once a second, or `None` where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    with Console(stderr=True).status("the harness is running") as status:

        def tick() -> None:
            calls = recorded_so_far(attempt).calls
            told = count(calls, "call")
            status.update(f"the harness is running: {clock(time.monotonic() - started)}, {told}")

        yield tick


class Board(Protocol):
    """Where many samples tell how they are doing. Methods may be called from any thread."""

    def began(self, sample_id: str) -> None:
        """It runs from now on."""

    def records_into(self, sample_id: str, attempt: Path) -> None:
        """Its attempt's folder."""

    def note(self, sample_id: str, text: str) -> None:
        """What it does right now."""

    def ended(self, outcome: SampleOutcome) -> None:
        """It has ended."""

    def refresh(self) -> None:
        """Looks again at what has been recorded. Called a few times a second."""


@contextlib.contextmanager
def board(total: int, reused: int, jobs: int) -> Iterator[Board]:
    """The board for `total` samples that are to run, beside `reused` that are there already."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield PlainBoard(total)
        return
    live_board = LiveBoard(total, reused, jobs)
    live = Live(get_renderable=live_board.render, console=Console(stderr=True), refresh_per_second=2, transient=True)
    with live:
        yield live_board


class PlainBoard:
    """A line for each sample that has ended."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def began(self, sample_id: str) -> None:
        """Nobody is told."""

    def records_into(self, sample_id: str, attempt: Path) -> None:
        """Nobody is told."""

    def note(self, sample_id: str, text: str) -> None:
        """Nobody is told."""

    def ended(self, outcome: SampleOutcome) -> None:
        """Says so."""
        with self._lock:
            self._done += 1
            say(f"[{self._done}/{self._total}] {ended_line(outcome)}")

    def refresh(self) -> None:
        """There is nothing that moves."""


def ended_line(outcome: SampleOutcome) -> str:
    """One sample's end in one line."""
    if outcome.error is not None:
        return f"{outcome.sample_id}: error: {outcome.error}"
    size = bytes_of(outcome.size)
    capture = ""
    if outcome.capture_status is not None:
        capture, size = f"capture {outcome.capture_status}, ", f"{size} published"
    line = f"{outcome.sample_id}: {outcome.state}: {capture}{count(outcome.calls, 'call')}, {size}"
    line += f", {outcome.seconds:.1f} s"
    return f"{line}: {outcome.problem}" if outcome.problem else line


@dataclass(slots=True)
class _Running:
    started: float
    text: str = "starting"
    attempt: Path | None = None
    recorded: Recorded = field(default_factory=Recorded)
    next_look: float = 0.0


class LiveBoard:
    """A table that moves: one line for each running sample, and how it stands with all of them."""

    def __init__(self, total: int, reused: int, jobs: int) -> None:
        self._total = total
        self._reused = reused
        self._jobs = jobs
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._ended: list[SampleOutcome] = []
        self._started = time.monotonic()

    def began(self, sample_id: str) -> None:
        """A line appears."""
        with self._lock:
            self._running[sample_id] = _Running(time.monotonic())

    def records_into(self, sample_id: str, attempt: Path) -> None:
        """From now on its calls are counted."""
        with self._lock:
            self._running[sample_id].attempt = attempt

    def note(self, sample_id: str, text: str) -> None:
        """Its line says so."""
        with self._lock:
            if sample_id in self._running:
                self._running[sample_id].text = text

    def ended(self, outcome: SampleOutcome) -> None:
        """Its line goes; one that did not end well is said, for good."""
        with self._lock:
            self._running.pop(outcome.sample_id, None)
            self._ended.append(outcome)
        if not outcome.is_usable or outcome.problem:
            say(ended_line(outcome))

    def refresh(self) -> None:
        """Looks at the working files of those whose turn it is."""
        with self._lock:
            due = [item for item in self._running.values() if item.attempt and item.next_look <= time.monotonic()]
        for item in due:
            assert item.attempt is not None
            before = time.monotonic()
            item.recorded = recorded_so_far(item.attempt)
            now = time.monotonic()
            item.next_look = now + max(1.0, _LOOKING_SHARE * (now - before))

    def render(self) -> ConsoleRenderable:
        """What is drawn now."""
        with self._lock:
            rows = [(name, item) for name, item in self._running.items()]
            ended = list(self._ended)
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, item in rows:
            shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
            calls, size = item.recorded.calls, item.recorded.size
            cells = (safe(shown), clock(now - item.started), count(calls, "call"), bytes_of(size), safe(item.text))
            table.add_row(*(Text(cell, no_wrap=True) for cell in cells))
        return Group(Text(self._header(rows, ended, now)), table)

    def _header(self, rows: list[tuple[str, _Running]], ended: list[SampleOutcome], now: float) -> str:
        good = sum(outcome.is_usable for outcome in ended)
        calls = sum(item.recorded.calls for _, item in rows) + sum(outcome.calls for outcome in ended)
        size = sum(item.recorded.size for _, item in rows) + sum(outcome.size for outcome in ended)
        waiting = self._total - len(ended) - len(rows)
        parts = [f"{len(rows)} running", f"{waiting} waiting", f"{good} done", f"{len(ended) - good} failed"]
        if self._reused:
            parts.append(f"{self._reused} reused")
        parts += [count(calls, "call"), bytes_of(size), f"{clock(now - self._started)} so far"]
        left = self._time_left(rows, ended, now)
        return ", ".join(parts if left is None else [*parts, f"about {clock(left)} left"])

    def _time_left(self, rows: list[tuple[str, _Running]], ended: list[SampleOutcome], now: float) -> float | None:
        """As if all that are left took as long as those that have ended did on the average."""
        if not ended:
            return None
        mean = sum(outcome.seconds for outcome in ended) / len(ended)
        running = sum(max(0.0, mean - (now - item.started)) for _, item in rows)
        waiting = mean * (self._total - len(ended) - len(rows))
        return (running + waiting) / min(self._jobs, max(1, self._total - len(ended)))


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return f"{whole // 3600}:{minutes:0>5}" if whole >= 3600 else minutes


def bytes_of(size: int) -> str:
    """Bytes as people read them."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
