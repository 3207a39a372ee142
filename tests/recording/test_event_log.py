"""events.jsonl under good and bad conditions."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.recording import event_log
from roller_capture.recording.event_log import EventLog, read_events


def opened(path: Path) -> EventLog:
    """A log on a file."""
    return EventLog(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), recorder=2)


class Disk:
    """`os`, whose `write` takes at most as many bytes as there is `room`."""

    def __init__(self) -> None:
        self.room = 1 << 30
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        self.writes += 1
        if not self.room:
            raise OSError(28, "No space left on device")
        written = os.write(descriptor, bytes(data)[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that can fill up."""
    made = Disk()
    monkeypatch.setattr(event_log, "os", made)
    return made


def test_one_write_per_line(tmp_path: Path, disk: Disk) -> None:
    """So that a kill leaves whole lines, as far as the kernel has them."""
    log = opened(tmp_path / "e")
    for number in range(3):
        assert log.append("kind", number=number) is None
    assert disk.writes == 3
    events = [json.loads(line) for line in (tmp_path / "e").read_bytes().splitlines()]
    assert [(event["type"], event["recorder"], event["number"]) for event in events] == [
        ("kind", 2, n) for n in range(3)
    ]
    assert events[0]["mono_ns"] < events[2]["mono_ns"]
    assert events[0]["at"] <= events[2]["at"]


@pytest.mark.parametrize("room", [0, 1, 10, 60])
def test_a_torn_line_is_never_glued_to_the_next(tmp_path: Path, disk: Disk, room: int) -> None:
    """Lines that a full disk refuses come later, whole and in order; the torn piece stands on its own line."""
    log = opened(tmp_path / "e")
    log.append("first")
    disk.room = room
    assert log.append("second") is not None
    assert log.append("third") is not None
    assert log.waiting == 2
    disk.room = 1 << 30
    assert log.append("fourth") is None
    assert (log.waiting, log.lost) == (0, 0)
    lines = (tmp_path / "e").read_bytes().split(b"\n")
    whole = [json.loads(line)["type"] for line in lines if line.endswith(b"}")]
    assert whole == ["first", "second", "third", "fourth"]
    assert [len(line) for line in lines if line and not line.endswith(b"}")] == ([room] if room else [])


def test_an_interrupted_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write alone is no error."""

    class Slow(Disk):
        def write(self, descriptor: int, data: bytes) -> int:
            return os.write(descriptor, bytes(data)[:7])

    monkeypatch.setattr(event_log, "os", Slow())
    log = opened(tmp_path / "e")
    assert log.append("kind") is None
    assert json.loads((tmp_path / "e").read_bytes())["type"] == "kind"


def test_what_waits_is_bounded(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays flat on a disk that stays full; what is dropped is counted."""
    monkeypatch.setattr(event_log, "_MOST_PENDING_BYTES", 1_000)
    log = opened(tmp_path / "e")
    disk.room = 0
    for _ in range(50):
        log.append("kind", text="x" * 100)
    assert log.waiting + log.lost == 50
    assert log.waiting < 10
    assert log.flush() is not None


def test_an_earlier_recorders_torn_line_is_ended(tmp_path: Path) -> None:
    """The first event of the next recorder begins its own line."""
    (tmp_path / "e").write_bytes(b'{"type":"whole"}\n{"type":"to')
    opened(tmp_path / "e").append("next")
    lines = (tmp_path / "e").read_bytes().split(b"\n")
    assert lines[1] == b'{"type":"to'
    assert json.loads(lines[2])["type"] == "next"


def test_text_that_has_no_utf8_form_is_written(tmp_path: Path) -> None:
    """Lone surrogates, as paths can hold them, become escapes."""
    opened(tmp_path / "e").append("kind", path="/\udcff", name="é")
    event = json.loads((tmp_path / "e").read_bytes())
    assert (event["path"], event["name"]) == ("/\udcff", "é")


def test_reading_back_passes_over_damage(tmp_path: Path) -> None:
    """Torn lines, other values and garbage are no events."""
    (tmp_path / "e").write_bytes(b'{"sequence": 1}\n{"torn\n[1]\n\xff\n\n{"sequence": 2}')
    descriptor = os.open(tmp_path / "e", os.O_RDONLY)
    assert [event["sequence"] for event in read_events(descriptor)] == [1, 2]
    os.close(descriptor)


def test_after_the_end_nothing_is_written(tmp_path: Path) -> None:
    """A handle's number may long belong to another file."""
    log = opened(tmp_path / "e")
    log.close()
    log.close()
    assert log.append("late") is None
    assert not log.finish()
    assert (tmp_path / "e").read_bytes() == b""
