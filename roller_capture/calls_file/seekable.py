"""The Zstandard seekable format: independent frames, and behind them a table of their sizes in a skippable frame.

The format is Zstandard's own (`contrib/seekable_format` of its sources), so `zstd -d` expands such a file. We hold to a
part of it: every frame but the last expands to the same number of bytes, at most `LARGEST_FRAME`, and there are no
checksums in the table, since each frame has one. What is read may come from anybody: sizes are compared before anything
is expanded, and no more than one frame is in memory.
"""

import os
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import zstandard

FRAME_BYTES: Final = 16 * 1024 * 1024
"""What a frame of ours expands to: docs/compressed-calls.md has the figures that this was chosen by."""

LARGEST_FRAME: Final = 64 * 1024 * 1024
"""What a reader takes: a frame is expanded as a whole."""

_FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC: Final = 0x184D2A5E
_SEEKABLE_MAGIC: Final = 0x8F92EAB1
_MOST_FRAMES: Final = 1024 * 1024
_HEADER: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<II")
_FOOTER: Final = struct.Struct("<IBI")
_CACHED_FRAMES: Final = 2
"""A line may begin in one frame and end in the next."""


class DamagedFileError(OSError):
    """A compressed file that is not what `CompressingWriter` makes. The message is for people."""


class SeekTable:
    """Where each frame lies, and what it expands to."""

    def __init__(self, compressed_sizes: Sequence[int], frame_bytes: int, size: int) -> None:
        self.frame_bytes = frame_bytes
        self.size = size
        """Of the expansion, in bytes."""
        self._starts = list(accumulate(compressed_sizes, initial=0))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def place(self, index: int) -> tuple[int, int, int]:
        """Offset and size of a frame in the file, and the size that it expands to."""
        expanded = min(self.frame_bytes, self.size - index * self.frame_bytes)
        return self._starts[index], self._starts[index + 1] - self._starts[index], expanded


def table_frame(sizes: list[tuple[int, int]]) -> bytes:
    """The seek table of frames given as (compressed size, expanded size), as the last frame of the file."""
    entries = b"".join(_ENTRY.pack(*pair) for pair in sizes)
    footer = _FOOTER.pack(len(sizes), 0, _SEEKABLE_MAGIC)
    return _HEADER.pack(_SKIPPABLE_MAGIC, len(entries) + len(footer)) + entries + footer


def read_table(descriptor: int, file_size: int) -> SeekTable:
    """The seek table at the end of a file. Raises `DamagedFileError` where it does not account for every byte of it."""
    if file_size < _HEADER.size + _FOOTER.size:
        raise DamagedFileError("is no calls file: it has no seek table at its end")
    count, descriptor_byte, magic = _FOOTER.unpack(_read(descriptor, _FOOTER.size, file_size - _FOOTER.size))
    if magic != _SEEKABLE_MAGIC:
        raise DamagedFileError("is torn, or no calls file: it has no seek table at its end")
    if descriptor_byte != 0:
        raise DamagedFileError("its seek table has a form that is not used here")
    content = count * _ENTRY.size + _FOOTER.size
    start = file_size - content - _HEADER.size
    if count > _MOST_FRAMES or start < 0:
        raise DamagedFileError("its seek table is damaged")
    if _HEADER.unpack(_read(descriptor, _HEADER.size, start)) != (_SKIPPABLE_MAGIC, content):
        raise DamagedFileError("its seek table is damaged")
    sizes = struct.unpack(f"<{2 * count}I", _read(descriptor, count * _ENTRY.size, start + _HEADER.size))
    return _checked(sizes[::2], sizes[1::2], start)


def _checked(compressed: Sequence[int], expanded: Sequence[int], frames_end: int) -> SeekTable:
    frame_bytes = expanded[0] if expanded else FRAME_BYTES
    if frame_bytes > LARGEST_FRAME:
        raise DamagedFileError(f"has a frame of {frame_bytes} bytes: at most {LARGEST_FRAME} are expanded at once")
    if expanded and not (set(expanded[:-1]) <= {frame_bytes} and 0 < expanded[-1] <= frame_bytes):
        raise DamagedFileError("its seek table has frames of different sizes")
    if sum(compressed) != frames_end:
        raise DamagedFileError("its seek table does not account for all of its bytes")
    if max(compressed, default=0) > frame_bytes + frame_bytes // 128 + 1024:
        raise DamagedFileError("has a frame that is larger than anything can become that expands to its size")
    return SeekTable(compressed, frame_bytes, sum(expanded))


class _Key(NamedTuple):
    device: int
    inode: int
    modified_ns: int
    frame: int


class FrameCache:
    """The frames that were expanded last. Several readers of a file may share one."""

    def __init__(self) -> None:
        self._frames: list[tuple[_Key, bytes]] = []

    def get(self, key: _Key) -> bytes | None:
        """A frame that is still there."""
        return next((frame for known, frame in self._frames if known == key), None)

    def put(self, key: _Key, frame: bytes) -> None:
        """One more; the oldest gives way."""
        self._frames = [(key, frame), *self._frames[: _CACHED_FRAMES - 1]]


class FrameReader:
    """Expands the frames of an open file, one at a time. Does not own the descriptor."""

    def __init__(self, descriptor: int, cache: FrameCache) -> None:
        self._descriptor = descriptor
        self._status = os.fstat(descriptor)
        self._cache = cache
        self._decompressor = zstandard.ZstdDecompressor()
        self.table = read_table(descriptor, self._status.st_size)

    def frame(self, index: int) -> bytes:
        """What frame `index` (from 0) expands to. Raises `DamagedFileError`."""
        key = _Key(self._status.st_dev, self._status.st_ino, self._status.st_mtime_ns, index)
        data = self._cache.get(key)
        if data is None:
            data = self._expanded(index)
            self._cache.put(key, data)
        return data

    def _expanded(self, index: int) -> bytes:
        offset, count, size = self.table.place(index)
        text = _read(self._descriptor, count, offset)
        where = f"frame {index + 1}"
        if text[:4] != _FRAME_MAGIC:
            raise DamagedFileError(f"{where} is no Zstandard frame")
        try:
            header = zstandard.get_frame_parameters(text)
        except zstandard.ZstdError:
            raise DamagedFileError(f"{where} has a damaged header") from None
        if header.content_size != size:
            raise DamagedFileError(f"{where} is not of the size that the seek table says")
        if header.dict_id:
            raise DamagedFileError(f"{where} wants the dictionary {header.dict_id}: none is used here")
        try:
            data = self._decompressor.decompress(text, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise DamagedFileError(f"{where} cannot be expanded: {error}") from None
        if len(data) != size:
            raise DamagedFileError(f"{where} is not of the size that the seek table says")
        return data


def _read(descriptor: int, count: int, offset: int) -> bytes:
    """Exactly these bytes. Raises `DamagedFileError` where the file has become shorter."""
    pieces: list[bytes] = []
    while count > 0:
        piece = os.pread(descriptor, count, offset)
        if not piece:
            raise DamagedFileError("has become shorter while it was read")
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
