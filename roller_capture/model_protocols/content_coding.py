"""HTTP content codings undone piece by piece: gzip, x-gzip, deflate, br, zstd, identity, and lists of them.

Broken bodies are described, never refused: whatever can be decoded comes out, and the flags say what was wrong. Nothing
here knows what the bytes mean. The rules are those of RFC 9110 section 8.4.

A decoder library returns all that one piece of input expands to, so input is handed over in slices small enough that no
slice can expand to more than a few ten MiB; the decoded total is bounded by `limit`. When a slice turns out to be
broken, the libraries also withhold what the good part of that slice expanded to, so it is decoded again byte by byte.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import brotli
import zstandard

DECODED_LIMIT = 256 * 1024 * 1024
"""Most bytes that a body may decode to (design section 5)."""

MAX_CODINGS = 8
"""Most codings in one list. Real servers send one, rarely two; a longer list is refused like an unknown coding."""

_HISTORY_LIMIT = 1024 * 1024
_HEAD_BYTES = 32
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC_END = b"\x2a\x4d\x18"  # preceded by a byte 0x50 to 0x5f (RFC 8878 section 3.1.2)
_PLAIN_STARTS = (b"{", b"[", b"<", b"data:", b"event:", b"id:", b"retry:", b":")
_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\r\n"


class _Codec(Protocol):
    """One member or frame of a coded body. `decode` raises one of `_CODEC_ERRORS` on broken input."""

    def decode(self, data: bytes) -> bytes: ...

    @property
    def finished(self) -> bool: ...

    @property
    def unused(self) -> bytes: ...


class _Decompressor(Protocol):
    """What zlib and zstandard both give for one member or frame."""

    def decompress(self, data: bytes, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


class _Framed:
    """A coding whose library knows where a member ends."""

    def __init__(self, decompressor: _Decompressor) -> None:
        self._decompressor = decompressor

    def decode(self, data: bytes) -> bytes:
        return self._decompressor.decompress(data)

    @property
    def finished(self) -> bool:
        return self._decompressor.eof

    @property
    def unused(self) -> bytes:
        return self._decompressor.unused_data


class _Brotli:
    """The library raises on bytes after the end, so `unused` is found by the byte-by-byte second look."""

    unused = b""

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def decode(self, data: bytes) -> bytes:
        return bytes(self._decompressor.process(data))

    @property
    def finished(self) -> bool:
        return bool(self._decompressor.is_finished())


_CODEC_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)


def _deflate(head: bytes) -> _Codec:
    """zlib format as RFC 9110 demands, or the raw deflate that some servers send instead."""
    is_zlib = len(head) >= 2 and head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0
    return _Framed(zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS))


def _begins_gzip(data: bytes) -> bool:
    return data.startswith(_GZIP_MAGIC)


def _begins_zstd(data: bytes) -> bool:
    return data.startswith(_ZSTD_MAGIC) or (data[0] & 0xF0 == 0x50 and data[1:4] == _ZSTD_SKIPPABLE_MAGIC_END)


@dataclass(frozen=True, slots=True)
class _Coding:
    """How one coding is undone. `begins_member` tells whether a further member follows, from `head_bytes` bytes."""

    name: str
    new_codec: Callable[[bytes], _Codec]
    slice_bytes: int
    head_bytes: int = 1
    begins_member: Callable[[bytes], bool] | None = None


# Slices: deflate expands at most 1032-fold; a zstd block of 4 bytes gives at most 128 KiB; a brotli meta-block of some
# ten bytes gives at most 16 MiB.
_GZIP = _Coding("gzip", lambda _: _Framed(zlib.decompressobj(zlib.MAX_WBITS | 16)), 16 * 1024, 2, _begins_gzip)
_CODINGS = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": _Coding("deflate", _deflate, 16 * 1024, 2),
    "br": _Coding("br", lambda _: _Brotli(), 32),
    "zstd": _Coding("zstd", lambda _: _Framed(zstandard.ZstdDecompressor().decompressobj()), 1024, 4, _begins_zstd),
}


class _Member:
    """Decodes one member, and remembers enough of it to look again at a broken slice."""

    def __init__(self, coding: _Coding, head: bytes) -> None:
        self._coding = coding
        self._head = head
        self._codec = coding.new_codec(head)
        self._behind: _Codec | None = None
        self._history_bytes = 0
        self.history: list[bytes] = []
        self.history_whole = True
        self.finished = False
        self.broken: str | None = None
        self.rest = b""

    def feed(self, part: bytes) -> Iterator[bytes]:
        """What one slice decodes to. Afterwards `rest` holds what stands behind the member's end."""
        try:
            piece = self._codec.decode(part)
        except _CODEC_ERRORS as error:
            yield from self._look_again(part, f"{self._coding.name}: {error}")
            return
        if piece:
            yield piece
        if self._codec.finished:
            self.finished, self.rest = True, self._codec.unused
            return
        self.history.append(part)
        self._history_bytes += len(part)
        if self._history_bytes > _HISTORY_LIMIT:
            self._catch_up()
            self.history, self._history_bytes, self.history_whole = [], 0, False

    def _catch_up(self) -> _Codec:
        """A second decoder, brought to where the first stands after the history."""
        if self._behind is None:
            self._behind = self._coding.new_codec(self._head)
        for part in self.history:
            self._behind.decode(part)
        return self._behind

    def _look_again(self, part: bytes, message: str) -> Iterator[bytes]:
        codec = self._catch_up()
        self.history.append(part)
        for position in range(len(part)):
            try:
                piece = codec.decode(part[position : position + 1])
            except _CODEC_ERRORS:
                break
            if piece:
                yield piece
            if codec.finished:
                self.finished, self.rest = True, part[position + 1 :]
                return
        self.broken = message


