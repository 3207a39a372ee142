"""Reads published attempts: the manifest, the lines of calls.jsonl (plain or compressed) and relations.jsonl.

`context` stands last in a call's line, so its head can be read without parsing the context (design section 5).
"""

import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture import json_text
from roller_capture.call_heads import cut_head
from roller_capture.calls_file import line_texts
from roller_capture.errors import RollerError
from roller_capture.publication import CALLS, COMPRESSED_CALLS, FORMAL_FILES, MANIFEST
from roller_capture.recording.lock import holder_of
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, SAMPLES
from roller_capture.runs.configuration import RUN_FILE, RunMode, read_run
from roller_capture.working_files import WORK_DIR, read_regular_file

_LARGEST_MANIFEST: Final = 256 * 1024 * 1024
_MOST_NAMED: Final = 6
_PLACES: Final = ((SAMPLES, "*", CAPTURE, "attempt-*"), (CAPTURE, "attempt-*"), ("*",))
"""Where the attempts of a folder are: those of a run directory, of one of its samples, or those directly below it."""


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


def is_compressed(manifest: Mapping[str, Any]) -> bool:
    """Does the manifest list calls.jsonl.zst? It may be an unchecked one."""
    files = manifest.get("files")
    return isinstance(files, dict) and COMPRESSED_CALLS in files


def calls_path(attempt_dir: Path, manifest: Mapping[str, Any]) -> Path:
    """The attempt's file of calls, in the form that its manifest lists."""
    return attempt_dir / (COMPRESSED_CALLS if is_compressed(manifest) else CALLS)


def expanded_size(manifest: Mapping[str, Any]) -> int | None:
    """Bytes that the calls expand to, as the manifest of a compressed attempt announces; `None` where it says none."""
    value: Any = manifest
    for name in ("calls_compression", "expanded", "bytes"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) else None


def has_working_files(directory: Path) -> bool:
    """Is there a folder `work/`? That of a run's sample with this id is none: it has books. Raises `OSError`."""
    work = directory / WORK_DIR
    return work.is_dir() and not os.path.lexists(work / SAMPLE_FILE)


def is_attempt(directory: Path) -> bool:
    """Does the folder hold an attempt: published, not yet, or one that lost its manifest? One that cannot be looked
    into shows none."""
    try:
        return has_working_files(directory) or any((directory / name).exists() for name in (MANIFEST, *FORMAL_FILES))
    except OSError:
        return False


class UnreadableError(RollerError):
    """A folder that cannot be looked into, and in which attempts may be."""

    def __init__(self, path: Path, error: OSError) -> None:
        reason = error.strerror or error
        super().__init__(f"{path}: cannot be looked into ({reason}): give yourself the right to read it")
        self.path = path


