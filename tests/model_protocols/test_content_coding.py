"""Content codings: undone piece by piece, bounded, and honest about everything that is wrong with the bytes."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
import zstandard

from roller_capture.model_protocols.content_coding import DecodedBody, decode_body
from tests.model_protocols.transcripts import bytewise

TEXT = b'data: {"text":"' + bytes(range(32, 127)) * 40 + '— 😀"}\n\n'.encode()


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def zstd_streamed(data: bytes) -> bytes:
    """A frame that does not tell its size, in many flushed blocks, as servers send event streams."""
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [compressor.compress(data[at : at + 50]) + compressor.flush(1) for at in range(0, len(data), 50)]
    return b"".join([*parts, compressor.flush()])


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip in capitals": (" X-GZIP ", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd),
    "zstd streamed": ("zstd", zstd_streamed),
    "identity": ("identity", bytes),
    "none": ("", bytes),
    "stacked": ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
    "stacked three": ("identity,zstd,, deflate ,gzip", lambda data: gzip.compress(zlib.compress(zstd(data)))),
}
CODED = {name: pair for name, pair in ENCODERS.items() if name not in ("identity", "none")}


def good(data: bytes) -> DecodedBody:
    return DecodedBody(data, ended=True, invalid=None, unknown=None, too_large=False, trailing_bytes=0)


@pytest.mark.parametrize(("coding", "encode"), ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("cut", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
def test_coding_is_undone(
    coding: str, encode: Callable[[bytes], bytes], cut: Callable[[bytes], Iterator[bytes]]
) -> None:
    """Every coding, and lists of codings, give the body back, however it is cut."""
    assert decode_body(cut(encode(TEXT)), coding) == good(TEXT)


@pytest.mark.parametrize(("coding", "encode"), CODED.values(), ids=CODED)
def test_truncation_gives_the_beginning_and_says_so(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A body cut anywhere gives a beginning of the text, and its coding has not ended."""
    encoded = encode(TEXT)
    for size in range(1, len(encoded)):
        body = decode_body(encoded[:size], coding)
        assert not body.ended, size
        assert body.invalid is None, size
        assert TEXT.startswith(body.data), size


def test_flushed_pieces_come_out_before_the_end() -> None:
    """What a server has flushed is decoded although the stream was cut behind it."""
    encoded = zstd_streamed(TEXT)
    assert len(decode_body(encoded[:-20], "zstd").data) > len(TEXT) * 0.8


