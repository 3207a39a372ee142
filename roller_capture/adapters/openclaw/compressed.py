"""Transcript events that OpenClaw stores compressed: one zstd frame each, of at most 4 MiB of text (schema 23)."""

from typing import Final

import zstandard

LARGEST_EVENT: Final = 16 * 1024 * 1024
"""Bytes of text that are decompressed of one event; the schema itself allows a quarter of it."""

_LARGEST_WINDOW: Final = 128 * 1024 * 1024
_SLICE: Final = 64
"""Bytes of a frame that are decompressed at once: four of them can stand for 128 KiB."""


def event_text(frame: bytes) -> object:
    """The event's JSON text, or an object `{"unreadable": reason}` where there is none. Raises nothing."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(frame), _SLICE):
            piece = decompressor.decompress(frame[start : start + _SLICE])
            size += len(piece)
            if size > LARGEST_EVENT:
                return {"unreadable": "is too large"}
            pieces.append(piece)
            if decompressor.eof:
                return b"".join(pieces).decode("utf-8")
    except zstandard.ZstdError:
        return {"unreadable": "is no zstd frame"}
    except UnicodeDecodeError:
        return {"unreadable": "is no text"}
    return {"unreadable": "is torn"}
