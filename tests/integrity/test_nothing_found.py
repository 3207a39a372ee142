"""Recordings as odd as they come: what `finalize` publishes of them, `validate` accepts, and so does its deep form."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.harnesses import HARNESSES
from roller_capture.migrate import migrate_attempt
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead, ResponseHead
from roller_capture.replay import validate_published
from roller_capture.vocabulary import CutBy, DebugRetention, Protocol

FULL = FinalizeRequest(debug_retention=DebugRetention.FULL)
REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'


class Recording:
    """An attempt of the harness `generic`, recorded without a proxy."""

    def __init__(self, attempt: Path) -> None:
        self.attempt = attempt
        self.recorder = AttemptRecorder(attempt, HARNESSES["generic"], {}, {"roller_capture": "0"})
        self._calls = 0

    def begin(self, length: int) -> Any:
        """A call whose client says that its request has so many bytes."""
        self._calls += 1
        fields = (
            (b"content-type", b"application/json"),
            (b"content-length", str(length).encode()),
            (b"authorization", b"Bearer sk-secret-123456789012345"),
        )
        session = (("x-roller-session", "main"),)
        head = RequestHead("POST", "http", "127.0.0.1", 80, "/v1/chat/completions", "HTTP/1.1", fields, session)
        return self.recorder.begin_call(f"f{self._calls}", head, Protocol.OPENAI_CHAT_COMPLETIONS)

    def call(
        self, request: bytes = REQUEST, answer: bytes | None = None, status: int = 200, coding: str | None = None
    ) -> None:
        """A whole call."""
        call = self.begin(len(request))
        call.request_chunk(request)
        call.end_request(BodyTimes(time.time(), time.time()), complete=True)
        fields = [(b"content-type", b"application/json")]
        if coding is not None:
            fields.append((b"content-encoding", coding.encode()))
        call.begin_response(ResponseHead(status, "HTTP/1.1", tuple(fields), time.time()))
        call.response_chunk(completion(self._calls) if answer is None else answer)
        call.end_response(time.time())
        self.recorder.exchanges.pop(f"f{self._calls}", None)


def completion(number: int, **more: object) -> bytes:
    """An answer."""
    message = {"role": "assistant", "content": "x", **more}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    document = {"id": f"r{number}", "object": "chat.completion", "model": "m", "choices": [choice]}
    return json.dumps(document, separators=(",", ":")).encode()


def _error_that_is_not_stored(recording: Recording) -> None:
    """Nobody can look for keys in it."""
    recording.call()
    recording.call(answer=b"\x00odd", status=502, coding="dcb")


def _byte_order_mark(recording: Recording) -> None:
    recording.call(b"\xef\xbb\xbf" + REQUEST)


def _many_contexts_in_an_output(recording: Recording) -> None:
    """A tool that edits files may have arguments of that name."""
    recording.call(json.dumps(json.loads(REQUEST)).encode(), completion(1, extra=[{"a": 1, "context": 2}] * 20))


def _part_of_a_request_lost(recording: Recording) -> None:
    call = recording.begin(len(REQUEST) + 10)
    call.request_chunk(REQUEST + b" " * 5)
    recording.recorder.journal.internal_error("f1", "request", ValueError())
    call.end_request(BodyTimes(time.time(), time.time()), complete=True)
    call.begin_response(ResponseHead(200, "HTTP/1.1", ((b"content-type", b"application/json"),), time.time()))
    call.response_chunk(completion(1))
    call.end_response(time.time())


@pytest.mark.parametrize(
    "record",
    [
        Recording.call,
        _error_that_is_not_stored,
        _byte_order_mark,
        _many_contexts_in_an_output,
        _part_of_a_request_lost,
    ],
)
def test_what_was_recorded_is_published_and_valid(record: Callable[[Recording], None], tmp_path: Path) -> None:
    """Also what is made of it anew."""
    recording = Recording(tmp_path / "attempt")
    record(recording)
    recording.recorder.stop()
    manifest = finalize_attempt(recording.attempt, FULL).manifest
    assert "body_without_event" not in {error["code"] for error in manifest["errors"]}
    assert validate_published(recording.attempt, deep=True) == []
    migrate_attempt(recording.attempt, tmp_path / "anew", from_raw=True)
    assert validate_published(tmp_path / "anew", deep=False) == []


def test_calls_that_a_full_disk_lost_leave_no_contradiction(tmp_path: Path) -> None:
    """Their events and bodies are not there; the recorder says how many events it could not write."""
    recording = Recording(tmp_path / "attempt")
    for _ in range(3):
        recording.call()
    recording.recorder.stop()
    work = recording.attempt / "work"
    lines = (work / "events.jsonl").read_bytes().splitlines(keepends=True)
    (work / "events.jsonl").write_bytes(b"".join(line for line in lines if b'"f2"' not in line))
    for path in (work / "bodies").glob("000002*"):
        path.unlink()
    told = json.loads((work / "attempt.json").read_bytes())
    (work / "attempt.json").write_text(json.dumps({**told, "closed": False, "closed_at": None, "unrecorded_events": 4}))
    finalize_attempt(recording.attempt, FULL)
    assert validate_published(recording.attempt, deep=True) == []


def test_a_client_that_says_more_than_it_sends_is_not_believed(tmp_path: Path) -> None:
    """Though a later line ends where its own would, had it sent all of that."""
    told = 131_072
    for number in range(100):  # lengths of lines differ by the digits of times
        attempt = _said_more_than_sent(tmp_path / f"attempt-{number}", told)
        assert validate_published(attempt, deep=True) == []
        first, second, _ = (attempt / "calls.jsonl").read_bytes().splitlines(keepends=True)
        ends = len(first) - first.rindex(b',"context":') - len(b',"context":') + len(second) - 2
        if told == ends:
            return
        told = ends
    raise AssertionError("the end of a line was never met")


def _said_more_than_sent(attempt: Path, told: int) -> Path:
    """Its first call says that it has so many bytes, and sends half of them."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "z" * 60_000}]}).encode()
    recording = Recording(attempt)
    call = recording.begin(told)
    call.request_chunk(body)
    call.end_request(BodyTimes(time.time(), time.time()), complete=False)
    call.fail(Failure(CutBy.CLIENT, "client left", request_complete=False))
    recording.call(answer=b'{"a":"' + b"y" * 70_000 + b'"}', status=500)
    recording.call()
    recording.recorder.stop()
    finalize_attempt(attempt, FULL)
    return attempt
