"""Opens a file of calls, and reads it as if it were plain."""

import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from roller_capture.calls_file.seekable import DamagedFileError, FrameCache, FrameReader

SUFFIX: Final = ".zst"
_SEARCH_PIECE: Final = 256 * 1024
_STREAM_BUFFER: Final = 1024 * 1024
_LARGEST_READ: Final = 64 * 1024 * 1024
_LONGEST_LINE: Final = 2 * 1024**3
"""Above any line of ours, of which a body of 256 MiB is the largest part; a small compressed file may hold a longer."""


class CallsBytes(ABC):
    """The bytes of a file of calls, at any offset; also a context manager. `size` counts them, `status` is the file's.

    Methods raise `OSError`, of which `DamagedFileError` is one.
    """

    def __init__(self, descriptor: int, status: os.stat_result, size: int) -> None:
        self._descriptor = descriptor
        self.status = status
        self.size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file back."""
        os.close(self._descriptor)

    @abstractmethod
    def read_some(self, count: int, start: int) -> bytes:
        """From one byte up to `count` from `start` on; nothing at the end."""

    @abstractmethod
    def line_end(self, start: int) -> int:
        """The next line break from `start` on, or the end."""

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`, fewer where the file ends."""
        end = min(end, self.size)
        pieces: list[bytes] = []
        while start < end and (piece := self.read_some(min(_LARGEST_READ, end - start), start)):
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _PlainBytes(CallsBytes):
    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        super().__init__(descriptor, status, status.st_size)
        self._piece = bytearray(_SEARCH_PIECE)

    def read_some(self, count: int, start: int) -> bytes:
        return os.pread(self._descriptor, count, start)

    def line_end(self, start: int) -> int:
        while count := os.preadv(self._descriptor, [self._piece], start):
            place = self._piece.find(b"\n", 0, count)
            if place >= 0:
                return start + place
            start += count
        return self.size


class _ExpandedBytes(CallsBytes):
    def __init__(self, descriptor: int, status: os.stat_result, cache: FrameCache) -> None:
        self._frames = FrameReader(descriptor, cache)
        self._frame_bytes = self._frames.table.frame_bytes
        super().__init__(descriptor, status, self._frames.table.size)

    def read_some(self, count: int, start: int) -> bytes:
        if start >= self.size:
            return b""
        index, offset = divmod(start, self._frame_bytes)
        return self._frames.frame(index)[offset : offset + count]

    def line_end(self, start: int) -> int:
        while start < self.size:
            index, offset = divmod(start, self._frame_bytes)
            place = self._frames.frame(index).find(b"\n", offset)
            if place >= 0:
                return index * self._frame_bytes + place
            start = (index + 1) * self._frame_bytes
        return self.size


def open_calls(path: Path, cache: FrameCache | None = None, size: int | None = None) -> CallsBytes:
    """Opens a file of calls; one whose name ends in `.zst` is expanded as it is read, a frame at a time.

    Raises `OSError` when it is missing, a link, or no regular file; `DamagedFileError` for a compressed file that is
    torn, not ours, or does not expand to `size` bytes, where that is known. A `cache` spares several readers of one
    compressed file from expanding the same frame again.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedFileError("is no regular file")
        if path.suffix != SUFFIX:
            return _PlainBytes(descriptor, status)
        calls = _ExpandedBytes(descriptor, status, cache or FrameCache())
        if size is not None and calls.size != size:
            raise DamagedFileError(f"expands to {calls.size} bytes, the manifest says {size}")
        return calls
    except BaseException:
        os.close(descriptor)
        raise


def line_texts(path: Path) -> Iterator[bytes]:
    """The lines of a file of calls, each with its line break, one in memory at a time. Raises like `open_calls`."""
    with open_calls(path) as calls, io.BufferedReader(_Stream(calls), _STREAM_BUFFER) as stream:
        while line := stream.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                raise DamagedFileError(f"has a line of more than {_LONGEST_LINE} bytes")
            yield line


class _Stream(io.RawIOBase):
    """The bytes from the beginning to the end, for `io.BufferedReader`."""

    def __init__(self, calls: CallsBytes) -> None:
        self._calls = calls
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._calls.read_some(len(buffer), self._offset)
        buffer[: len(data)] = data
        self._offset += len(data)
        return len(data)
