"""Compressed logs: expanded as far as they can be read, within a bound, with a gap for what is missing."""

import io
from pathlib import Path

import pytest
import zstandard

from roller_capture.adapters.deepseek import read
from roller_capture.adapters.deepseek.frames import Budget, FrameProblem, expand
from roller_capture.capture_protocol import AdapterInput
from tests.adapters.deepseek.session_logs import (
    CHILD,
    ROOT,
    SessionLogs,
    answer,
    child_log,
    gap_codes,
    header,
    launch,
    turn,
)

_LINES = [b'{"number":%d,"text":"%s"}\n' % (number, b"some words " * 40) for number in range(60)]
_WHOLE = b"".join(_LINES)


def _frame(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)


def _frames(size: int = 20) -> list[bytes]:
    return [_frame(b"".join(_LINES[at : at + size])) for at in range(0, len(_LINES), size)]


def _expanded(data: bytes, budget: int = 1 << 30) -> tuple[bytes, list[FrameProblem]]:
    target = io.BytesIO()
    problems = expand(io.BytesIO(data), target, Budget(budget))
    return target.getvalue(), problems


@pytest.mark.parametrize("size", [1, 7, 60])
def test_frames_of_any_number_give_the_whole(size: int) -> None:
    """One for each flush of the harness."""
    assert _expanded(b"".join(_frames(size))) == (_WHOLE, [])


def test_an_empty_file_holds_nothing() -> None:
    """And nothing is wrong with it."""
    assert _expanded(b"") == (b"", [])


def test_a_torn_frame_gives_its_readable_beginning() -> None:
    """Wherever it is torn: never more than was written, never less than the whole frames before it."""
    one, two, _ = _frames()
    first = b"".join(_LINES[:20])
    for length in range(1, len(two)):
        data, problems = _expanded(one + two[:length])
        assert data.startswith(first)
        assert _WHOLE.startswith(data)
        assert problems == [FrameProblem.TORN]


def test_blocks_before_the_tear_are_kept() -> None:
    """A frame of many blocks, torn near its end, loses only its last block."""
    rows = b"".join(b"%d %d\n" % (number, number * 7919 % 104729) for number in range(60_000))
    frame = _frame(rows)
    data, problems = _expanded(frame[: len(frame) - 40])
    assert problems == [FrameProblem.TORN]
    assert len(data) > len(rows) // 2
    assert rows.startswith(data)


def test_what_follows_a_torn_frame_is_read_in_lines_of_its_own() -> None:
    """A harness that was killed and goes on appends whole frames behind the torn one."""
    one, two, three = _frames()
    data, problems = _expanded(one + two[:-30] + three)
    assert problems == [FrameProblem.DAMAGED]
    lines = data.splitlines(keepends=True)
    assert lines[:20] == _LINES[:20]
    assert lines[-20:] == _LINES[40:]


def test_what_a_break_cut_off_does_not_run_into_the_next_line() -> None:
    """The torn frame's last line stays alone, so that only it is unreadable."""
    rows = b"".join(b"%d %d\n" % (number, number * 7919 % 104729) for number in range(60_000))
    torn = _frame(rows)[:-40]
    data, problems = _expanded(torn + _frame(b"behind the break\n"))
    assert problems == [FrameProblem.DAMAGED]
    assert data.endswith(b"\nbehind the break\n")
    assert rows.startswith(data[: len(rows) // 2])


@pytest.mark.parametrize("junk", [b"junk", b"\0" * 5000, b"\x28\xb5\x2f", b"\xff" * 70000])
def test_what_is_no_frame_is_passed_over(junk: bytes) -> None:
    """Before, between and behind frames."""
    one, two, three = _frames()
    data, problems = _expanded(junk + one + junk + two + three)
    assert [line for line in data.splitlines(keepends=True) if line in _LINES] == _LINES
    assert problems == [FrameProblem.DAMAGED]


@pytest.mark.parametrize("budget", [0, 1, 1000, len(_WHOLE) - 1])
def test_the_expanded_size_is_bounded(budget: int) -> None:
    """A small file can stand for any size."""
    data, problems = _expanded(b"".join(_frames()), budget)
    assert data == _WHOLE[:budget]
    assert problems == [FrameProblem.TOO_LARGE]


def test_a_step_of_the_decoder_expands_to_little() -> None:
    """So that memory is bounded too, whatever a frame stands for."""
    bomb = _frame(bytes(1 << 26))
    assert len(bomb) < 1 << 14

    class Counting(io.BytesIO):
        largest = 0

        def write(self, data: bytes) -> int:  # type: ignore[override]
            Counting.largest = max(Counting.largest, len(data))
            return len(data)

    assert expand(io.BytesIO(bomb), Counting(), Budget()) == []
    assert Counting.largest <= 1 << 23


def test_the_adapter_reads_compressed_logs_and_locates_in_the_expanded_ones(tmp_path: Path) -> None:
    """Under the name of the plain log, since lines cannot be found in the compressed one."""
    logs = SessionLogs(tmp_path)
    logs.write([header(), *turn(*launch())])
    logs.write(child_log())
    plain = logs.read()
    for session_id in (ROOT, CHILD):
        logs.compress(session_id)
    packed = logs.read()
    assert packed.relations == plain.relations
    assert packed.gaps == plain.gaps == ()
    assert sorted(source.source for source in packed.sources) == sorted(source.source for source in plain.sources)


def test_a_torn_compressed_log_is_read_up_to_the_tear(tmp_path: Path) -> None:
    """With a gap that names it; the other session is whole."""
    logs = SessionLogs(tmp_path)
    logs.write([header(), *turn(*launch())])
    logs.write(child_log(*turn(answer("m-c1")), *turn(answer("m-c2"))))
    torn = logs.compress(CHILD, frames=2)
    torn.write_bytes(torn.read_bytes()[:-20])
    native = logs.read()
    assert [item.key for item in native.participants] == [ROOT, CHILD]
    assert "native_log_unreadable" in gap_codes(native)
    assert any("in the middle of a compressed frame" in gap.message for gap in native.gaps)


def test_without_a_place_for_expanded_logs_they_are_unreadable(tmp_path: Path) -> None:
    """And said so."""

    logs = SessionLogs(tmp_path)
    logs.write([header(), *turn(answer("m-1"))])
    logs.compress(ROOT)
    native = read(AdapterInput(logs.root, {"x-deepseek-harness-session-id": frozenset({ROOT})}))
    assert gap_codes(native) == {"native_log_unreadable"}
    assert native.participants == ()
