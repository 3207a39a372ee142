"""Writes the compressed form: lines in, frames and their seek table out."""

import hashlib
from collections.abc import Callable
from typing import Final

import zstandard

from roller_capture.calls_file.seekable import FRAME_BYTES, table_frame

_LEVEL: Final = 3
_WINDOW_LOG: Final = FRAME_BYTES.bit_length() - 1
"""The window reaches over the whole frame: a context repeats one that stands hundreds of kilobytes before it."""


class CompressingWriter:
    """Gathers what is written into frames of `frame_bytes` and hands them on; knows hash and size of what it was given.

    At most one frame is in memory.
    """

    def __init__(self, sink: Callable[[bytes], object], frame_bytes: int = FRAME_BYTES) -> None:
        self._sink = sink
        self._frame_bytes = frame_bytes
        self._frame = bytearray()
        self._sizes: list[tuple[int, int]] = []
        self._digest = hashlib.sha256()
        parameters = zstandard.ZstdCompressionParameters.from_level(
            _LEVEL, window_log=_WINDOW_LOG, write_checksum=True, write_content_size=True
        )
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters)
        self.size = 0
        """Bytes that were written, before compression."""

    def write(self, data: bytes) -> None:
        """Appends `data`."""
        self._digest.update(data)
        self.size += len(data)
        left = memoryview(data)
        while left:
            taken = left[: self._frame_bytes - len(self._frame)]
            self._frame += taken
            left = left[len(taken) :]
            if len(self._frame) == self._frame_bytes:
                self._end_frame()

    def finish(self) -> None:
        """Hands on what is left, and the seek table."""
        if self._frame:
            self._end_frame()
        self._sink(table_frame(self._sizes))

    @property
    def sha256(self) -> str:
        """Of what was written, before compression."""
        return self._digest.hexdigest()

    def _end_frame(self) -> None:
        frame = self._compressor.compress(self._frame)
        self._sizes.append((len(frame), len(self._frame)))
        self._frame.clear()
        self._sink(frame)
