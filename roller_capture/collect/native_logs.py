"""Copies what a harness left behind into the attempt, and notes how it ran (launcher.json)."""

import os
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher
from roller_capture.vocabulary import AttemptErrorCode, HttpEnd
from roller_capture.working_files import WORK_DIR, RecordedCall, header_values_on_the_wire, read_working_files

NATIVE: Final = "native"
STDOUT: Final = "stdout.jsonl"
LAUNCHER_FILE: Final = "launcher.json"

_SETTLE_SECONDS: Final = 5.0
_LOOK_EVERY: Final = 0.05


def native_folder(attempt: Path) -> Path:
    """Where the native logs of a captured attempt go, made where missing."""
    folder = attempt / WORK_DIR / NATIVE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        return [Gap(AttemptErrorCode.NATIVE_LOGS_MISSING, f"copying the native logs failed: {type(error).__name__}")]


def launcher_error(gap: Gap) -> dict[str, str]:
    """A gap as it stands in launcher.json's `errors`."""
    error = {"code": gap.code.value, "message": gap.message}
    return error if gap.source is None else {**error, "source": gap.source}


def write_launcher_file(folder: Path, facts: Mapping[str, Any]) -> None:
    """Replaces launcher.json, whole. Raises `OSError`."""
    write_json(folder / LAUNCHER_FILE, facts)


def write_json(path: Path, value: Mapping[str, Any], *, new: bool = False) -> None:
    """Writes an indented JSON file that a reader sees whole or not at all; `new` raises `FileExistsError` where one is.

    Raises `OSError`.
    """
    data = json_text.dumps_indented(dict(value)) + b"\n"
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)
    if new:
        try:
            os.link(temporary, path)
        finally:
            temporary.unlink()
    else:
        temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
