"""Expands the compressed session logs of DeepSeek Harness, as far as they can be read.

The full profiles append one zstd frame per flush, so a harness that was killed leaves a frame torn off in the middle,
and one that goes on afterwards appends whole frames behind it. What a broken frame holds up to its break is kept, and
reading goes on at the next frame. Size is bounded: a small file can expand without end.
"""

from enum import Enum
from typing import BinaryIO, Final

import zstandard

MAGIC: Final = b"\x28\xb5\x2f\xfd"
LARGEST_EXPANSION: Final = 1 << 30
"""Bytes of all logs of one attempt together, expanded."""

_STEP: Final = 128
"""Bytes given to the decoder at once: a few bytes can stand for 128 KiB, and what a broken step held is lost."""

_LARGEST_WINDOW: Final = 1 << 27
_CHUNK: Final = 1 << 16


class FrameProblem(Enum):
    """Why a log is not whole; the value is the reason in words."""

    TORN = "ends in the middle of a compressed frame"
    DAMAGED = "holds a compressed frame that cannot be read to its end"
    TOO_LARGE = "is too large when it is expanded"


class Budget:
    """How many expanded bytes may still be written."""

    def __init__(self, bytes_left: int = LARGEST_EXPANSION) -> None:
        self.bytes_left = bytes_left


class _TooLargeError(Exception):
    """The budget is used up."""


class _Sink:
    """Writes within the budget, and begins a line of its own behind a break."""

    def __init__(self, target: BinaryIO, budget: Budget) -> None:
        self._target = target
        self._budget = budget
        self._last = b"\n"

    def write(self, data: bytes) -> None:
        kept = data[: self._budget.bytes_left]
        self._budget.bytes_left -= len(kept)
        if kept:
            self._target.write(kept)
            self._last = kept[-1:]
        if len(kept) < len(data):
            raise _TooLargeError

    def end_line(self) -> None:
        if self._last != b"\n":
            self.write(b"\n")


def expand(source: BinaryIO, target: BinaryIO, budget: Budget) -> list[FrameProblem]:
    """Writes the content of all readable frames of `source`, a seekable file, to `target`.

    Raises `OSError`. What is wrong with the file is returned, each kind once.
    """
    sink = _Sink(target, budget)
    problems: dict[FrameProblem, None] = {}
    start = 0
    try:
        while True:
            source.seek(start)
            end, problem = _expand_frame(source, start, sink)
            if problem is None and end == start:
                break
            if problem is not None:
                problems[problem] = None
                found = _next_frame(source, start + 1)
                if found is None:
                    break
                # What is torn off in the middle of a file was followed by a further frame.
                problems.pop(FrameProblem.TORN, None)
                problems[FrameProblem.DAMAGED] = None
                sink.end_line()
                end = found
            start = end
    except _TooLargeError:
        problems[FrameProblem.TOO_LARGE] = None
    return list(problems)


def _expand_frame(source: BinaryIO, start: int, sink: _Sink) -> tuple[int, FrameProblem | None]:
    """Expands the frame at `start`; returns where it ended. At the end of the file that is `start` itself."""
    decoder = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
    position = start
    while step := source.read(_STEP):
        try:
            output = decoder.decompress(step)
        except zstandard.ZstdError:
            return position, FrameProblem.DAMAGED
        sink.write(output)
        position += len(step)
        if decoder.eof:
            return position - len(decoder.unused_data), None
    return position, FrameProblem.TORN if position > start else None


def _next_frame(source: BinaryIO, start: int) -> int | None:
    """Where the next frame begins, at `start` or behind it."""
    source.seek(start)
    before = b""
    while chunk := source.read(_CHUNK):
        window = before + chunk
        place = window.find(MAGIC)
        if place >= 0:
            return start - len(before) + place
        start += len(chunk)
        before = window[-len(MAGIC) + 1 :]
    return None
