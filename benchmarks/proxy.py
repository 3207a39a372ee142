"""The recording proxy against a bare one and one that saves flows, alternating in the same run.

All three run throughout; each measurement uses one while the others idle, and the order turns with the repetitions.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import orjson

from benchmarks.client import Connection, Timings
from benchmarks.figures import Floor, Spread, differences, percentile, ratios, slope, spread
from benchmarks.options import Options
from benchmarks.proxies import ADDON, BARE, NAMES, Proxy, model_service, proxy
from benchmarks.report import Table
from benchmarks.sessions import source_text

_GAP: Final = 0.02  # 50 events a second
_MOST_CALLS_A_SECOND: Final = 64
_FLAT_OUT_EVENTS: Final = 20


@dataclass(frozen=True, slots=True)
class Load:
    """What the clients do: on each connection a number of streams, one after the other."""

    streams: tuple[int, ...] = (1, 8, 64)
    events: int = 10
    samples: int = 48
    most_rounds: int = 16
    cold_samples: int = 64
    flat_out_seconds: float = 2.0

    def events_of(self, streams: int) -> int:
        """Events of a stream. Many streams last longer: their beginnings alone would else take the whole proxy."""
        return max(self.events, round(streams / _MOST_CALLS_A_SECOND / _GAP))

    def rounds_of(self, streams: int) -> int:
        """Streams on each warm connection: few connections take more, so that there is enough for a median."""
        return max(min(self.samples // streams, self.most_rounds), 2)


_ADDED: Final = Floor(1.0, at_least=False, unit=" ms")
_RATE: Final = Floor(0.8, at_least=True)
_SESSIONS: Final = 8
_TOLD: Final = (1, 2, 5, 8)
"""Sessions of which the size at their end stands in the table."""
_GROWTH: Final = Floor(10.0, at_least=False, unit=" kB")

_Key = tuple[str, int]

_QUICK: Final = Load(samples=8, most_rounds=4, cold_samples=4, flat_out_seconds=0.4)


class Measured:
    """Figures by (proxy, streams), one for each repetition; by name of the figure."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, _Key], list[float]] = defaultdict(list)

    def add(self, figure: str, key: _Key, value: float) -> None:
        """One repetition's value."""
        self._figures[figure, key].append(value)

    def add_timings(self, prefix: str, key: _Key, timings: Timings) -> None:
        """p50 and p99 of what the streams saw."""
        for name, values in (("first", timings.first_bytes), ("gap", timings.gaps), ("delay", timings.delays)):
            if values:
                self.add(f"{prefix}{name} p50", key, percentile(values, 0.5))
                self.add(f"{prefix}{name} p99", key, percentile(values, 0.99))

    def of(self, figure: str, key: _Key) -> list[float]:
        """Of all repetitions."""
        return self._figures[figure, key]

    def added(self, figure: str, key: _Key) -> Spread:
        """More than bare."""
        return differences(self.of(figure, key), self.of(figure, (BARE, key[1])))


def run(options: Options) -> list[Table]:
    """All tables."""
    load = Load() if options.scale == 1 else _QUICK
    with model_service() as upstream:
        measured = Measured()
        with ExitStack() as stack:
            proxies = [
                stack.enter_context(proxy(name, upstream, options.directory / f"proxy-{index}"))
                for index, name in enumerate(NAMES)
            ]
            for repetition in range(options.repetitions):
                asyncio.run(repeat(proxies, repetition, measured, load))
        growth = _growth_table(upstream, options)
    return [*tables(measured, load.streams), growth]


def tables(measured: Measured, streams: Sequence[int]) -> list[Table]:
    """What was measured, for these numbers of streams."""
    return [_stream_table(measured, streams), _cold_table(measured, streams), _rate_table(measured, streams)]


async def repeat(proxies: Sequence[Proxy], repetition: int, measured: Measured, load: Load) -> None:
    """Every measurement once, of every proxy; each repetition begins with another one."""
    turn = repetition % len(proxies)
    for streams in load.streams:
        for one in (*proxies[turn:], *proxies[:turn]):
            key = (one.name, streams)
            measured.add_timings("warm ", key, await _warm_streams(one.port, streams, load))
            measured.add_timings("cold ", key, await _cold_streams(one.port, streams, load))
            measured.add("rate", key, await _flat_out(one.port, streams, load))


async def _warm_streams(port: int, streams: int, load: Load) -> Timings:
    """Streams on connections that have had a call before, begun one after the other over a stream's length."""
    events = load.events_of(streams)
    connections = [await Connection.open(port) for _ in range(streams)]
    for connection in connections:
        await connection.call(_BODY, 1, 0)

    async def follow(number: int) -> Timings:
        seen = Timings()
        await asyncio.sleep(number / streams * events * _GAP)
        for _ in range(load.rounds_of(streams)):
            seen.extend(await connections[number].call(_BODY, events, _GAP))
        return seen

    return await _gathered([follow(number) for number in range(streams)], connections)


