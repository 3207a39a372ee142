"""A full disk: bodies stop, events go on out of the reserve, and the user is told once."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.recording import body_file, disk_space, event_log, work_folder
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.disk_space import RESERVE_BYTES
from roller_capture.recording.exchange import BodyTimes
from roller_capture.vocabulary import Protocol
from tests.support.recording import VERSIONS, Recording, request_head, response_head

BIG = b"x" * 100_000


class Disk:
    """`os` with a disk of `room` bytes beside the reserve, whose size counts as it is."""

    def __init__(self, reserve: Path) -> None:
        self.room = 1 << 40
        self._reserve = reserve

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def free(self) -> int:
        """Bytes that can be written."""
        return self.room - (self._reserve.stat().st_size if self._reserve.exists() else 0)

    def write(self, descriptor: int, data: bytes) -> int:
        """As many bytes as there is room for."""
        if self.free <= 0:
            raise OSError(errno.ENOSPC, "full")
        written = os.write(descriptor, bytes(data)[: self.free])
        self.room -= written
        return written

    def posix_fallocate(self, descriptor: int, offset: int, length: int) -> None:
        """The reserve, if there is room for it."""
        if self.free + os.fstat(descriptor).st_size < length:
            raise OSError(errno.ENOSPC, "full")
        os.posix_fallocate(descriptor, offset, length)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that can fill up, under the attempt `tmp_path/a`."""
    made = Disk(tmp_path / "a" / "work" / "reserve")
    for module in (body_file, disk_space, event_log, work_folder):
        monkeypatch.setattr(module, "os", made)
    return made


def start(tmp_path: Path) -> AttemptRecorder:
    """A recorder."""
    return AttemptRecorder(tmp_path / "a", HARNESSES["codex"], {}, VERSIONS)


def whole_call(recorder: AttemptRecorder, flow: str) -> None:
    """One call with bodies that are too large for a full disk."""
    call = recorder.begin_call(flow, request_head(), Protocol.OPENAI_RESPONSES)
    call.request_chunk(BIG)
    call.end_request(BodyTimes(), complete=True)
    call.begin_response(response_head())
    call.response_chunk(BIG)
    call.end_response(None)
    recorder.exchanges.pop(flow)


def test_the_reserve_is_really_allocated_and_goes_with_a_clean_end(tmp_path: Path) -> None:
    """Also where something of the name is there: a killed recorder's, or a link to what must not be touched."""
    reserve = tmp_path / "a" / "work" / "reserve"
    reserve.parent.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    reserve.hardlink_to(victim)
    recorder = start(tmp_path)
    assert victim.read_bytes() == b"precious"
    assert reserve.stat().st_size == RESERVE_BYTES
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
    assert reserve.stat().st_mode & 0o777 == 0o600
    recorder.stop()
    assert not reserve.exists()


def test_events_of_every_call_fit_on_a_full_disk(
    tmp_path: Path, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bodies are left out from the first error on; no event is missing, so the end is clean."""
    recorder = start(tmp_path)
    disk.room = RESERVE_BYTES + 150_000
    for number in range(12):
        whole_call(recorder, f"f{number}")
    recorder.stop()
    recording = Recording(tmp_path / "a")
    for kind in ("request_headers", "request", "response_headers", "response"):
        assert len(recording.events(kind)) == 12
    assert len(recording.body(recording.events("request")[0]["body"])) == len(BIG)
    assert {event["body"] and event["body"]["bytes"] for event in recording.events("response")[1:]} <= {None, 0}
    info = recording.info()
    assert (info["closed"], info["unrecorded_events"]) == (True, 0)
    assert info["error_count"] == len(recording.events("recorder_error")) >= 12
    assert not (recording.work / "reserve").exists()
    assert capsys.readouterr().err == (
        f"roller-capture: recording failed in {tmp_path / 'a'} (No space left on device): traffic goes on, "
        "calls from now on may be recorded without bodies\n"
    )


def test_what_does_not_even_fit_into_the_reserve_is_counted(tmp_path: Path, disk: Disk) -> None:
    """attempt.json is written out of its end, and says how much is missing."""
    recorder = start(tmp_path)
    disk.room = RESERVE_BYTES + 1000
    calls = 250
    for number in range(calls):
        whole_call(recorder, f"f{number}")
    recorder.stop()
    recording = Recording(tmp_path / "a")
    lines = (recording.work / "events.jsonl").read_bytes().split(b"\n")
    written = sum(line.endswith(b"}") for line in lines)
    info = recording.info()
    assert (info["closed"], info["closed_at"]) == (False, None)
    # Four events and two errors of each call, the events file's own error, and those of start and end.
    assert info["unrecorded_events"] + written == calls * 6 + 3
    disk.room = 1 << 40
    again = start(tmp_path)
    again.stop()
    assert recording.info()["unrecorded_events"] == info["unrecorded_events"]


def test_open_bodies_leave_the_reserve_to_the_events(tmp_path: Path, disk: Disk) -> None:
    """A body that was open when another one hit the end of the disk does not go on."""
    recorder = start(tmp_path)
    first = recorder.begin_call("first", request_head(), Protocol.OPENAI_RESPONSES)
    first.request_chunk(b"begin")
    disk.room = RESERVE_BYTES + 1000
    second = recorder.begin_call("second", request_head(), Protocol.OPENAI_RESPONSES)
    second.request_chunk(BIG)
    first.request_chunk(b"more")
    first.end_request(BodyTimes(), complete=True)
    recording = Recording(tmp_path / "a")
    assert recording.body(recording.one("request")["body"]) == b"begin"
    recorder.stop()


def test_bodies_are_recorded_again_when_there_is_room(tmp_path: Path, disk: Disk) -> None:
    """And the reserve stands again."""
    recorder = start(tmp_path)
    disk.room = RESERVE_BYTES + 1000
    whole_call(recorder, "full")
    disk.room = 1 << 40
    whole_call(recorder, "roomy")
    recording = Recording(tmp_path / "a")
    assert len(recording.body(recording.events("response")[-1]["body"])) == len(BIG)
    assert (recording.work / "reserve").stat().st_size == RESERVE_BYTES
    recorder.stop()


def test_without_room_for_a_reserve_recording_goes_on(tmp_path: Path, disk: Disk) -> None:
    """Silently, since nothing has failed yet."""
    disk.room = RESERVE_BYTES // 2
    recorder = start(tmp_path)
    call = recorder.begin_call("f", request_head(), Protocol.OPENAI_RESPONSES)
    call.request_chunk(b"small")
    call.end_request(BodyTimes(), complete=True)
    recorder.stop()
    assert Recording(tmp_path / "a").one("request")["body"]["bytes"] == 5
    assert Recording(tmp_path / "a").info()["closed"] is True


def test_another_disk_error_is_told_and_stops_no_other_body(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however often it comes."""
    recorder = start(tmp_path)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    faulty = Disk(tmp_path / "none")
    monkeypatch.setattr(faulty, "write", broken)
    with monkeypatch.context() as patch:
        patch.setattr(body_file, "os", faulty)
        whole_call(recorder, "a")
        whole_call(recorder, "b")
    whole_call(recorder, "c")
    recorder.stop()
    recording = Recording(tmp_path / "a")
    assert [event["body"]["bytes"] for event in recording.events("response")] == [0, 0, len(BIG)]
    (line,) = capsys.readouterr().err.splitlines()
    assert f"recording failed in {tmp_path / 'a'} (Input/output error)" in line
