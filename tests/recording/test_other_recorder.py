"""Traffic that is no model call, and model requests in disguise."""

import gzip
from pathlib import Path

import pytest

from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.vocabulary import OtherRequestKind
from tests.support.recording import Recording, request_head, response_head

MODEL_REQUEST = b'{"model": "m", "messages": []}'


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """What is on disk."""
    return Recording(tmp_path / "attempt")


def test_listed_without_bodies(recorder: AttemptRecorder, recording: Recording) -> None:
    """One event at the end, with names of headers only."""
    head = request_head("/oauth/token?code=abcdef", (b"Authorization", b"Basic x"), (b"Accept", b"*/*"))
    other = recorder.begin_other("f1", head, OtherRequestKind.OTHER)
    assert not other.undecided
    other.judge(MODEL_REQUEST)
    other.begin_response(response_head(401))
    other.response_chunk(b"PRIVATE")
    other.end()
    other.end()
    event = recording.one("other_request")
    for name in ("at", "mono_ns", "recorder"):
        del event[name]
    assert event == {
        "type": "other_request",
        "flow": "f1",
        "kind": "other",
        "method": "POST",
        "scheme": "https",
        "host": "model.test",
        "port": 443,
        "path": "/oauth/token?code=REDACTED",
        "status": 401,
        "other_headers": ["authorization", "accept"],
    }
    assert list((recording.work / "bodies").iterdir()) == []


@pytest.mark.parametrize("coding", [None, b"gzip", b"br, nonsense"])
def test_a_model_request_in_disguise_is_kept(
    recorder: AttemptRecorder, recording: Recording, coding: bytes | None
) -> None:
    """Body and answer, as on the wire."""
    fields = ((b"Content-Encoding", coding),) if coding else ()
    body = gzip.compress(MODEL_REQUEST) if coding == b"gzip" else MODEL_REQUEST
    other = recorder.begin_other("f1", request_head("/v3/0123456789abcdef01234/chat", *fields), None)
    assert other.undecided
    other.judge(body)
    assert other.keeps_response
    other.begin_response(response_head(200))
    other.response_chunk(b"answer")
    other.end()
    other.response_chunk(b"late")
    event = recording.one("unrecognised_model_request")
    assert recording.body(event["body"]) == body
    assert recording.body(event["response_body"]) == b"answer"
    # The endpoint is what has to be made known, so its path stays readable.
    assert event["path"] == "/v3/0123456789abcdef01234/chat"
    assert not recording.events("other_request")


def test_one_that_got_no_answer(recorder: AttemptRecorder, recording: Recording) -> None:
    """Kept all the same."""
    other = recorder.begin_other("f1", request_head("/v3/chat"), None)
    other.judge(MODEL_REQUEST)
    other.end()
    event = recording.one("unrecognised_model_request")
    assert (event["status"], event["response_body"]) == (None, None)


def test_an_error_answer_to_it_is_masked(recorder: AttemptRecorder, recording: Recording) -> None:
    """Credentials stay off the disk here too."""
    other = recorder.begin_other("f1", request_head("/v3/chat", (b"x-api-key", b"key-12345")), None)
    other.judge(MODEL_REQUEST)
    other.begin_response(response_head(401))
    other.response_chunk(b"bad key-12345")
    other.end()
    assert recording.body(recording.one("unrecognised_model_request")["response_body"]) == b"bad *********"


@pytest.mark.parametrize("body", [b"", b"{}", b"grant_type=x", b'{"jsonrpc": "2.0"}'])
def test_other_posts_are_other_traffic(recorder: AttemptRecorder, recording: Recording, body: bytes) -> None:
    """No body of them is stored."""
    other = recorder.begin_other("f1", request_head("/mcp"), None)
    other.judge(body)
    other.end()
    assert recording.one("other_request")["kind"] == "other"
    assert list((recording.work / "bodies").iterdir()) == []


def test_a_taken_body_name_is_told(recorder: AttemptRecorder, recording: Recording) -> None:
    """As an error of that exchange."""
    (recording.work / "bodies" / "900001.request").write_bytes(b"")
    other = recorder.begin_other("f1", request_head("/v3/chat"), None)
    other.judge(MODEL_REQUEST)
    other.end()
    assert recording.one("recorder_error")["flow"] == "f1"
    assert recording.one("unrecognised_model_request")["body"] is None


@pytest.mark.parametrize(("path", "passed"), [("/v1/responses", 1), ("/notifications", 0)])
def test_websockets(recorder: AttemptRecorder, recording: Recording, path: str, passed: int) -> None:
    """One that passes is an error only where models are asked."""
    other = recorder.begin_other("f1", request_head(path, method="GET"), OtherRequestKind.OTHER)
    other.websocket_passed()
    other.end()
    assert len(recording.events("websocket_passed")) == passed
