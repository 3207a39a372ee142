"""Reads and writes the JSON files of a run. What is read may have been edited by anybody: it is taken as it was written
here, or refused in one line that names the file."""

import contextlib
import errno
import json
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.working_files import read_regular_file

_LARGEST: Final = 64 * 1024 * 1024
_LONGEST_PROBLEM: Final = 200
_PROBLEMS: Final = (
    ("missing", "is missing"),
    ("extra_forbidden", "is not known here"),
    ("literal_error", "is not {expected}"),
    ("enum", "is not {expected}"),
    ("pattern_mismatch", "has not the form {pattern}"),
    ("greater_than", "is not above {gt}"),
    ("greater_than_equal", "is below {ge}"),
    ("finite_number", "is no finite number"),
    ("too_short", "has fewer than {min_length} items"),
    ("string_type", "is no text"),
    ("bool_type", "is neither true nor false"),
    ("int_type", "is no integer"),
    ("float_type", "is no number"),
    ("tuple_type", "is no list"),
    ("list_type", "is no list"),
    ("dict_type", "is no object"),
    ("model_type", "is no object"),
)
"""By the ending of the validator's name for a problem."""

_BLOCK: Final = 512
"""Bytes of what `stat` counts."""

SHA256: Final = r"^[0-9a-f]{64}$"


class Stored(BaseModel):
    """A JSON object of ours: nothing in it but its members, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


Document = TypeVar("Document", bound=Stored)


class DamagedError(RollerError):
    """A file of the run that cannot be used; `path` names it, `problem` says why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def read_stored(path: Path, kind: type[Document]) -> Document:
    """The document in a file. Raises `DamagedError` when it is missing, a link, no JSON, or not what it should be."""
    try:
        data = read_regular_file(path, limit=_LARGEST)
    except FileNotFoundError:
        raise DamagedError(path, "is missing") from None
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else error.strerror or str(error)
        raise DamagedError(path, f"cannot be read ({reason})") from None
    try:
        json_text.parse(data)  # its bounds on depth hold here too
        _refuse_twice(data)
        return kind.model_validate_json(data)
    except json_text.JsonError as error:
        raise DamagedError(path, f"is no JSON ({error})") from None
    except ValidationError as error:
        raise DamagedError(path, _first_problem(error)) from None


def _refuse_twice(data: bytes) -> None:
    """Of a member that stands there twice, some readers take the first one and some the last. Raises `JsonError`."""

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = Counter(name for name, _ in pairs)
            twice = next(name for name, number in names.items() if number > 1)
            raise json_text.JsonError(f"{twice[:60]!r} is there twice")
        return found

    try:
        json.loads(data, object_pairs_hook=members, parse_int=str, parse_float=str)
    except RecursionError:
        raise json_text.JsonError("nested too deep") from None


def _first_problem(error: ValidationError) -> str:
    """One line: which member, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    words = _words(first["type"], first.get("ctx", {}))
    more = error.error_count() - 1
    text = f"{place}: {words}" if place else f"holds no such document: {words}"
    return f"{text[:_LONGEST_PROBLEM]}{f' (and {more} more)' if more else ''}"


def _words(kind: str, limits: Mapping[str, Any]) -> str:
    """Our words for what the validator found; `kind` is its name for that, `limits` what it was held to."""
    for ending, words in _PROBLEMS:
        if kind.endswith(ending):
            return words.format(**limits)
    return "is not what is written here"


def write_json(path: Path, value: Mapping[str, Any], *, new: bool = False) -> None:
    """Writes an indented JSON file that a reader sees whole or not at all; `new` raises `FileExistsError` where one is.

    On a full disk the room that the old file has is used, if it is enough. Raises `OSError`.
    """
    data = json_text.dumps_indented(dict(value)) + b"\n"
    try:
        _replace(path, data, new=new)
    except OSError as error:
        if new or error.errno not in (errno.ENOSPC, errno.EDQUOT) or not _overwrite(path, data):
            raise


def _overwrite(path: Path, data: bytes) -> bool:
    """Whether the new text found room in the old file's own blocks. Raises `OSError`."""
    if path.is_symlink() or not path.is_file():
        return False
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_blocks * _BLOCK < len(data):
            return False
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _replace(path: Path, data: bytes, *, new: bool) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, 0o600)
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        if new:
            os.link(temporary, path)
        else:
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):  # it has the file's name by now, or there was no room for it
            temporary.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
