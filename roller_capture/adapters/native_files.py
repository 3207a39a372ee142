"""Finds and opens native files below a folder without leaving it.

A home or a copied log folder may hold links, devices and pipes, put there by accident or on purpose. Nothing here
follows a link (only the root itself may be one, since the user named it), opens anything but regular files, or goes
above the root.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import NativeSource
from roller_capture.vocabulary import AttemptErrorCode

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PathKind(Enum):
    """What stands at a path."""

    FILE = "file"
    FOLDER = "folder"
    REFUSED = "refused"  # a link, something behind one, or no regular file
    MISSING = "missing"


class NativeTree:
    """The files below one root, addressed by relative POSIX paths, which are also their evidence source names."""

    def __init__(self, root: Path, gaps: GapLog) -> None:
        self._root = root.resolve()
        self._gaps = gaps
        self._sources: dict[str, NativeSource] = {}

    @property
    def sources(self) -> tuple[NativeSource, ...]:
        """The files that were opened as evidence, by name."""
        return tuple(self._sources[name] for name in sorted(self._sources))

    def kind(self, path: PurePosixPath) -> PathKind:
        """What stands at `path`, looked at component by component."""
        mode = stat.S_IFDIR
        place = self._root
        for part in path.parts:
            if not stat.S_ISDIR(mode):
                return PathKind.MISSING
            if part in ("..", "/"):
                return PathKind.REFUSED
            place = place / part
            try:
                mode = place.lstat().st_mode
            except PermissionError as error:
                self._unreadable(path, error)
                return PathKind.MISSING
            except (OSError, ValueError):  # ValueError: a NUL in the name
                return PathKind.MISSING
            if stat.S_ISLNK(mode):
                return PathKind.REFUSED
        if stat.S_ISDIR(mode):
            return PathKind.FOLDER
        return PathKind.FILE if stat.S_ISREG(mode) else PathKind.REFUSED

    def names(self, folder: PurePosixPath) -> list[str]:
        """The printable names in a folder, sorted; empty when there is no such folder."""
        if self.kind(folder) is not PathKind.FOLDER:
            return []
        try:
            return sorted(path.name for path in (self._root / folder).iterdir() if _is_plain_name(path.name))
        except OSError as error:
            self._unreadable(folder, error)
            return []

    @contextmanager
    def open(self, path: PurePosixPath, *, as_evidence: bool = True) -> Iterator[BinaryIO | None]:
        """The regular file at `path`, or `None` where there is none; a refused or unreadable one is a gap."""
        descriptor = self._descriptor(path)
        if descriptor is None:
            yield None
            return
        with os.fdopen(descriptor, "rb") as stream:
            if as_evidence:
                self._sources[str(path)] = NativeSource(str(path), self._root / path)
            yield stream

    def place(self, path: PurePosixPath) -> Path:
        """Where `path` lies, for who can open it by its name only: nothing is known of what stands there by then."""
        return self._root / path

    def refuse(self, path: PurePosixPath) -> None:
        """Notes that what stands at `path` was not looked at."""
        reason = "is a link, lies behind one, or is no regular file"
        self._gaps.add(AttemptErrorCode.FILE_REFUSED, reason, source=str(path))

    def _descriptor(self, path: PurePosixPath) -> int | None:
        kind = self.kind(path)
        if kind is PathKind.REFUSED:
            self.refuse(path)
        if kind is not PathKind.FILE:
            return None
        try:
            descriptor = os.open(self._root / path, _OPEN_FLAGS)
        except OSError as error:
            self._unreadable(path, error)
            return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        self.refuse(path)
        return None

    def _unreadable(self, path: PurePosixPath, error: OSError) -> None:
        reason = f"cannot be read: {error.strerror}"
        self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(path))


def _is_plain_name(name: str) -> bool:
    """Whether a name can be published as part of an evidence source."""
    return name.isprintable() and as_id(name) is not None
