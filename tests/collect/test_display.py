"""What a person sees of many samples while they run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from roller_capture.collect.display import (
    LiveBoard,
    PlainBoard,
    bytes_of,
    clock,
    ended_line,
)
from roller_capture.collect.outcome import SampleOutcome
from roller_capture.collect.recorded import recorded_so_far
from roller_capture.collect.summary import closing_lines
from roller_capture.runs.books import SampleState
from roller_capture.vocabulary import CaptureStatus

GOOD = SampleOutcome("good", SampleState.COMPLETED, CaptureStatus.COMPLETE, 5, 12_345, 8.0, place=Path("/r/good"))
PARTIAL = SampleOutcome(
    "part",
    SampleState.FAILED,
    CaptureStatus.PARTIAL,
    1,
    10,
    2.0,
    ("a (1)", "b (2)", "c (3)", "d (4)"),
    place=Path("/p"),
)
SILENT = SampleOutcome("silent", SampleState.COMPLETED, CaptureStatus.COMPLETE, place=Path("/s"))
ERROR = SampleOutcome("bad", None, error="the proxy did not start")


def drawn(board: LiveBoard) -> str:
    """What the terminal shows."""
    console = Console(file=io.StringIO(), width=120)
    console.print(board.render())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def record(attempt: Path, *bodies: tuple[str, int]) -> None:
    folder = attempt / "work" / "bodies"
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in bodies:
        (folder / name).write_bytes(b"x" * size)


def test_the_board_has_a_line_for_each_running_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With time, calls and bytes; the header adds all up, and guesses what is left."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    board = LiveBoard(total=10, reused=3, jobs=2)
    for name in ("one", "t\x1b[31mwo"):
        board.began(name)
    board.records_into("one", tmp_path)
    record(tmp_path, ("1.request", 1000), ("1.response", 500), ("2.request", 1000))
    board.note("one", "turn 1 of 2 \x1b]0;title")
    now[0] = 165.0
    board.refresh()
    shown = drawn(board)
    assert "2 running, 8 waiting, 0 done, 0 failed, 3 reused, 2 calls, 2.5 kB, 1:05 so far" in shown
    assert "left" not in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("one")]
    assert line.split() == ["one", "1:05", "2", "calls", "2.5", "kB", "turn", "1", "of", "2", "\\x1b]0;title"]
    assert "\x1b" not in shown
    board.ended(SampleOutcome("one", SampleState.COMPLETED, CaptureStatus.COMPLETE, 2, 2500, 60.0))
    shown = drawn(board)
    assert "1 running, 8 waiting, 1 done, 0 failed" in shown
    assert "about 4:00 left" in shown
    board.ended(ERROR)
    assert "1 done, 1 failed" in drawn(board)


def test_looking_takes_no_more_than_its_share_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of many calls is looked at more seldom."""
    looked: list[Path] = []
    now = [0.0]

    def slowly(attempt: Path) -> object:
        looked.append(attempt)
        now[0] += 0.5
        return recorded_so_far(attempt)

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("roller_capture.collect.display.recorded_so_far", slowly)
    board = LiveBoard(1, 0, 1)
    board.began("one")
    board.refresh()
    assert looked == []
    board.records_into("one", tmp_path)
    for now[0] in (0.0, 5.0, 10.0, 10.6):
        board.refresh()
    assert len(looked) == 2


def test_elsewhere_each_sample_that_has_ended_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With what is missing and why."""
    board = PlainBoard(3)
    board.began("good")
    board.refresh()
    for outcome in (GOOD, PARTIAL, ERROR):
        board.ended(outcome)
    missing = "capture partial: a (1), b (2), c (3) and 1 more"
    assert capsys.readouterr().err.splitlines() == [
        "[1/3] good: completed: capture complete, 5 calls, 12.3 kB published, 8.0 s",
        f"[2/3] part: failed: capture partial, 1 call, 10 B published, 2.0 s: {missing}",
        "[3/3] bad: error: the proxy did not start",
    ]


def test_the_closing_table() -> None:
    """By state, then what is missing, why and where."""
    assert list(closing_lines([GOOD, PARTIAL, SILENT, ERROR], 2, Path("/r"))) == [
        "samples: 6",
        "  completed         2",
        "  failed            1  (capture partial: 1)",
        "  error             1",
        "  not begun         2",
        "calls: 6, 12.4 kB published",
        "  part    failed: capture partial: a (1), b (2), c (3) and 1 more: /p",
        "  silent  completed: no model request reached the proxy: /s",
        "  bad     error: the proxy did not start",
    ]
    many = list(closing_lines([ERROR] * 100, 0, Path("/r")))
    assert len(many) == 34
    assert many[-1] == "  and 70 more: roller-capture view /r"


def test_numbers_as_people_read_them() -> None:
    """Of time and of room."""
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3600, 36_061)] == [
        "0:00",
        "0:59",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]
    assert [bytes_of(size) for size in (0, 999, 1000, 2_500_000, 10**15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "2.5 MB",
        "1000.0 TB",
    ]
    assert ended_line(GOOD).startswith("good: completed")
    assert recorded_so_far(Path("/nowhere")).calls == 0
