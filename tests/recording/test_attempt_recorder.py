"""The life of a recorder: taking the folder, going on after others, ending."""

import json
import os
import re
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.recording import lock
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.call_recorder import CallRecorder
from roller_capture.recording.exchange import BodyTimes
from roller_capture.vocabulary import OtherRequestKind, Protocol
from tests.support.recording import VERSIONS, Recording, request_head, response_head

CODEX = HARNESSES["codex"]


def start(attempt: Path) -> AttemptRecorder:
    """A recorder."""
    return AttemptRecorder(attempt, CODEX, {"mode": ["m"]}, VERSIONS)


def test_attempt_json_says_ready(tmp_path: Path) -> None:
    """It is there when the recorder is, with everything that the format names."""
    recorder = start(tmp_path / "new" / "attempt")
    info = Recording(tmp_path / "new" / "attempt").info()
    assert re.fullmatch("cap_[a-z2-7]{20}", info.pop("capture_id"))
    assert info.pop("started_at") > 0
    assert info == {
        "format": "roller.work/v1",
        "harness": "codex",
        "closed_at": None,
        "closed": False,
        "recorders": 1,
        "error_count": 0,
        "unrecorded_events": 0,
        "options": {"mode": ["m"]},
        "versions": VERSIONS,
    }
    assert (tmp_path / "new" / "attempt").stat().st_mode & 0o777 == 0o700
    started = Recording(tmp_path / "new" / "attempt").one("recorder_started")
    assert (started["pid"], started["recorder"], started["versions"]) == (os.getpid(), 1, VERSIONS)
    recorder.stop()


def test_a_clean_end(tmp_path: Path) -> None:
    """Closed, counted, and free for the next one."""
    recorder = start(tmp_path / "a")
    recorder.stop()
    info = Recording(tmp_path / "a").info()
    assert (info["closed"], info["closed_at"] >= info["started_at"]) == (True, True)
    assert Recording(tmp_path / "a").one("recorder_stopped")["open_flows"] == []
    lock.acquire(tmp_path / "a" / "work", "finalizer").release()


def test_open_exchanges_at_the_end(tmp_path: Path) -> None:
    """Each is ended in its own way, also when one of them makes trouble."""
    recorder = start(tmp_path / "a")
    half_read = recorder.begin_call("half-read", request_head(), Protocol.OPENAI_RESPONSES)
    half_read.end_request(BodyTimes(), complete=True)
    half_read.begin_response(response_head())
    half_read.response_chunk(b"part")
    broken = recorder.begin_call("broken", request_head(), Protocol.OPENAI_RESPONSES)
    broken._response = object()  # type: ignore[assignment]
    sending = recorder.begin_call("sending", request_head(), Protocol.OPENAI_RESPONSES)
    sending.request_chunk(b"part")
    overtaken = recorder.begin_call("overtaken", request_head(), Protocol.OPENAI_RESPONSES)
    overtaken.request_chunk(b"part")
    overtaken.begin_response(response_head())
    overtaken.end_response(None)
    recorder.begin_other("other", request_head("/x", method="GET"), OtherRequestKind.OTHER)
    recorder.stop()
    recording = Recording(tmp_path / "a")
    failures = {event["flow"]: event for event in recording.events("failure")}
    assert failures.keys() == {"half-read", "sending"}
    assert {event["cut_by"] for event in failures.values()} == {"proxy"}
    assert (failures["half-read"]["phase"], failures["sending"]["phase"]) == ("response", "request")
    incomplete = {event["flow"] for event in recording.events("request") if not event["complete"]}
    assert incomplete == {"sending", "overtaken"}
    assert recording.one("other_request")["status"] is None
    assert recording.one("recorder_stopped")["open_flows"] == ["half-read", "broken", "sending"]
    error = recording.one("recorder_error")
    assert (error["flow"], error["code"], error["message"]) == ("broken", "internal_error", "AttributeError")
    assert (recording.info()["closed"], recording.info()["error_count"]) == (True, 1)
    assert recorder.exchanges == {}


