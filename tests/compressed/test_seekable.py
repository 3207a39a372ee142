"""The compressed form as bytes: what is read is what was written, and whatever else is there is refused."""

import io
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from roller_capture.calls_file import CompressingWriter, DamagedFileError, FrameCache, line_texts, open_calls, seekable
from roller_capture.calls_file.seekable import table_frame

LINES = [b"%06d " % number + b"the same words again and again " * (number % 40) + b"\n" for number in range(400)]
TEXT = b"".join(LINES)
FRAME = 4096


def written(data: bytes, frame_bytes: int = FRAME) -> bytes:
    """`data` in the compressed form, handed over in pieces of odd sizes."""
    out = io.BytesIO()
    writer = CompressingWriter(out.write, frame_bytes)
    for start in range(0, len(data), 1009):
        writer.write(data[start : start + 1009])
    writer.finish()
    return out.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl.zst"


def test_any_part_is_the_part_that_was_written(path: Path) -> None:
    """At every border of a frame, over several frames, and beyond the end."""
    path.write_bytes(written(TEXT))
    with open_calls(path) as calls:
        assert calls.size == len(TEXT)
        for start in (0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME - 7, len(TEXT) - 1, len(TEXT), len(TEXT) + 9):
            for count in (1, 7, FRAME, 3 * FRAME + 5, len(TEXT)):
                assert calls.read(start, start + count) == TEXT[start : start + count]
            end = TEXT.find(b"\n", start)
            assert calls.line_end(start) == (end if end >= 0 else len(TEXT))


def test_lines_are_those_of_the_plain_file(path: Path, tmp_path: Path) -> None:
    """Also a last one without its line break."""
    (tmp_path / "calls.jsonl").write_bytes(TEXT + b"torn")
    path.write_bytes(written(TEXT + b"torn"))
    assert list(line_texts(path)) == list(line_texts(tmp_path / "calls.jsonl")) == [*LINES, b"torn"]


@given(st.binary(max_size=3000), st.integers(1, 700))
def test_every_text_comes_back(data: bytes, frame_bytes: int) -> None:
    """Whatever its size is to that of a frame; `Zstandard` itself expands it to the same."""
    compressed = written(data, frame_bytes)
    descriptor = os.memfd_create("calls")
    with os.fdopen(descriptor, "r+b") as stream:
        stream.write(compressed)
        stream.flush()
        with open_calls_of(descriptor) as calls:
            assert (calls.size, calls.read(0, calls.size)) == (len(data), data)
    if compressed[:4] == b"\x28\xb5\x2f\xfd":
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(compressed), read_across_frames=True)
        assert reader.read() == data


def open_calls_of(descriptor: int):  # noqa: ANN201
    """Opens what a descriptor shows, by a name that ends in `.zst`."""
    from roller_capture.calls_file.opening import _ExpandedBytes

    own = os.dup(descriptor)
    return _ExpandedBytes(own, os.fstat(own), FrameCache())


@pytest.mark.skipif(shutil.which("zstd") is None, reason="there is no zstd here")
@pytest.mark.parametrize("data", [TEXT, b""])
def test_the_zstd_command_expands_it(data: bytes, path: Path) -> None:
    """Without any option."""
    path.write_bytes(written(data))
    assert subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True).stdout == data


def test_one_line_is_read_without_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own frames are expanded and no others, and these once, whoever asks with the same cache."""
    path.write_bytes(written(TEXT))
    expanded: list[int] = []
    original = seekable.FrameReader._expanded
    monkeypatch.setattr(
        seekable.FrameReader, "_expanded", lambda self, index: expanded.append(index) or original(self, index)
    )
    cache = FrameCache()
    for _ in range(3):
        with open_calls(path, cache) as calls:
            assert calls.read(5 * FRAME - 10, 5 * FRAME + 10) == TEXT[5 * FRAME - 10 : 5 * FRAME + 10]
    assert expanded == [4, 5]


def test_a_cache_knows_one_file_from_another(path: Path, tmp_path: Path) -> None:
    """Two attempts, one cache: nobody gets the other's calls."""
    other = tmp_path / "other.zst"
    path.write_bytes(written(b"one\n"))
    other.write_bytes(written(b"two\n"))
    cache = FrameCache()
    for file, text in ((path, b"one\n"), (other, b"two\n"), (path, b"one\n")):
        with open_calls(file, cache) as calls:
            assert calls.read(0, 4) == text


def frames(*expanded: bytes, **options: int) -> list[bytes]:
    return [zstandard.ZstdCompressor(**options).compress(data) for data in expanded]


