"""Reads the working files of an attempt back (docs/working-files.md); the counterpart of `roller_capture.recording`.

Everything on disk is taken as hostile: what cannot be read becomes an `AttemptFault`; what can be read is kept. Nothing
here judges or writes.
"""

from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working.event_fold import EVENTS, EventLog
from roller_capture.working.files import LONGEST_EVENT, body_bytes, body_pieces, event_lines, read_regular_file
from roller_capture.working.recorded import AttemptFault, BodyFile, KeptBody, RecordedCall, WorkingAttempt
from roller_capture.working.values import integer, mapping, number, text

__all__ = [
    "EVENTS",
    "WORK_DIR",
    "AttemptFault",
    "BodyFile",
    "KeptBody",
    "RecordedCall",
    "WorkingAttempt",
    "body_bytes",
    "body_pieces",
    "event_lines",
    "header_values_on_the_wire",
    "read_regular_file",
    "read_working_files",
]

WORK_FORMAT: Final = "roller.work/v1"
WORK_DIR: Final = "work"


def read_working_files(attempt_dir: Path) -> WorkingAttempt:
    """Reads `ATTEMPT_DIR/work/`. Raises `RollerError` (exit 1) when there is none, or when its format is newer."""
    directory = attempt_dir / WORK_DIR
    if not directory.is_dir() or directory.is_symlink():
        raise RollerError(f"{attempt_dir}: no {WORK_DIR}/ folder and no manifest.json: nothing was recorded here")
    faults: list[AttemptFault] = []
    info = _read_attempt_file(directory, faults)
    log = EventLog(directory, faults)
    log.read()
    log.keep_orphans()
    closed = info.get("closed") is True
    if not closed:
        lost = integer(info.get("unrecorded_events")) or 0
        message = "the recorder was killed before it could close"
        if lost > 0:
            message = f"the disk was full: {lost} events of the recorder could not be written"
        faults.append(AttemptFault(AttemptErrorCode.RECORDER_NOT_CLOSED, message, EVENTS))
    return WorkingAttempt(
        directory=directory,
        capture_id=_capture_id(info.get("capture_id")),
        harness=text(info.get("harness")),
        started_at=number(info.get("started_at")),
        closed_at=number(info.get("closed_at")),
        closed=closed,
        recorder_version=text(mapping(info.get("versions")).get("roller_capture")),
        calls=tuple(sorted(log.calls.values(), key=lambda call: call.sequence)),
        other_requests=log.other_requests,
        kept_bodies=tuple(log.kept_bodies),
        faults=tuple(faults),
    )


def _read_attempt_file(directory: Path, faults: list[AttemptFault]) -> dict[str, Any]:
    path = directory / "attempt.json"
    try:
        info = json_text.parse(read_regular_file(path, limit=LONGEST_EVENT))
    except (OSError, json_text.JsonError) as error:
        faults.append(_unreadable_attempt(str(error)))
        return {}
    if not isinstance(info, dict):
        faults.append(_unreadable_attempt("it holds no JSON object"))
        return {}
    declared = info.get("format")
    if declared != WORK_FORMAT:
        raise RollerError(
            f"{path}: format {str(declared)[:60]!r} is not {WORK_FORMAT!r}: "
            "finalize it with the roller-capture that recorded it"
        )
    wrong = [
        name
        for name, holds in {
            "capture_id": _capture_id(info.get("capture_id")) is not None,
            "harness": text(info.get("harness")) is not None,
            "started_at": number(info.get("started_at")) is not None,
            "closed_at": number(info.get("closed_at")) is not None
            or (info.get("closed_at") is None and info.get("closed") is not True),
        }.items()
        if not holds
    ]
    if wrong:
        faults.append(_unreadable_attempt(f"damaged members {', '.join(wrong)}"))
    return info


def _unreadable_attempt(reason: str) -> AttemptFault:
    return AttemptFault(AttemptErrorCode.ATTEMPT_FILE_UNREADABLE, f"attempt.json: {reason}", "attempt.json")


def _capture_id(value: object) -> str | None:
    name = text(value) or ""
    return name if name.isascii() and name.replace("_", "").isalnum() and 8 <= len(name) <= 64 else None


def header_values_on_the_wire(calls: tuple[RecordedCall, ...], names: frozenset[str]) -> dict[str, frozenset[str]]:
    """The values that the named request headers had on the wire, by name. A request without this attempt's credential
    was made by something else: its ids lead nowhere."""
    seen: dict[str, set[str]] = {name: set() for name in names}
    for call in calls:
        if call.foreign_credential:
            continue
        for name, value in (*call.headers, *call.roller_headers):
            if name in seen:
                seen[name].add(value)
    return {name: frozenset(values) for name, values in seen.items()}
