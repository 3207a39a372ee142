"""Where faults happen: folders, chance, the model service, proxies as children, and the ledger of what came of it."""

import asyncio
import contextlib
import itertools
import json
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from faults import proxy_child
from faults.children import Child
from faults.proxy_child import ProxyOrder
from faults.talks import Service, Talk
from faults.verdict import Expected, Verdict, conclude
from roller_capture.errors import RollerError

AT_ONCE: Final = 4
"""Faults under way at the same time: they mostly wait."""

_LONGEST: Final = 60.0
_LOOK_EVERY: Final = 0.005


@dataclass(slots=True)
class Row:
    """All faults of one kind at one place."""

    injected: int = 0
    finished: int = 0
    intact: int = 0
    cut: int = 0
    named: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Ledger:
    """What was injected, where, and what survived."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def count(self, kind: str, place: str) -> int:
        """How many there have been of this kind at this place."""
        row = self.rows.get((kind, place))
        return 0 if row is None else row.injected

    def enter(self, kind: str, place: str, verdict: Verdict, where: object = "") -> None:
        """One fault and what was found; `where` helps to find it again."""
        row = self.rows.setdefault((kind, place), Row())
        row.injected += 1
        row.finished += verdict.finished
        row.intact += verdict.intact
        row.cut += verdict.cut
        row.named.update(verdict.named)
        row.problems += [f"{problem} [{where}]" for problem in verdict.problems]


class RunningProxy:
    """A recording proxy in a child."""

    def __init__(self, order: ProxyOrder, output: Path) -> None:
        self.order = order
        self.child = Child(output, proxy_child.run, order)
        self.port = 0

    async def start(self) -> "RunningProxy":
        """Starts it and waits until it listens. Raises `RollerError` with its words when it does not."""
        before = self._info().get("recorders", 0)
        self.child.start()
        async with asyncio.timeout(_LONGEST):
            while not self.port:
                if self.child.exit_code is not None:
                    raise RollerError(self.child.printed().strip() or f"it ended with {self.child.exit_code}")
                info = self._info()
                listeners = info.get("options", {}).get("listeners", [])
                if info.get("recorders", 0) > before and listeners:
                    self.port = int(listeners[0].rpartition(":")[2])
                await asyncio.sleep(_LOOK_EVERY)
        return self

    def _info(self) -> dict[str, Any]:
        try:
            value = json.loads((self.order.attempt / "work" / "attempt.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signals it and waits for its end."""
        self.child.signal(number)
        async with asyncio.timeout(_LONGEST):
            return await self.child.ended()


@dataclass(slots=True)
class Ground:
    """Shared by all faults of a run. `times` scales how many of each there are (1.0: a full run)."""

    directory: Path
    seed: int
    ledger: Ledger
    service: Service
    times: float = 1.0
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def chance(self, *what: object) -> random.Random:
        """A source of choices that is the same in every run with this seed."""
        return random.Random(f"{self.seed} {what}")  # noqa: S311 - it only has to be repeatable

    def count(self, full: int) -> int:
        """`full` faults, or fewer in a smaller run."""
        return max(1, round(full * self.times))

    def folder(self, name: str) -> Path:
        """A new folder."""
        path = self.directory / f"{next(self._numbers):04}-{name}"
        path.mkdir(parents=True)
        return path

    @contextlib.asynccontextmanager
    async def proxy(self, folder: Path, **order: Any) -> AsyncIterator[RunningProxy]:
        """A proxy that records into `folder`/attempt and is gone at the end."""
        order = {"upstream_port": self.service.port, **order}
        made = ProxyOrder(folder / "attempt", self.directory / "confdir", **order)
        running = RunningProxy(made, self.directory / f"{folder.name}.printed")
        try:
            yield await running.start()
        finally:
            if running.child.exit_code is None:
                await running.end(signal.SIGKILL)

    async def conclude(self, attempt: Path, talks: Iterable[Talk], expected: Expected | None = None) -> Verdict:
        """`verdict.conclude` in a thread."""
        return await asyncio.to_thread(conclude, attempt, list(talks), expected)

    async def together(self, faults: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Runs these, some at a time."""

        async def one(fault: Callable[[], Awaitable[None]]) -> None:
            async with self._gate:
                await fault()

        async with asyncio.TaskGroup() as group:
            for fault in faults:
                group.create_task(one(fault))


async def within(event: asyncio.Event, *others: asyncio.Task[Any]) -> None:
    """Waits for an event; also ends when one of the tasks does, so that a client that was let down is no hang."""
    waiting = asyncio.create_task(event.wait())
    async with asyncio.timeout(_LONGEST):
        await asyncio.wait({waiting, *others}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
