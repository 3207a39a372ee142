"""events.jsonl as it is written: a write per line, nothing glued to a torn one, nothing forgotten on a full disk."""

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from roller_capture import json_text

EVENTS_FILE: Final = "events.jsonl"
_MOST_PENDING_BYTES: Final = 4 * 1024 * 1024


class EventLog:
    """Appends events. Any thread may call; a line is written under a lock.

    A line that cannot be written waits in memory, at most 4 MiB of them, and goes out in order before the next one that
    can. `lost` counts those that did not fit.
    """

    def __init__(self, descriptor: int, recorder: int = 0) -> None:
        self._descriptor: int | None = descriptor
        self.recorder = recorder
        self._lock: Final = threading.Lock()
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._torn = _ends_within_a_line(descriptor)
        self.lost = 0

    def append(self, kind: str, /, **fields: Any) -> OSError | None:
        """Writes one event; the error when it had to be put aside."""
        event = {
            "type": kind,
            "recorder": self.recorder,
            "at": time.time(),
            "mono_ns": time.monotonic_ns(),
            **fields,
        }
        line = json_text.dumps(event) + b"\n"
        with self._lock:
            self._pending.append(line)
            self._pending_bytes += len(line)
            error = self._write_pending()
            while self._pending_bytes > _MOST_PENDING_BYTES:
                self._pending_bytes -= len(self._pending.popleft())
                self.lost += 1
        return error

    def flush(self) -> OSError | None:
        """Tries once more to write what waits; the error when it cannot be."""
        with self._lock:
            return self._write_pending()

    @property
    def waiting(self) -> int:
        """How many lines wait to be written."""
        return len(self._pending)

    def finish(self) -> bool:
        """Writes what waits and has the disk take it; whether every event is there now. Blocks."""
        if self.flush() is not None or self.lost or self._descriptor is None:
            return False
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Gives the handle back; what comes later is dropped."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _write_pending(self) -> OSError | None:
        while self._pending and self._descriptor is not None:
            try:
                self._write_line(self._descriptor, self._pending[0])
            except OSError as error:
                return error
            self._pending_bytes -= len(self._pending.popleft())
        return None

    def _write_line(self, descriptor: int, line: bytes) -> None:
        view = memoryview(b"\n" + line if self._torn else line)
        while view:
            written = os.write(descriptor, view)
            # Until the rest is out the file ends within a line.
            self._torn = written < len(view)
            view = view[written:]


def read_events(descriptor: int) -> Iterator[dict[str, Any]]:
    """The readable events of a log that an earlier recorder left."""
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        stream.seek(0)
        for line in stream:
            try:
                event = json_text.parse(line)
            except json_text.JsonError:
                continue
            if isinstance(event, dict):
                yield event


def _ends_within_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
