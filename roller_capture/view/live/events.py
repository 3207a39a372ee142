"""Follows events.jsonl while it grows, and keeps the calls that it tells of."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.working.files import LONGEST_EVENT
from roller_capture.working.values import integer, mapping, number, pairs, text

_AT_ONCE: Final = 4 * 1024 * 1024
_ID_ENDING: Final = "-id"
_NO_NATIVE_IDS: Final = frozenset({"request-id", "x-request-id", "x-client-request-id"})
_ROLLER_PREFIX: Final = "x-roller-"
_LARGEST_NUMBER: Final = 999_999_999


@dataclass(slots=True)
class LiveCall:
    """A call as its events tell of it so far. `ids` are the ids that the request itself carries, (name, value)."""

    number: int
    path: str
    ids: list[tuple[str, str]]
    began_at: float | None
    sent: int | None = None
    status: int | None = None
    first_byte_at: float | None = None
    ended_at: float | None = None
    received: int | None = None
    failure: str | None = None

    @property
    def is_open(self) -> bool:
        """Has it neither an answer nor a failure yet?"""
        return self.ended_at is None

    @property
    def seconds(self) -> float | None:
        """How long it took, once it has ended."""
        return None if self.ended_at is None or self.began_at is None else max(0.0, self.ended_at - self.began_at)


@dataclass(frozen=True, slots=True)
class Step:
    """A call that has just begun, or just ended."""

    call: LiveCall
    began: bool


class EventTail:
    """Reads each event once. A line that is torn waits for its rest; what is no event is counted and passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""
        self._skips = False
        self.unreadable = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """The events that have come since."""
        for line in self._lines():
            try:
                event = json_text.parse(line)
            except json_text.JsonError:
                event = None
            if isinstance(event, dict):
                yield event
            else:
                self.unreadable += 1

    def _lines(self) -> Iterator[bytes]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            while data := os.pread(descriptor, _AT_ONCE, self._place):
                self._place += len(data)
                *whole, rest = (self._rest + data).split(b"\n")
                for line in whole:
                    if not self._skips:
                        yield line
                    self._skips = False
                self._skips = self._skips or len(rest) > LONGEST_EVENT
                self._rest = b"" if self._skips else rest
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class LiveCalls:
    """The calls of an attempt by flow, in the order in which they came."""

    by_flow: dict[str, LiveCall] = field(default_factory=dict)
    others: int = 0
    troubles: int = 0

    def take(self, event: dict[str, Any]) -> Step | None:
        """Applies an event; what it began or ended."""
        kind, flow = event.get("type"), text(event.get("flow")) or ""
        if kind == "request_headers" and flow not in self.by_flow:
            call = self.by_flow[flow] = _begun(event)
            return Step(call, began=True)
        if kind == "other_request":
            self.others += 1
        elif kind in ("recorder_error", "unrecognised_model_request", "websocket_passed"):
            self.troubles += 1
        found = self.by_flow.get(flow)
        if found is None or not found.is_open:
            return None
        if kind == "request":
            found.sent = integer(mapping(event.get("body")).get("bytes"))
        elif kind == "response_headers":
            found.status = integer(event.get("status"))
            found.first_byte_at = number(event.get("started_at"))
        elif kind in ("response", "failure"):
            _end(found, event)
            return Step(found, began=False)
        return None


def _begun(event: dict[str, Any]) -> LiveCall:
    number_ = integer(event.get("sequence")) or 0
    headers = pairs(event.get("headers"))
    ids = [(name, value) for name, value in headers if name.endswith(_ID_ENDING) and name not in _NO_NATIVE_IDS]
    ids += [(name.removeprefix(_ROLLER_PREFIX), value) for name, value in pairs(event.get("roller_headers"))]
    path = text(event.get("path")) or ""
    return LiveCall(min(max(number_, 0), _LARGEST_NUMBER), path, ids, number(event.get("at")))


def _end(call: LiveCall, event: dict[str, Any]) -> None:
    call.ended_at = number(event.get("ended_at")) or number(event.get("at")) or call.began_at or 0.0
    call.first_byte_at = number(event.get("first_byte_at")) or call.first_byte_at
    call.received = integer(mapping(event.get("body")).get("bytes"))
    if event.get("type") == "failure":
        call.failure = text(event.get("message")) or "cut"