@dataclass(slots=True)
class _Stage:
    """What is known of one coding of the list so far."""

    ended: bool = False
    invalid: str | None = None
    trailing_bytes: int = 0


def _slices(source: Iterator[bytes], size: int) -> Iterator[bytes]:
    for piece in source:
        for start in range(0, len(piece), size):
            yield piece[start : start + size]


def _undo(source: Iterator[bytes], coding: _Coding, stage: _Stage) -> Iterator[bytes]:
    """The decoded pieces of `source`. If it breaks before it gave anything, `source` itself comes out instead."""
    source = _slices(source, coding.slice_bytes)
    member: _Member | None = None
    emitted, members, data = False, 0, b""
    for part in source:
        data += part
        while data:
            if member is None:
                if len(data) < coding.head_bytes:
                    break  # wait for enough to tell what follows
                if members and not (coding.begins_member and coding.begins_member(data)):
                    stage.trailing_bytes += len(data) + sum(map(len, source))
                    return
                member, members, stage.ended = _Member(coding, data[: coding.head_bytes]), members + 1, False
            for piece in member.feed(data):
                emitted = True
                yield piece
            if member.broken is not None:
                stage.invalid = member.broken
                if not emitted and member.history_whole:
                    yield b"".join(member.history)
                    yield from source
                return
            data = member.rest
            if member.finished:
                stage.ended, member = True, None
    if members:
        stage.trailing_bytes += len(data)
    elif data:  # too short to be anything whole
        member = _Member(coding, data)
        pieces = list(member.feed(data))
        stage.invalid = member.broken
        yield from pieces if member.broken is None else [data]


def _looks_plain(head: bytes) -> bool:
    """Is this the beginning of JSON, of an event stream or of markup, rather than of anything coded?

    Needed because raw deflate and brotli have no magic number and make garbage of plain text. That a really coded body
    begins with such a word and goes on in printable ASCII only is beyond chance.
    """
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(_PLAIN_STARTS) and not head.removeprefix(b"\xef\xbb\xbf").translate(None, _PRINTABLE)


class ContentDecoding:
    """Undoes the codings of one body. The flags are final when `pieces` is exhausted.

    ended           every coding of the list reached its own end (true for no coding)
    invalid         what was wrong with the coded bytes, or `None`; a body that claims a coding but is plain text is
                    invalid too, and comes out as it is
    unknown         the name of a coding not known here, or `None`; then the bytes come out as they are
    too_large       decoding stopped at `limit`
    trailing_bytes  bytes behind the end of a coding
    encoded_bytes, decoded_bytes   how many went in and came out
    """

    def __init__(self, content_encoding: str | None, *, limit: int = DECODED_LIMIT) -> None:
        self._limit = limit
        names = [name.strip().lower() for name in (content_encoding or "").split(",")]
        names = [name for name in names if name not in ("", "identity")]
        self.unknown = next((name for name in names if name not in _CODINGS), None)
        if self.unknown is None and len(names) > MAX_CODINGS:
            self.unknown = f"a list of {len(names)} codings"
        self._codings = [] if self.unknown is not None else [_CODINGS[name] for name in reversed(names)]
        self._stages = [_Stage() for _ in self._codings]
        self._plain: str | None = None
        self.too_large = False
        self.encoded_bytes = 0
        self.decoded_bytes = 0

    def pieces(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The decoded body. An exception of `source` passes through."""
        stream = self._count(source)
        if self._codings:
            head, stream = _peek(stream)
            if _looks_plain(head):
                self._plain = f"{self._codings[0].name}: the body is plain text"
            else:
                for coding, stage in zip(self._codings, self._stages, strict=True):
                    stream = self._bounded(_undo(stream, coding, stage))
        for piece in self._bounded(stream):
            self.decoded_bytes += len(piece)
            yield piece

    def _count(self, source: Iterable[bytes]) -> Iterator[bytes]:
        for piece in source:
            self.encoded_bytes += len(piece)
            if piece:
                yield piece

    def _bounded(self, source: Iterator[bytes]) -> Iterator[bytes]:
        room = self._limit
        for piece in source:
            if len(piece) > room:
                self.too_large = True
                if room:
                    yield piece[:room]
                return
            room -= len(piece)
            yield piece

    @property
    def ended(self) -> bool:
        # An empty body has nothing to decode: a response to which an intermediary only left the header.
        return self._plain is None and (self.encoded_bytes == 0 or all(stage.ended for stage in self._stages))

    @property
    def invalid(self) -> str | None:
        return self._plain or next((stage.invalid for stage in self._stages if stage.invalid is not None), None)

    @property
    def trailing_bytes(self) -> int:
        return sum(stage.trailing_bytes for stage in self._stages)


def _peek(source: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first `_HEAD_BYTES` bytes (fewer at the end), and the whole source again."""
    first = b""
    for piece in source:
        first += piece
        if len(first) >= _HEAD_BYTES:
            break

    def whole() -> Iterator[bytes]:
        if first:
            yield first
        yield from source

    return first[:_HEAD_BYTES], whole()


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """A body with its codings undone; the members are those of `ContentDecoding`."""

    data: bytes
    ended: bool
    invalid: str | None
    unknown: str | None
    too_large: bool
    trailing_bytes: int


def decode_body(
    body: bytes | Iterable[bytes], content_encoding: str | None, *, limit: int = DECODED_LIMIT
) -> DecodedBody:
    """Undo the codings of a whole body, request or response. Never raises for what the body holds."""
    decoding = ContentDecoding(content_encoding, limit=limit)
    data = b"".join(decoding.pieces((body,) if isinstance(body, bytes) else body))
    return DecodedBody(
        data, decoding.ended, decoding.invalid, decoding.unknown, decoding.too_large, decoding.trailing_bytes
    )