@pytest.mark.parametrize(("coding", "encode"), CODED.values(), ids=CODED)
def test_damage_never_raises(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """One wrong byte anywhere: no exception, and no more than the limit."""
    encoded = encode(TEXT)
    for position in range(len(encoded)):
        damaged = bytearray(encoded)
        damaged[position] ^= 0xA5
        body = decode_body(bytes(damaged), coding, limit=1_000_000)
        assert len(body.data) <= 1_000_000


def test_text_in_front_of_damage_is_kept() -> None:
    """A wrong checksum at the very end costs nothing of the text, though the library gives nothing for that input."""
    encoded = bytearray(gzip.compress(TEXT))
    encoded[-6] ^= 0xFF
    body = decode_body(bytes(encoded), "gzip")
    assert body.data == TEXT
    assert body.invalid is not None
    assert not body.ended


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", gzip.compress(b"one ") + gzip.compress(b"two")),
        ("zstd", zstd(b"one ") + b"\x53\x2a\x4d\x18\x03\0\0\0abc" + zstd(b"two")),
    ],
)
@pytest.mark.parametrize("cut", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
def test_members_follow_each_other(coding: str, data: bytes, cut: Callable[[bytes], Iterator[bytes]]) -> None:
    """Several gzip members or zstd frames, also frames to be skipped, are one body."""
    assert decode_body(cut(data), coding) == good(b"one two")


def test_body_cut_in_its_second_member_has_not_ended() -> None:
    """The end of the first member is not the end of the body."""
    body = decode_body(gzip.compress(b"one ") + gzip.compress(b"two")[:-3], "gzip")
    assert (body.data, body.ended) == (b"one two", False)


@pytest.mark.parametrize(("coding", "encode"), CODED.values(), ids=CODED)
@pytest.mark.parametrize("trailing", [b"\0", b"\0" * 700, b"\x1f", b"trailing text"])
def test_trailing_bytes_are_counted_and_cost_nothing(
    coding: str, encode: Callable[[bytes], bytes], trailing: bytes
) -> None:
    """Bytes behind the end of a coding are no part of the body."""
    for pieces in ([encode(TEXT) + trailing], [encode(TEXT), trailing]):
        body = decode_body(pieces, coding)
        assert (body.data, body.ended, body.invalid) == (TEXT, True, None)
        assert body.trailing_bytes == len(trailing)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize(
    "data", [b'{"id":"x","type":"message"}', b"data: {}\n\n", b": hello\n\n", b"<!DOCTYPE html>", b"\n event: ping\n\n"]
)
@pytest.mark.parametrize("cut", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
def test_plain_text_under_a_claimed_coding_is_kept(
    coding: str, data: bytes, cut: Callable[[bytes], Iterator[bytes]]
) -> None:
    """A header that claims a coding although the bytes are plain: the bytes come out, marked as invalid."""
    body = decode_body(cut(data), coding)
    assert body.data == data
    assert body.invalid is not None
    assert not body.ended


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_bytes_that_are_no_coding_at_all_are_kept(coding: str) -> None:
    """Where nothing can be decoded, the bytes themselves come out."""
    data = bytes(range(255, 0, -1)) * 20
    body = decode_body([data[:1000], data[1000:]], coding)
    assert body.data == data
    assert body.invalid is not None


def test_coding_claimed_twice_but_used_once() -> None:
    """Of a list of which only the last coding was used, that one is undone."""
    body = decode_body(brotli.compress(TEXT), "gzip, br")
    assert body.data == TEXT
    assert body.invalid is not None


@pytest.mark.parametrize("coding", ["compress", "dcb", "utf-8", "gzip, mystery", "gzip," * 9])
def test_unknown_coding_leaves_the_bytes_alone(coding: str) -> None:
    """A coding that is not known here, or a list longer than any server sends, is named."""
    body = decode_body(b"\x01\x02", coding)
    assert body.data == b"\x01\x02"
    assert body.unknown in ("compress", "dcb", "utf-8", "mystery", "a list of 9 codings")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_empty_body_has_nothing_to_end(coding: str) -> None:
    """An empty body under a coding header is just empty."""
    assert decode_body(b"", coding) == good(b"")
    assert decode_body([b"", b""], coding) == good(b"")


@pytest.mark.parametrize(("coding", "encode"), ENCODERS.values(), ids=ENCODERS)
def test_limit_is_exact(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A body of exactly the limit passes, one byte more is too large and cut there."""
    assert decode_body(encode(TEXT), coding, limit=len(TEXT)) == good(TEXT)
    body = decode_body(encode(TEXT), coding, limit=len(TEXT) - 1)
    assert body.too_large
    assert body.data == TEXT[:-1]


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": zstd,
}


@pytest.mark.parametrize(("coding", "encode"), BOMBS.items(), ids=BOMBS)
def test_bomb_is_never_held(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A small body that expands to 128 MB is stopped at the limit, and much less than that is ever in memory."""
    bomb = encode(bytes(128_000_000))
    tracemalloc.start()
    body = decode_body(bomb, coding, limit=1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert body.too_large
    assert len(body.data) == 1_000_000
    assert peak < 80_000_000


def test_many_empty_members_take_linear_time() -> None:
    """A body of nothing but empty members decodes to nothing."""
    assert decode_body(gzip.compress(b"") * 20_000, "gzip") == good(b"")