def test_after_a_kill_the_next_recorder_goes_on(tmp_path: Path) -> None:
    """Numbers go on after events and after bodies whose event was torn; id and start stay."""
    killed = start(tmp_path / "a")
    killed.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    recording = Recording(tmp_path / "a")
    before = recording.info()
    (recording.work / "bodies" / "000007.request").write_bytes(b"orphan")
    (recording.work / "bodies" / "900003.request").write_bytes(b"orphan")
    (recording.work / "bodies" / "unrelated").write_bytes(b"")
    killed._lock.release()
    recorder = start(tmp_path / "a")
    call = recorder.begin_call("f2", request_head(), Protocol.OPENAI_RESPONSES)
    call.end_request(BodyTimes(), complete=True)
    other = recorder.begin_other("f3", request_head("/x"), None)
    other.judge(b'{"model": "m", "messages": []}')
    recorder.stop()
    assert [event["sequence"] for event in recording.events("request_headers")] == [1, 8]
    assert recording.events("request")[-1]["body"]["path"] == "bodies/000008.request"
    assert recording.one("unrecognised_model_request")["body"]["path"] == "bodies/900004.request"
    assert {event["recorder"] for event in recording.events("recorder_started")} == {1, 2}
    after = recording.info()
    assert (after["capture_id"], after["started_at"]) == (before["capture_id"], before["started_at"])
    assert (after["recorders"], after["closed"]) == (2, True)


def test_attempt_json_that_is_missing_is_made_anew(tmp_path: Path) -> None:
    """A recorder killed before its first write must not stop the next one; the events tell the number."""
    (tmp_path / "a" / "work").mkdir(parents=True)
    events = [{"type": "x", "recorder": 4, "sequence": 9}, {"type": "x", "recorder": "5", "sequence": True}]
    (tmp_path / "a" / "work" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    recorder = start(tmp_path / "a")
    recorder.begin_call("f", request_head(), Protocol.OPENAI_RESPONSES)
    recorder.stop()
    recording = Recording(tmp_path / "a")
    assert recording.info()["recorders"] == 5
    assert recording.one("request_headers")["sequence"] == 10


def test_errors_of_earlier_recorders_count_on(tmp_path: Path) -> None:
    """`error_count` is the attempt's, not the recorder's, and is on disk before the end."""
    for expected in (1, 2):
        recorder = start(tmp_path / "a")
        recorder.journal.internal_error(None, "test", ValueError("a secret text"))
        recorder.note_errors()
        assert Recording(tmp_path / "a").info()["error_count"] == expected
        recorder.stop()
    assert "secret" not in (tmp_path / "a" / "work" / "events.jsonl").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "roller.work/v2"}',
        '{"format": ["roller.work/v1"]}',
        '{"format": "roller.work/v1"}',
        '{"format": "roller.work/v1", "capture_id": {}, "harness": "codex", "started_at": 1, "recorders": 1}',
    ],
)
def test_a_damaged_attempt_is_left_alone(tmp_path: Path, text: str) -> None:
    """Nothing is written over what cannot be understood, and the folder is free again."""
    work = tmp_path / "a" / "work"
    work.mkdir(parents=True)
    (work / "attempt.json").write_text(text)
    for _ in range(2):
        with pytest.raises(RollerError, match=r"attempt\.json: ") as refused:
            start(tmp_path / "a")
        assert refused.value.exit_code == 1
    assert (work / "attempt.json").read_text() == text
    assert not (work / "events.jsonl").exists()


def test_a_published_attempt_is_refused(tmp_path: Path) -> None:
    """Also when its manifest is a dangling link."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json").symlink_to("nowhere")
    with pytest.raises(RollerError, match="already published"):
        start(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["manifest.json"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the start is a refusal in one line, and leaves no lock behind."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RollerError, match="cannot be written"):
        start(tmp_path / "a")
    monkeypatch.undo()
    start(tmp_path / "a").stop()


def test_calls_are_numbered_without_gaps(recorder: AttemptRecorder) -> None:
    """Other traffic takes no number of a call."""
    numbers = []
    for index in range(3):
        call = recorder.begin_call(f"c{index}", request_head(), Protocol.OPENAI_RESPONSES)
        assert isinstance(call, CallRecorder)
        numbers.append(call._name)
        recorder.begin_other(f"o{index}", request_head("/x"), None).judge(b'{"model": "m", "input": 1}')
    assert numbers == ["000001", "000002", "000003"]
