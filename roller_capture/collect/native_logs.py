"""Copies what a harness left behind into the attempt, and notes how it ran (launcher.json)."""

import contextlib
import errno
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roller_capture.capture_protocol import Gap
from roller_capture.collect.sealing import seal
from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher
from roller_capture.runs.stored import write_json
from roller_capture.vocabulary import AttemptErrorCode, HttpEnd
from roller_capture.working_files import WORK_DIR, RecordedCall, header_values_on_the_wire, read_working_files

NATIVE: Final = "native"
STDOUT: Final = "stdout.jsonl"
LAUNCHER_FILE: Final = "launcher.json"

_SETTLE_SECONDS: Final = 5.0
_LOOK_EVERY: Final = 0.05
_DISK_TROUBLE: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)))
_NO_DATABASE_ROOM: Final = "disk is full"
"""SQLite's own word."""
_TROUBLE_WORDS: Final = (*_DISK_TROUBLE, _NO_DATABASE_ROOM)


class NotSavedError(Exception):
    """The logs are not safe in the attempt. `is_gone`: since the attempt is not there any more."""

    def __init__(self, reason: str, *, is_gone: bool = False) -> None:
        super().__init__(reason)
        self.is_gone = is_gone

    def told(self, attempt: Path, private: Path, home: Path, status: str, *, captured: bool = True) -> str:
        """What the user should know and do."""
        if self.is_gone:
            return f"{attempt}: was taken away while the harness ran: there is nothing to publish"
        kept = f"{attempt}: the harness's logs could not be saved ({self}): they stay in {private}: make room, then "
        if not captured:
            return f"{kept}copy what you need from there"
        finalize = f"roller-capture finalize {shlex.quote(str(attempt))} --native {shlex.quote(str(home))}"
        return f"{kept}{finalize} --execution-status {status}"


@dataclass(frozen=True, slots=True)
class NativeStore:
    """Where logs are saved: from `home` into `folder`. `real_keys` are masked there."""

    launcher: Launcher
    home: Path
    folder: Path
    real_keys: tuple[str, ...] = field(repr=False)

    def save(
        self, calls: tuple[RecordedCall, ...], announced: Sequence[str], facts: Mapping[str, Any], errors: list[Gap]
    ) -> list[Gap]:
        """Copies, masks, and writes launcher.json last; returns `errors` and those that copying adds.

        Raises `NotSavedError`: then the home holds the only good copy, and both have been masked where they lie.
        """
        try:
            if not self.folder.is_dir():
                raise NotSavedError("it is gone", is_gone=True)
            errors = [*errors, *copy_native_logs(self.launcher, self.home, self.folder, calls, announced)]
            trouble = next((word for gap in errors for word in _TROUBLE_WORDS if word in gap.message), None)
            if trouble is not None:
                raise NotSavedError(trouble)
            masked = seal(self.folder, self.real_keys)
            noted = {**facts, "masked": masked, "errors": [launcher_error(error) for error in errors]}
            write_json(self.folder / LAUNCHER_FILE, noted)
        except (NotSavedError, OSError) as error:
            self._mask_where_it_lies()
            raise error if isinstance(error, NotSavedError) else NotSavedError(_words(error)) from None
        return errors

    def _mask_where_it_lies(self) -> None:
        for place in (self.folder, self.home):
            with contextlib.suppress(OSError):
                seal(place, self.real_keys)


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__


def native_folder(attempt: Path) -> Path:
    """Where the native logs of a captured attempt go, made where missing. Raises `OSError`, also when the attempt has
    been taken away: it is not made anew."""
    folder = attempt / WORK_DIR / NATIVE
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def settled_calls(attempt: Path) -> tuple[RecordedCall, ...]:
    """The recorded calls, once those that the harness left open have ended too (or will not).

    The proxy notices by itself that a client is gone; stopped before that, it would have to say that it cut the calls.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            calls = read_working_files(attempt).calls
        except RollerError:
            return ()
        if all(call.end is not HttpEnd.PROXY_KILLED for call in calls) or time.monotonic() > deadline:
            return calls
        time.sleep(_LOOK_EVERY)


def copy_native_logs(
    launcher: Launcher, home: Path, target: Path, calls: tuple[RecordedCall, ...], announced: Iterable[str]
) -> list[Gap]:
    """Copies the logs of the sessions that the requests name or the harness announced. What is missing is told."""
    seen = header_values_on_the_wire(calls, frozenset(launcher.traits.session_headers))
    session_ids = frozenset(announced).union(*seen.values())
    try:
        return launcher.copy_native(home, target, session_ids)
    except Exception as error:  # noqa: BLE001 - the calls must be published whatever a harness left on the disk
        # By type only, since the text could quote what must not be stored; but the system's own words quote nothing.
        trouble = next((word for word in _TROUBLE_WORDS if word in str(error)), None)
        reason = type(error).__name__ if trouble is None else f"{type(error).__name__}: {trouble}"
        return [Gap(AttemptErrorCode.NATIVE_LOGS_MISSING, f"copying the native logs failed: {reason}")]


def launcher_error(gap: Gap) -> dict[str, str]:
    """A gap as it stands in launcher.json's `errors`."""
    error = {"code": gap.code.value, "message": gap.message}
    return error if gap.source is None else {**error, "source": gap.source}