async def _cold_streams(port: int, streams: int, load: Load) -> Timings:
    """Calls on new connections, all at the same moment."""

    async def connect_and_call() -> Timings:
        started = time.monotonic_ns()
        connection = await Connection.open(port)
        connected = (time.monotonic_ns() - started) / 1e6
        try:
            seen = await connection.call(_BODY, 1, 0)
        finally:
            connection.close()
        return Timings(first_bytes=[connected + seen.first_bytes[0]])

    total = Timings()
    for _ in range(max(1, load.cold_samples // streams)):
        total.extend(await _gathered([connect_and_call() for _ in range(streams)], []))
    return total


async def _flat_out(port: int, streams: int, load: Load) -> float:
    """Calls per second of clients that never wait."""
    connections = [await Connection.open(port) for _ in range(streams)]
    for connection in connections:
        await connection.call(_BODY, 1, 0)
    started = time.monotonic()
    calls = 0

    async def repeat(connection: Connection) -> Timings:
        nonlocal calls
        while time.monotonic() - started < load.flat_out_seconds:
            await connection.call(_BODY, _FLAT_OUT_EVENTS, 0)
            calls += 1
        return Timings()

    await _gathered([repeat(connection) for connection in connections], connections)
    return calls / (time.monotonic() - started)


async def _gathered(work: Sequence[Coroutine[Any, Any, Timings]], connections: Sequence[Connection]) -> Timings:
    total = Timings()
    try:
        for seen in await asyncio.gather(*work):
            total.extend(seen)
    finally:
        for connection in connections:
            connection.close()
    return total


def _stream_table(measured: Measured, counts: Sequence[int]) -> Table:
    table = Table(
        "Proxy: streams on warm connections",
        (
            "streams",
            "proxy",
            "first byte p50 ms",
            "added",
            "floor",
            "chunk gap p50 ms",
            "added",
            "floor",
            "gap p99 ms",
            "event delay p50 ms",
            "added",
            "floor",
            "delay p99 ms",
        ),
        f"Events of 200 bytes, {1 / _GAP:.0f} a second and stream. Streams begin one after the other on connections "
        "that have had a call before. Added: more than bare in the same repetition. Event delay: from the model "
        "service's write to the client's read.",
    )
    for streams in counts:
        for name in NAMES:
            key = (name, streams)
            cells = [
                *_compared(measured, "warm first p50", key),
                *_compared(measured, "warm gap p50", key),
                spread(measured.of("warm gap p99", key)).text(1),
                *_compared(measured, "warm delay p50", key),
                spread(measured.of("warm delay p99", key)).text(1),
            ]
            table.add(str(streams), name, *cells)
    return table


def _compared(measured: Measured, figure: str, key: _Key) -> tuple[str, str, str]:
    """The figure, what is added to bare, and the floor where one is set: for the addon."""
    own = spread(measured.of(figure, key)).text(2)
    if key[0] == BARE:
        return own, "-", "-"
    added = measured.added(figure, key)
    return own, added.text(2, "+"), _ADDED.verdict(added.median) if key[0] == ADDON else "-"


def _cold_table(measured: Measured, counts: Sequence[int]) -> Table:
    table = Table(
        "Proxy: first byte on cold connections",
        ("calls at once", "proxy", "first byte p50 ms", "added", "floor", "p99 ms"),
        "New connections on both sides, all calls in the same moment, connecting included. The floor is for one call: "
        "of several at once, half wait for the work of half of the others, so that is calls/s in another form.",
    )
    for streams in counts:
        for name in NAMES:
            own, added, floor = _compared(measured, "cold first p50", (name, streams))
            last = spread(measured.of("cold first p99", (name, streams))).text(1)
            table.add(str(streams), name, own, added, floor if streams == 1 else "-", last)
    return table


def _rate_table(measured: Measured, counts: Sequence[int]) -> Table:
    table = Table(
        "Proxy: calls per second",
        ("streams", "proxy", "calls/s", "of bare", "floor"),
        f"Clients that never wait, warm connections, a request of {len(_BODY) / 1000:.0f} kB, answers of "
        f"{_FLAT_OUT_EVENTS} events written at once.",
    )
    for streams in counts:
        for name in NAMES:
            rates = measured.of("rate", (name, streams))
            share = ratios(rates, measured.of("rate", (BARE, streams)))
            floor = _RATE.verdict(share.median) if name == ADDON and streams == max(counts) else "-"
            table.add(str(streams), name, spread(rates).text(0), "-" if name == BARE else share.text(2), floor)
    return table


def _growth_table(upstream: int, options: Options) -> Table:
    """Memory while one session grows, and while further ones just like it follow."""
    calls = options.calls(160)
    table = Table(
        "Proxy: memory over growing sessions",
        (
            "proxy",
            "at start MB",
            *(f"MB after session {count}" for count in _TOLD),
            "kB a call, first",
            "later",
            "floor",
        ),
        f"Sessions of {calls} calls one after the other, requests of 57 to 700 kB. The first two fill the allocator's "
        "pools; the line through the ends of these and the later ones shows what is kept for good.",
    )
    for index, name in enumerate(NAMES):
        with proxy(name, upstream, options.directory / f"growing-{index}") as one:
            start = one.resident()
            sessions = [asyncio.run(_growing_session(one, calls)) for _ in range(_SESSIONS)]
        ends = [session[-1] for session in sessions]
        first, later = 1000 * slope(sessions[0]), 1000 * slope(ends[1:]) / calls
        sizes = [f"{size:.1f}" for size in (start, *(ends[count - 1] for count in _TOLD))]
        table.add(name, *sizes, f"{first:.1f}", f"{later:.1f}", _GROWTH.verdict(later) if name == ADDON else "-")
    return table


async def _growing_session(one: Proxy, calls: int) -> list[float]:
    """Resident memory after each call."""
    connection = await Connection.open(one.port)
    sizes = []
    for number in range(calls):
        await connection.call(_request(57_000 + 643_000 * number // calls), 30, 0)
        sizes.append(one.resident())
    connection.close()
    return sizes


def _request(length: int) -> bytes:
    message = {"role": "user", "content": source_text(length)}
    return orjson.dumps({"model": "bench", "max_tokens": 100, "stream": True, "messages": [message]})


_BODY: Final = _request(2_000)
