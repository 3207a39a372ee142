"""Calls: the head of the record is in memory, the context is read from the file when it is asked for."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from roller_capture import json_text
from roller_capture.call_heads import CallFile, Place
from roller_capture.calls_file import FrameCache, open_calls
from roller_capture.errors import RollerError
from roller_capture.published import split_line
from roller_capture.token_usage import Usage, usage_of
from roller_capture.vocabulary import Blocker, ExportStatus, Protocol, Purpose


class FileIdentity(NamedTuple):
    """What tells that a file is still the one that was validated."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        """From what `stat` says."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One model request and its response. `record` is the line of calls.jsonl without its `context`."""

    record: dict[str, Any]
    _read_context: Callable[[], bytes]

    def __repr__(self) -> str:
        return f"Call({self.call_id!r}, {self.protocol!s}, {self.purpose!s})"

    @property
    def call_id(self) -> str:
        """Its id."""
        return str(self.record["call_id"])

    @property
    def sequence(self) -> int:
        """1, 2, … as requests reached the proxy: for reading, never evidence."""
        return int(self.record["sequence"])

    @property
    def participant_id(self) -> str | None:
        """Who made it; `None` unless that is proven."""
        owner = self.record["participant_id"]
        return None if owner is None else str(owner)

    @property
    def protocol(self) -> Protocol:
        """The wire format of context and output."""
        return Protocol(self.record["protocol"])

    @property
    def purpose(self) -> Purpose:
        """What it was made for."""
        return Purpose(self.record["purpose"])

    @property
    def exportable(self) -> bool:
        """May it enter per-call export?"""
        return bool(self.record["export_status"] == ExportStatus.EXPORTABLE)

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Why it may not."""
        return tuple(Blocker(word) for word in self.record["export_blockers"])

    @property
    def output(self) -> Any:
        """The provider's response in the shape it has without streaming; `None` if there was none."""
        return self.record["output"]

    @property
    def tokens(self) -> Usage:
        """What the service counted, in one meaning for all protocols; `record["usage"]` has its own words."""
        return usage_of(self.protocol, self.record["usage"])

    @property
    def context_text(self) -> bytes:
        """The request body's own JSON text, read anew each time. Raises `RollerError` when the file has changed."""
        return self._read_context()

    @property
    def context(self) -> Any:
        """The request body, parsed anew each time; numbers beyond 64 bit keep their exact value."""
        return json_text.parse(self._read_context())


def calls_of_file(path: Path, expected: FileIdentity) -> Iterator[Call]:
    """The calls of a file of calls. Raises `RollerError` when it is not the expected file, or a line is damaged."""
    cache = FrameCache()
    try:
        with CallFile(path, cache) as file:
            _check(path, file.status, expected)
            for head in file.heads(trust_lengths=False):
                if head.head is None or head.problem is not None or head.place is None:
                    raise RollerError(f"{path}:{head.number}: {head.problem}")
                yield Call(head.head, _ContextReader(path, expected, head.place, cache))
            _check(path, path.stat(), expected)
    except OSError as error:
        raise RollerError(f"{path}: cannot be read ({error.strerror or error})") from None


@dataclass(frozen=True, slots=True)
class _ContextReader:
    """Reads one context from the file that was validated."""

    path: Path
    expected: FileIdentity
    place: Place
    cache: FrameCache

    def __call__(self) -> bytes:
        try:
            with open_calls(self.path, self.cache) as calls:
                _check(self.path, calls.status, self.expected)
                if self.place.context is not None:
                    return calls.read(self.place.context, self.place.end - 1)
                line = calls.read(self.place.start, self.place.end)
        except OSError as error:
            raise RollerError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        return bytes(split_line(line)[1])


def _check(path: Path, status: os.stat_result, expected: FileIdentity) -> None:
    if FileIdentity.of(status) != expected:
        raise RollerError(f"{path}: has changed since the attempt was opened: open it again")
