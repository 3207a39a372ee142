"""A client that reads streams and notes when each event came."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Self

from benchmarks.upstream import MOMENT

_TAIL = 64
"""Bytes kept of what was looked through: enough for a moment that two chunks share."""


@dataclass(slots=True)
class Timings:
    """Milliseconds: from the request to the first byte of each answer, between events, and each event's way here."""

    first_bytes: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def extend(self, other: "Timings") -> None:
        """Adds those of another stream."""
        self.first_bytes += other.first_bytes
        self.gaps += other.gaps
        self.delays += other.delays


class Connection:
    """One connection to a proxy, for one call after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connects."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        """Leaves."""
        self._writer.close()

    async def call(self, body: bytes, events: int, gap: float) -> Timings:
        """One model call: `events` events, `gap` seconds apart. Raises `RuntimeError` for any other answer."""
        timings = Timings()
        started = time.monotonic_ns()
        self._writer.write(_head(len(body), events, gap) + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the proxy answered {head[:200]!r}")
        last, seen, rest = 0, 0, b""
        while size := int(await self._reader.readline(), 16):
            data = rest + await self._reader.readexactly(size + 2)
            now = time.monotonic_ns()
            if not last:
                timings.first_bytes.append((now - started) / 1e6)
            end = 0
            for match in MOMENT.finditer(data):
                timings.delays.append((now - int(match[1])) / 1e6)
                if seen:
                    timings.gaps.append((now - last) / 1e6)
                last, seen, end = now, seen + 1, match.end()
            rest = data[max(end, len(data) - 2 - _TAIL) : -2]
            last = last or now
        await self._reader.readline()
        if seen != events:
            raise RuntimeError(f"{seen} of {events} events came")
        return timings


def _head(length: int, events: int, gap: float) -> bytes:
    return (
        b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"anthropic-version: 2023-06-01\r\nx-api-key: none\r\n"
        b"x-bench-events: %d\r\nx-bench-gap: %f\r\ncontent-length: %d\r\n\r\n" % (events, gap, length)
    )
