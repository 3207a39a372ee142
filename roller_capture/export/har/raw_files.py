"""What raw/ still has of an attempt's HTTP traffic: response bodies, and the schemes of the requests."""

import hashlib
from typing import Final

from roller_capture import json_text
from roller_capture.api import Attempt, Call
from roller_capture.errors import RollerError
from roller_capture.working_files import event_lines, read_regular_file

_EVENTS: Final = "raw/events.jsonl"
_HEAD: Final = b'"request_headers"'
_SCHEMES: Final = ("http", "https")


def response_body(attempt: Attempt, call: Call) -> bytes | None:
    """The response as it was on the wire, `None` where it was not kept.

    Raises `RollerError` when the file is not the one that was validated.
    """
    name = call.record["response_path"]
    if name is None:
        return None
    path, listed = attempt.path / name, attempt.manifest["files"].get(name)
    if listed is None:
        raise RollerError(f"{path}: is no published file")
    try:
        body = read_regular_file(path, limit=listed["bytes"])
    except OSError as error:
        raise RollerError(f"{path}: cannot be read ({error.strerror or error})") from None
    if hashlib.sha256(body).hexdigest() != listed["sha256"]:
        raise RollerError(f"{path}: has changed since the attempt was opened: open it again")
    return body


def schemes(attempt: Attempt) -> dict[int, str]:
    """The scheme of each request by its sequence number, where the events were kept: the records do not have it."""
    found: dict[int, str] = {}
    if _EVENTS not in attempt.manifest["files"]:
        return found
    try:
        for _number, line in event_lines(attempt.path / _EVENTS):
            if _HEAD in line:
                _add(found, line)
    except OSError as error:
        raise RollerError(f"{attempt.path / _EVENTS}: cannot be read ({error.strerror or error})") from None
    return found


def _add(found: dict[int, str], line: bytes) -> None:
    try:
        event = json_text.parse(line)
    except json_text.JsonError:
        return
    if not isinstance(event, dict):
        return
    sequence, scheme = event.get("sequence"), event.get("scheme")
    if event.get("type") == "request_headers" and isinstance(sequence, int) and scheme in _SCHEMES:
        found[sequence] = scheme
