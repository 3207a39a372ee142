"""One model call, from its head to its end mark."""

import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.recording import body_file
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.exchange import BodyTimes, Failure
from roller_capture.vocabulary import CutBy, Protocol
from tests.support.recording import Recording, request_head, response_head

TIMES = BodyTimes(1.5, 2.5)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """What is on disk."""
    return Recording(tmp_path / "attempt")


def test_a_whole_call(recorder: AttemptRecorder, recording: Recording) -> None:
    """Every field of every event of a call that went well."""
    fields = ((b"Thread-Id", b"t"), (b"Authorization", b"Bearer sk-123456"), (b"Content-Encoding", b"zstd"))
    call = recorder.begin_call("f1", request_head("/v1/responses?key=1", *fields), Protocol.OPENAI_RESPONSES)
    call.request_chunk(b"req")
    call.end_request(TIMES, complete=True)
    call.begin_response(response_head(200, (b"X-Request-Id", b"id"), (b"Set-Cookie", b"c")))
    call.response_chunk(b"one")
    call.response_chunk(b"two")
    call.end_response(3.5)
    head, request, response_headers, response = recording.events()[1:]
    for event in (head, request, response_headers, response):
        assert event.pop("recorder") == 1
        assert event.pop("flow") == "f1"
        assert event.pop("at") > 0
        assert event.pop("mono_ns") > 0
    assert head == {
        "type": "request_headers",
        "sequence": 1,
        "protocol": "openai-responses",
        "method": "POST",
        "scheme": "https",
        "host": "model.test",
        "port": 443,
        "path": "/v1/responses?key=REDACTED",
        "http_version": "HTTP/1.1",
        "headers": [["thread-id", "t"], ["content-encoding", "zstd"]],
        "other_headers": ["authorization"],
        "roller_headers": [["x-roller-run", "r"]],
        "content_encoding": "zstd",
    }
    assert request == {
        "type": "request",
        "body": {"path": "bodies/000001.request", "bytes": 3},
        "complete": True,
        "started_at": 1.5,
        "ended_at": 2.5,
    }
    assert response_headers == {
        "type": "response_headers",
        "status": 200,
        "http_version": "HTTP/1.1",
        "headers": [["x-request-id", "id"]],
        "other_headers": ["set-cookie"],
        "started_at": 1000.5,
    }
    assert response.pop("first_byte_at") > 0
    assert response.pop("first_byte_mono_ns") > 0
    assert response == {
        "type": "response",
        "body": {"path": "bodies/000001.response", "bytes": 6},
        "chunks": 2,
        "ended_at": 3.5,
        "masked": False,
    }
    assert recording.body({"path": "bodies/000001.response", "bytes": 6}) == b"onetwo"


@pytest.mark.parametrize(
    ("steps", "failure", "expected"),
    [
        ((), Failure(CutBy.CLIENT, "gone", request_complete=False), {"phase": "request", "cut_by": "client"}),
        (("request",), Failure(CutBy.UPSTREAM, "refused", unreachable=True), {"phase": "connect", "unreachable": True}),
        (("request",), Failure(CutBy.UPSTREAM, "eof"), {"phase": "response", "unreachable": False, "body": None}),
        (("request", "response"), Failure(CutBy.CLIENT, "gone"), {"phase": "response", "chunks": 1}),
        # The answer came while the request was still being sent.
        (("response",), Failure(CutBy.CLIENT, "gone", request_complete=False), {"phase": "response", "chunks": 1}),
    ],
)
def test_failures(
    recorder: AttemptRecorder,
    recording: Recording,
    steps: tuple[str, ...],
    failure: Failure,
    expected: dict[str, Any],
) -> None:
    """The phase follows from how far the exchange had come."""
    call = recorder.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    if "request" in steps:
        call.end_request(TIMES, complete=True)
    if "response" in steps:
        call.begin_response(response_head())
        call.response_chunk(b"part")
    call.fail(failure)
    event = recording.one("failure")
    assert {name: event[name] for name in expected} == expected
    assert event["cut_by"] == failure.cut_by
    assert len(recording.events("request")) == (1 if "request" in steps else 0)


def test_a_call_ends_once(recorder: AttemptRecorder, recording: Recording) -> None:
    """Whatever comes after the end changes nothing."""
    call = recorder.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    call.end_request(TIMES, complete=True)
    call.end_request(TIMES, complete=False)
    call.begin_response(response_head())
    call.end_response(None)
    call.response_chunk(b"late")
    call.end_response(None)
    call.fail(Failure(CutBy.CLIENT, "late"))
    assert [event["type"] for event in recording.events()[1:]] == [
        "request_headers",
        "request",
        "response_headers",
        "response",
    ]
    assert recording.body(recording.one("response")["body"]) == b""


def test_a_streamed_request_that_is_cut_keeps_its_beginning(recorder: AttemptRecorder, recording: Recording) -> None:
    """The part that came is a body, and is said to be incomplete."""
    call = recorder.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    call.request_chunk(b"part")
    call.fail(Failure(CutBy.CLIENT, "gone", request_complete=False))
    request = recording.one("request")
    assert (recording.body(request["body"]), request["complete"]) == (b"part", False)
    assert recording.one("failure")["phase"] == "request"


def test_a_request_error_is_told_before_the_request(
    recorder: AttemptRecorder, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the recorder dies right after, the short body is not taken for a whole one."""

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(body_file, "os", Full())
    call = recorder.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    call.request_chunk(b"body")
    call.end_request(TIMES, complete=True)
    monkeypatch.undo()
    call.begin_response(response_head())
    call.end_response(None)
    kinds = [event["type"] for event in recording.events()]
    assert kinds.index("recorder_error") < kinds.index("request")
    error = recording.one("recorder_error")
    assert (error["flow"], error["code"], error["where"]) == ("f1", "disk_error", "request body")
    assert error["message"] == "No space left on device"


def test_a_body_name_that_is_taken(recorder: AttemptRecorder, recording: Recording) -> None:
    """A file that is already there is neither followed nor overwritten; the call says what it lacks."""
    taken = recording.work / "bodies" / "000001.response"
    taken.symlink_to(recording.work / "attempt.json")
    before = recording.info()
    call = recorder.begin_call("f1", request_head(), Protocol.OPENAI_RESPONSES)
    call.end_request(TIMES, complete=True)
    call.begin_response(response_head())
    call.response_chunk(b"data")
    call.end_response(None)
    assert recording.info() == before
    assert recording.one("response")["body"] is None
    assert recording.one("recorder_error")["where"] == "response body"


def test_websocket_passed(recorder: AttemptRecorder, recording: Recording) -> None:
    """Named by host and path."""
    call = recorder.begin_call("f1", request_head("/v1/responses?key=1"), Protocol.OPENAI_RESPONSES)
    call.websocket_passed()
    event = recording.one("websocket_passed")
    assert (event["host"], event["path"]) == ("model.test", "/v1/responses?key=REDACTED")
