"""The recorder of one attempt: takes the folder, hands out recorders for exchanges, and ends cleanly."""

import contextlib
import os
import re
import threading
import time
from pathlib import Path
from typing import Any, Final

from roller_capture.errors import RollerError
from roller_capture.harnesses import Harness
from roller_capture.recording.attempt_file import ATTEMPT_FILE, AttemptInfo, new_capture_id, read_attempt
from roller_capture.recording.attempt_journal import AttemptJournal
from roller_capture.recording.call_recorder import CallRecorder
from roller_capture.recording.event_log import EVENTS_FILE, EventLog, read_events
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead
from roller_capture.recording.lock import acquire
from roller_capture.recording.other_recorder import OtherRecorder
from roller_capture.recording.path_trouble import in_the_way, refusal
from roller_capture.recording.work_folder import WorkFolder, make_private_directory
from roller_capture.vocabulary import CutBy, OtherRequestKind, Protocol

WORK_DIR: Final = "work"
MANIFEST: Final = "manifest.json"

_FIRST_OTHER_BODY: Final = 900_001
"""Bodies of calls are numbered like their calls; those of unrecognised requests from here on, far away from them."""

_BODY_NAME: Final = re.compile(r"([0-9]{6,9})\.(?:request|response)")

ExchangeRecorder = CallRecorder | OtherRecorder


class AttemptRecorder:
    """Records into `ATTEMPT_DIR/work/`, after whatever earlier recorders left there.

    `exchanges` holds the open exchanges by flow id, and nothing is kept of one that has ended.
    """

    def __init__(self, attempt_dir: Path, harness: Harness, options: dict[str, Any], versions: dict[str, str]) -> None:
        """Takes the folder. Raises `RollerError` when it cannot be made, is published, or is in use."""
        make_private_directory(attempt_dir)
        _refuse_published(attempt_dir)
        self.exchanges: Final[dict[str, ExchangeRecorder]] = {}
        self._info_lock: Final = threading.Lock()
        with contextlib.ExitStack() as undo:
            self._folder: Final = WorkFolder(attempt_dir / WORK_DIR)
            undo.callback(self._folder.close)
            self._lock: Final = acquire(self._folder.path, "recorder")
            undo.callback(self._lock.release)
            _refuse_published(attempt_dir)
            self._start(harness, options, versions)
            undo.pop_all()

    def _start(self, harness: Harness, options: dict[str, Any], versions: dict[str, str]) -> None:
        earlier = read_attempt(self._folder)
        if earlier is not None and earlier.harness != harness.name:
            raise RollerError(
                f"{self._folder.path}: was recorded for harness {earlier.harness!r}, not {harness.name!r}: "
                "name another attempt directory"
            )
        try:
            self._log = EventLog(self._folder.open_events(EVENTS_FILE))
            last = _Last.found_in(self._folder)
            self._info = earlier or AttemptInfo(new_capture_id(), harness.name, time.time())
            self._info.recorders = max(self._info.recorders, last.recorder) + 1
            self._info.options, self._info.versions = options, versions
            self._earlier_errors = self._info.error_count
            self._earlier_unrecorded = self._info.unrecorded_events
            self._info.write(self._folder)
        except OSError as error:
            raise (
                in_the_way(self._folder.path / EVENTS_FILE, folder=False)
                or in_the_way(self._folder.path / ATTEMPT_FILE, folder=False)
                or refusal(self._folder.path, "cannot be written", error)
            ) from None
        # A killed recorder's is made anew: whoever may have put the file there.
        self._folder.space.drop_reserve()
        self._folder.space.keep_reserve()
        self._log.recorder = self._info.recorders
        self._sequence = last.sequence
        self._other_body = last.other_body
        self.journal = AttemptJournal(self._folder, self._log, harness)
        self.journal.event("recorder_started", pid=os.getpid(), versions=versions, options=options)

    def begin_call(self, flow: str, head: RequestHead, protocol: Protocol) -> CallRecorder:
        """A model call has begun."""
        self._sequence += 1
        call = CallRecorder(self.journal, flow, self._sequence, head, protocol)
        self.exchanges[flow] = call
        return call

    def begin_other(self, flow: str, head: RequestHead, kind: OtherRequestKind | None) -> OtherRecorder:
        """Other traffic has begun; `kind` is `None` where only the body can tell."""
        other = OtherRecorder(self.journal, flow, head, kind, self._next_other_body)
        self.exchanges[flow] = other
        return other

    def _next_other_body(self) -> int:
        self._other_body += 1
        return self._other_body

    def note_errors(self) -> None:
        """Brings `error_count` of attempt.json up to date, if it can be. Blocks on the disk; any thread may call."""
        # Without the lock two threads would share one temporary file. A failure is no loss: events.jsonl has the
        # errors too, and the count goes out again at the end.
        with self._info_lock, contextlib.suppress(OSError):
            self._info.error_count = self._earlier_errors + self.journal.error_count
            self._info.unrecorded_events = self._earlier_unrecorded + self.journal.unrecorded_events
            try:
                self._info.write(self._folder)
            except OSError as error:
                if self._folder.space.failed(error):
                    self._info.write(self._folder)

    def stop(self) -> None:
        """The proxy was told to stop: ends what is open, says so, and frees the folder. Blocks on the disk."""
        open_flows = []
        for flow, exchange in list(self.exchanges.items()):
            if isinstance(exchange, CallRecorder) and not exchange.response_ended:
                open_flows.append(flow)
            try:
                _cut(exchange)
            except Exception as error:  # noqa: BLE001 - the other exchanges must be ended all the same
                self.journal.internal_error(flow, "stop", error)
        self.exchanges.clear()
        self.journal.event("recorder_stopped", open_flows=open_flows)
        self._folder.closer.finish()
        self._info.closed = self._log.finish()
        self._info.closed_at = time.time() if self._info.closed else None
        # The last of it is for attempt.json.
        self._folder.space.drop_reserve()
        self.note_errors()
        self._log.close()
        self._folder.close()
        self._lock.release()


def _cut(exchange: ExchangeRecorder) -> None:
    """Ends an exchange that is open when the proxy stops."""
    if isinstance(exchange, OtherRecorder):
        exchange.end()
    elif exchange.response_ended:
        exchange.end_request(BodyTimes(), complete=False)
    else:
        exchange.fail(Failure(CutBy.PROXY, "proxy stopped", request_complete=exchange.request_ended))


class _Last:
    """How far earlier recorders came."""

    def __init__(self) -> None:
        self.sequence = 0
        self.recorder = 0
        self.other_body = _FIRST_OTHER_BODY - 1

    @classmethod
    def found_in(cls, folder: WorkFolder) -> "_Last":
        """Reads events and the names of bodies, since an event can be torn while its body is there."""
        last = cls()
        descriptor = folder.open_events(EVENTS_FILE)
        try:
            for event in read_events(descriptor):
                last.sequence = max(last.sequence, _count(event.get("sequence")))
                last.recorder = max(last.recorder, _count(event.get("recorder")))
        finally:
            os.close(descriptor)
        for name in folder.body_names():
            match = _BODY_NAME.fullmatch(name)
            number = int(match[1]) if match else 0
            if number >= _FIRST_OTHER_BODY:
                last.other_body = max(last.other_body, number)
            else:
                last.sequence = max(last.sequence, number)
        return last


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31 else 0


def _refuse_published(attempt_dir: Path) -> None:
    if os.path.lexists(attempt_dir / MANIFEST):
        raise RollerError(f"{attempt_dir}: is already published: name another attempt directory")
