"""What the recorders of one attempt share: its folder, its events and its count of errors."""

import functools
import os
import threading
from typing import Any, Final

from roller_capture.harnesses import Harness
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.event_log import EventLog
from roller_capture.recording.exchange import RecorderErrorCode
from roller_capture.recording.work_folder import WorkFolder


class AttemptJournal:
    """Writes events and keeps the count of the recorder's own errors. Nothing here raises."""

    def __init__(self, folder: WorkFolder, log: EventLog, harness: Harness) -> None:
        self.folder: Final = folder
        self.identity_headers: Final = frozenset(harness.identity_headers)
        self._log: Final = log
        self._lock: Final = threading.Lock()
        self._errors = 0
        self._events_broken = False

    @property
    def error_count(self) -> int:
        """How often something went wrong, lost events included."""
        return self._errors + self._log.lost

    @property
    def unrecorded_events(self) -> int:
        """How many events are not on the disk; those that wait may still get there."""
        return self._log.lost + self._log.waiting

    def body_file(self, flow: str, name: str) -> BodyFile:
        """A new body file of an exchange, whose errors become events."""
        where = f"{name.rpartition('.')[2]} body"
        return BodyFile(self.folder, name, functools.partial(self.disk_error, flow, where))

    def event(self, kind: str, /, **fields: Any) -> None:
        """Appends an event; one that the disk does not take waits, and the trouble itself becomes an event."""
        error = self._log.append(kind, **fields)
        if error is not None and self.folder.space.failed(error):
            # There may be room now, out of the reserve.
            error = self._log.flush()
        if error is None:
            self._events_broken = False
        elif not self._events_broken:
            # One error for the whole spell of trouble: every further event would only say the same.
            self._events_broken = True
            self.disk_error(fields.get("flow"), "events.jsonl", error)

    def disk_error(self, flow: str | None, where: str, error: OSError) -> None:
        """Notes that something could not be written."""
        self.folder.space.failed(error)
        text = os.strerror(error.errno) if error.errno else str(error)
        self._error(flow, RecorderErrorCode.DISK_ERROR, where, text)

    def internal_error(self, flow: str | None, where: str, error: BaseException) -> None:
        """Notes a fault of the recorder itself: by type only, since its text could quote what must not be stored."""
        self._error(flow, RecorderErrorCode.INTERNAL_ERROR, where, type(error).__name__)

    def _error(self, flow: str | None, code: RecorderErrorCode, where: str, message: str) -> None:
        with self._lock:
            self._errors += 1
        self.event("recorder_error", flow=flow, code=code, where=where, message=message)
