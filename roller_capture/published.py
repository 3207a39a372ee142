"""Reads published attempts: the manifest, the lines of calls.jsonl and relations.jsonl.

`context` stands last in a call's line, so its head can be read without parsing the context (design section 5).
"""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.publication import FORMAL_FILES, MANIFEST
from roller_capture.working_files import WORK_DIR, read_regular_file

_LARGEST_MANIFEST: Final = 256 * 1024 * 1024
_CONTEXT_MARK: Final = b',"context":'
_MOST_TRIES: Final = 16


class CallLine(NamedTuple):
    """One line of calls.jsonl: its number from 1, the call without its context, the context's own text."""

    number: int
    head: dict[str, Any]
    context: memoryview


def read_manifest(attempt_dir: Path) -> dict[str, Any]:
    """The manifest as JSON. Raises `RollerError` when it is missing, no JSON object, or a link."""
    path = attempt_dir / MANIFEST
    try:
        value = json_text.parse(read_regular_file(path, limit=_LARGEST_MANIFEST))
    except OSError as error:
        raise RollerError(f"{path}: cannot be read ({error.strerror or error})") from None
    except json_text.JsonError as error:
        raise RollerError(f"{path}: is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise RollerError(f"{path}: holds no JSON object")
    return value


def is_attempt(directory: Path) -> bool:
    """Does the folder hold an attempt: published, not yet, or one that lost its manifest?"""
    return (directory / WORK_DIR).is_dir() or any((directory / name).exists() for name in (MANIFEST, *FORMAL_FILES))


def find_attempts(path: Path) -> list[Path]:
    """The attempts of `path`: itself, those of a run directory, or those directly below it.

    Raises `RollerError`: exit 2 for a missing path or one that is no directory, exit 1 when it holds no attempt.
    """
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise RollerError(f"{path}: {reason}", exit_code=2) from None
    if not is_folder:
        raise RollerError(f"{path}: is no directory, name an attempt or a run directory", exit_code=2)
    if is_attempt(path):
        return [path]
    for pattern in ("samples/*/capture/attempt-*", "capture/attempt-*", "*"):
        found = sorted(item for item in path.glob(pattern) if item.is_dir() and is_attempt(item))
        if found:
            return found
    raise RollerError(f"{path}: holds no attempt (no {MANIFEST}, no {WORK_DIR}/), nor a folder that does")


def call_lines(path: Path) -> Iterator[CallLine]:
    """The lines of calls.jsonl, one in memory at a time. Raises `json_text.JsonError` for a damaged line."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                head, context = split_line(line)
            except json_text.JsonError as error:
                raise json_text.JsonError(f"line {number}: {error}") from None
            yield CallLine(number, head, context)


def split_line(line: bytes) -> tuple[dict[str, Any], memoryview]:
    """Head and context text of one line.

    The mark may also stand inside a nested object of `output`; cut there, the head has unclosed braces and is no JSON,
    so the first cut that gives a JSON object is the right one.
    """
    end = len(line) - line.endswith(b"\n")  # no copy of the line: its context may be large
    start = 0
    for _ in range(_MOST_TRIES):
        place = line.find(_CONTEXT_MARK, start)
        if place < 0 or line[end - 1 : end] != b"}":
            break
        try:
            head = json_text.parse(line[:place] + b"}")
        except json_text.JsonError:
            start = place + len(_CONTEXT_MARK)
            continue
        if isinstance(head, dict):
            return head, memoryview(line)[place + len(_CONTEXT_MARK) : end - 1]
        break
    whole = json_text.parse(line)
    if not isinstance(whole, dict) or "context" not in whole:
        raise json_text.JsonError("no call record")
    context = whole.pop("context")
    return whole, memoryview(json_text.dumps(context))


def relation_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of relations.jsonl. Raises `json_text.JsonError` for a damaged line."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                value = json_text.parse(line)
            except json_text.JsonError as error:
                raise json_text.JsonError(f"line {number}: {error}") from None
            if not isinstance(value, dict):
                raise json_text.JsonError(f"line {number}: no relation record")
            yield number, value


def is_regular_file(path: Path) -> bool:
    """A file of its own: no link, device or folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