def file_of(parts: list[bytes], sizes: list[int]) -> bytes:
    """Frames with a seek table that says they expand to these sizes."""
    return b"".join(parts) + table_frame([(len(part), size) for part, size in zip(parts, sizes, strict=True)])


def without_content_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def with_dictionary() -> bytes:
    dictionary = zstandard.train_dictionary(1024, [b"sample %d of the words that come again" % n for n in range(2000)])
    return zstandard.ZstdCompressor(dict_data=dictionary).compress(b"the words that come again")


def skippable(size: int) -> bytes:
    return struct.pack("<II", 0x184D2A50, size) + b"x" * size


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]


GOOD = written(TEXT)
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "no seek table"),
    "torn at its end": (lambda: GOOD[:-1], "no seek table"),
    "torn in the middle": (lambda: GOOD[: len(GOOD) // 2], "no seek table"),
    "its beginning is missing": (lambda: GOOD[10:], "does not account for all"),
    "garbage": (lambda: bytes(range(256)) * 20, "no seek table"),
    "plain text": (lambda: TEXT, "no seek table"),
    "one frame without a table": (lambda: frames(TEXT)[0], "no seek table"),
    "a frame that the table does not list": (lambda: frames(b"secret")[0] + GOOD, "does not account for all"),
    "a skippable frame between the others": (lambda: skippable(40) + GOOD, "does not account for all"),
    "a skippable frame that the table lists": (lambda: file_of([skippable(40)], [40]), "frame 1 is no Zstandard frame"),
    "a table with checksums": (lambda: flipped(GOOD, len(GOOD) - 5), "a form that is not used"),
    "a table of another length": (lambda: flipped(GOOD, len(GOOD) - 9), "seek table is damaged"),
    "a table of four billion frames": (
        lambda: GOOD[:-9] + struct.pack("<IBI", 2**32 - 1, 0, 0x8F92EAB1),
        "seek table is damaged",
    ),
    "a bomb, and a table that says so": (
        lambda: file_of(frames(bytes(80 * 1024 * 1024)), [80 * 1024 * 1024]),
        "has a frame of 83886080 bytes: at most",
    ),
    "a bomb behind a table that says little": (
        lambda: file_of(frames(bytes(80 * 1024 * 1024)), [100_000]),
        "not of the size that the seek table says",
    ),
    "a bomb that does not tell its size": (
        lambda: file_of([without_content_size(bytes(80 * 1024 * 1024))], [100_000]),
        "not of the size that the seek table says",
    ),
    "a second frame behind the first": (
        lambda: file_of([b"".join(frames(b"one", b"two"))], [3]),
        "frame 1 cannot be expanded",
    ),
    "frames of different sizes": (lambda: file_of(frames(b"one", b"three", b"one"), [3, 5, 3]), "different sizes"),
    "a last frame larger than the others": (lambda: file_of(frames(b"one", b"three"), [3, 5]), "different sizes"),
    "an empty frame": (lambda: file_of(frames(b"one", b""), [3, 0]), "different sizes"),
    "a dictionary": (lambda: file_of([with_dictionary()], [25]), r"frame 1 wants the dictionary \d+"),
    "a frame of which a bit is wrong": (lambda: flipped(GOOD, 200), r"frame \d+ cannot be expanded"),
    "a frame larger than its expansion": (
        lambda: file_of([frames(b"x")[0] + bytes(5000)], [1]),
        "larger than anything can become",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_else_is_there_is_refused(kind: str, path: Path) -> None:
    """With one line that says what it is; nothing large is expanded."""
    make, words = HOSTILE[kind]
    path.write_bytes(make())
    with pytest.raises(DamagedFileError, match=words) as caught, open_calls(path) as calls:
        calls.read(0, calls.size)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_it_is_a_regular_file_or_nothing(kind: str, path: Path, tmp_path: Path) -> None:
    """And nobody waits for a writer."""
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(GOOD)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"link|no regular file"):
        open_calls(path)


def test_a_line_that_never_ends_is_not_gathered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may expand to any length without a line break."""
    monkeypatch.setattr("roller_capture.calls_file.opening._LONGEST_LINE", 50_000)
    path.write_bytes(written(b"short\n" + b"x" * 200_000))
    lines = line_texts(path)
    assert next(lines) == b"short\n"
    with pytest.raises(DamagedFileError, match="a line of more than 50000 bytes"):
        next(lines)


def test_a_file_that_becomes_shorter_is_no_endless_loop(path: Path) -> None:
    """Somebody truncates it while it is read."""
    path.write_bytes(GOOD)
    with open_calls(path) as calls:
        os.truncate(path, 5)
        with pytest.raises(DamagedFileError, match="shorter"):
            calls.read(0, calls.size)
