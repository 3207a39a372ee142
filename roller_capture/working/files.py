"""Reads single working files: never a link, never a device, never more than a bound."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PIECE: Final = 1024 * 1024
LONGEST_EVENT: Final = 16 * 1024 * 1024
"""Bytes. The recorder's events are a few kilobytes."""


def read_regular_file(path: Path, *, limit: int) -> bytes:
    """The bytes of a regular file; links, devices and files above `limit` bytes raise `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is no regular file")
        data = stream.read(min(status.st_size, limit) + 1)  # not `limit`, for which room would be made at once
        while len(data) <= limit and (more := stream.read(_PIECE)):
            data += more
    if len(data) > limit:
        raise OSError(f"{path.name} is larger than {limit} bytes")
    return data


def body_pieces(path: Path, size: int) -> Iterator[bytes]:
    """The bytes of a body that was seen to have `size` of them, at most a MiB at a time. Raises `OSError`, also for a
    link."""
    return _read(path, min(size + 1, _PIECE))


def body_bytes(path: Path, size: int) -> bytes:
    """The same in one piece."""
    return b"".join(_read(path, size + 1))


def _read(path: Path, count: int) -> Iterator[bytes]:
    # No stream of Python's: of ten thousand small bodies, that costs more than to read them.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        while piece := os.read(descriptor, count):
            yield piece
    finally:
        os.close(descriptor)


def event_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of events.jsonl; a line above the limit is cut, so that it parses as damaged."""
    with path.open("rb") as stream:
        number = 0
        while line := stream.readline(LONGEST_EVENT):
            number += 1
            complete = line.endswith(b"\n")
            while not complete and (rest := stream.readline(LONGEST_EVENT)):
                complete = rest.endswith(b"\n")
                line = b"torn"
            if line.strip():
                yield number, line
