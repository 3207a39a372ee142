"""The reading half understands what the writing half writes."""

from pathlib import Path

from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.exchange import BodyTimes, Failure
from roller_capture.vocabulary import AttemptErrorCode, CutBy, HttpEnd, OtherRequestKind, Protocol
from roller_capture.working_files import read_working_files
from tests.support.recording import request_head, response_head


def test_everything_that_can_be_written_is_read(recorder: AttemptRecorder, tmp_path: Path) -> None:
    """Each ending of a call, other traffic and requests in disguise come back as what they were."""
    endings = {
        "whole": HttpEnd.COMPLETE,
        "client": HttpEnd.CUT_BY_CLIENT,
        "upstream": HttpEnd.CUT_BY_UPSTREAM,
        "unreachable": HttpEnd.UNREACHABLE,
        "open": HttpEnd.PROXY_STOPPED,
    }
    for flow in endings:
        call = recorder.begin_call(flow, request_head(), Protocol.OPENAI_RESPONSES)
        call.request_chunk(b"{}")
        call.end_request(BodyTimes(1.0, 2.0), complete=True)
        if flow != "unreachable":
            call.begin_response(response_head(200, (b"X-Request-Id", b"1")))
            call.response_chunk(b"data")
        if flow == "whole":
            call.end_response(3.0)
        elif flow != "open":
            side = CutBy.CLIENT if flow == "client" else CutBy.UPSTREAM
            call.fail(Failure(side, "why", unreachable=flow == "unreachable"))
        if flow != "open":
            del recorder.exchanges[flow]
    recorder.begin_other("probe", request_head("/", method="HEAD"), OtherRequestKind.PROBE)
    recorder.begin_other("disguise", request_head("/v3/chat"), None).judge(b'{"model": "m", "input": 1}')
    recorder.stop()

    attempt = read_working_files(tmp_path / "attempt")
    assert attempt.closed
    assert attempt.harness == "codex"
    assert {call.flow: call.end for call in attempt.calls} == endings
    assert [call.sequence for call in attempt.calls] == [1, 2, 3, 4, 5]
    for call in attempt.calls:
        assert call.request_complete
        assert call.request_body is not None
        assert not call.request_body.damaged
        assert (call.response_body is None) == (call.flow == "unreachable")
    assert attempt.other_requests == {OtherRequestKind.PROBE: 1}
    assert [body.name for body in attempt.kept_bodies] == ["900001.request"]
    assert [fault.code for fault in attempt.faults] == [AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST]