def find_attempts(path: Path, unreadable: list[UnreadableError] | None = None) -> list[Path]:
    """The attempts of `path`: itself, those of a run directory, or those directly below it.

    A folder that cannot be looked into, where attempts may be, goes into `unreadable`; the list can be empty then.
    Raises `RollerError`: exit 2 for a missing path or one that is no directory, exit 1 when it holds no attempt, and
    for the first such folder where there is no `unreadable`.
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
    closed: list[UnreadableError] = []
    for place in _PLACES:
        found = sorted(item for item in _folders(path, place, closed) if is_attempt(item))
        if found or (closed and place != _PLACES[-1]):
            if unreadable is None and closed:
                raise closed[0]
            if unreadable is not None:
                unreadable += closed
            return found
    told = None if closed else why_no_attempts(path)
    if closed:
        raise closed[0]
    raise RollerError(f"{path}: {told or f'holds no attempt (no {MANIFEST}, no {WORK_DIR}/), nor a folder that does'}")


def _folders(folder: Path, names: Sequence[str], closed: list[UnreadableError]) -> Iterator[Path]:
    """The folders below whose names match, one name a level; those that cannot be looked into go into `closed`."""
    below: list[str] = []
    try:
        if names:
            with os.scandir(folder) as entries:
                below = sorted(entry.name for entry in entries if fnmatchcase(entry.name, names[0]) and entry.is_dir())
        else:
            (folder / MANIFEST).lstat()  # may it be asked for what is in it?
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        closed.append(UnreadableError(folder, error))
        return
    if not names:
        yield folder
    for name in below:
        yield from _folders(folder / name, names[1:], closed)


def why_no_attempts(folder: Path) -> str | None:
    """What a folder without attempts is instead: a run that has none, or a folder of runs; `None` for any other."""
    if (folder / RUN_FILE).is_file():
        if is_uncaptured(folder):
            return "is an uncaptured run (made without --capture-calls): there are no calls in it"
        return "is a run that holds no attempt yet"
    try:
        runs = sorted(path for path in folder.iterdir() if (path / RUN_FILE).is_file())
    except OSError:
        return None
    if not runs:
        return None
    uncaptured = [path for path in runs if is_uncaptured(path)]
    if uncaptured == runs:
        return "is a folder of uncaptured runs (made without --capture-calls): there are no calls in them"
    captured = sorted(set(runs) - set(uncaptured))
    named = [*map(str, captured), *(f"{path} (uncaptured)" for path in uncaptured)]
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    return f"is a folder of runs: give the path of one of them instead: {', '.join(named[:_MOST_NAMED])}{more}"


def is_uncaptured(run_dir: Path) -> bool:
    """Does a run directory say of itself that no calls are captured?"""
    try:
        return read_run(run_dir).mode is RunMode.UNCAPTURED
    except RollerError:
        return False


def require_published(attempt: Path) -> None:
    """Raises `RollerError` (exit 1) where there is no manifest: why, and what to do."""
    if not (attempt / MANIFEST).exists() and not (attempt / MANIFEST).is_symlink():
        raise RollerError(f"{attempt}: {why_unpublished(attempt)}")


def is_damaged(attempt: Path) -> bool:
    """Has an attempt without a manifest nothing that finalize could go on with?"""
    return is_attempt(attempt) and not has_working_files(attempt)


def why_unpublished(attempt: Path) -> str:
    """Why a folder of an attempt has no manifest, and what to do."""
    work = attempt / WORK_DIR
    if is_damaged(attempt):
        return f"its {MANIFEST} is missing, and there is no {WORK_DIR}/: it was damaged: {how_to_restore(attempt)}"
    holder = holder_of(work)
    if holder is not None and "finalizer" in holder:
        return f"is in use by {holder}: wait for it"
    if holder is not None:
        return "is still being recorded: roller-capture view --live follows it"
    return f"is not published: run roller-capture finalize {shlex.quote(str(attempt))}"


def how_to_restore(attempt: Path) -> str:
    """What to do about an attempt that was damaged. `collect --resume` changes nothing in a run that has one."""
    folder = attempt.absolute().parent
    of_run = folder.name == CAPTURE and (folder.parent / SAMPLE_FILE).exists()
    return f"restore it from a copy{'; without one, collect its sample again in a new --run-dir' if of_run else ''}"


def call_lines(path: Path) -> Iterator[CallLine]:
    """The lines of a file of calls, one in memory at a time.

    Raises `OSError`, and `json_text.JsonError` for a damaged line.
    """
    for number, line in enumerate(line_texts(path), 1):
        try:
            head, context = split_line(line)
        except json_text.JsonError as error:
            raise json_text.JsonError(f"line {number}: {error}") from None
        yield CallLine(number, head, context)


def split_line(line: bytes) -> tuple[dict[str, Any], memoryview]:
    """Head and context text of one line. Raises `JsonError` for what is no record of a call."""
    end = len(line) - line.endswith(b"\n")  # no copy of the line: its context may be large
    cut = cut_head(line) if line[end - 1 : end] == b"}" else None
    if cut is not None:
        return cut.head, memoryview(line)[cut.context_start : end - 1]
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
