"""Content-codings, both ways. Kept apart from the decoders of captured bodies, which are checked with it."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import zstandard

CODINGS = (None, "gzip", "deflate", "br", "zstd")
"""What an answer can be encoded with."""


def decode_body(raw: bytes, content_encoding: str) -> bytes:
    """The body without its content-codings, undone last first. Raises `ValueError` for what it cannot undo."""
    for coding in reversed([part.strip().lower() for part in content_encoding.split(",")]):
        try:
            raw = _undo(raw, coding)
        except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise ValueError(f"body is no {coding}: {error}") from error
    return raw


def _undo(raw: bytes, coding: str) -> bytes:
    if coding in ("", "identity"):
        return raw
    if coding in ("gzip", "x-gzip"):
        return gzip.decompress(raw)
    if coding == "deflate":
        return zlib.decompress(raw)
    if coding == "br":
        return bytes(brotli.decompress(raw))
    if coding == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    raise ValueError(f"unknown content-encoding {coding!r}")


class Coder:
    """Encodes one answer: after every `feed` a reader has all it needs to see what was fed."""

    feed: Callable[[bytes], bytes]
    finish: Callable[[], bytes]

    def __init__(self, coding: str | None) -> None:
        self.headers: dict[str, str] = {} if coding is None else {"content-encoding": coding}
        if coding is None:
            self.feed, self.finish = lambda data: data, bytes
        elif coding in ("gzip", "deflate"):
            deflater = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
            self.feed = lambda data: deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)
            self.finish = deflater.flush
        elif coding == "br":
            brotler = brotli.Compressor(quality=4)
            self.feed = lambda data: bytes(brotler.process(data) + brotler.flush())
            self.finish = lambda: bytes(brotler.finish())
        else:
            frame = zstandard.ZstdCompressor().compressobj()
            self.feed = lambda data: frame.compress(data) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            self.finish = frame.flush
