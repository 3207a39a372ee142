"""Flow files: what a flow tells is a call, what it does not tell is named, and a damaged one costs only itself."""

from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.io import tnetstring

from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, CutBy, HttpEnd, OtherRequestKind
from roller_capture.working_files import RecordedCall, WorkingAttempt
from tests.importing.conftest import Import
from tests.importing.recorded import ANSWER, KEY, QUESTION, flow, write_flows

ALWAYS = {AttemptErrorCode.IMPORT_CALLS_UNPROVEN, AttemptErrorCode.IMPORT_TIMING_UNKNOWN}


def only(attempt: WorkingAttempt) -> RecordedCall:
    """The only call."""
    (call,) = attempt.calls
    return call


def codes(attempt: WorkingAttempt) -> set[AttemptErrorCode]:
    """What is not proven beyond what no flow file proves."""
    found = {fault.code for fault in attempt.faults}
    assert found >= ALWAYS
    return found - ALWAYS


def test_a_whole_flow_is_a_whole_call(imported: Import, tmp_path: Path) -> None:
    """Bytes, headers by the allow-list, our own headers, and no time that the flow does not tell."""
    made = flow("/v1/messages?beta=true&key=hidden0123", (b"X-Roller-Session-Id", b"s1"), (b"Cookie", b"a=b"))
    attempt = imported(write_flows(tmp_path / "f", made))
    call = only(attempt)
    assert codes(attempt) == set()
    assert call.path == "/v1/messages?beta=true&key=REDACTED"
    assert (call.host, call.port, call.scheme) == ("model.test", 443, "https")
    assert call.roller_headers == [("x-roller-session-id", "s1")]
    assert call.headers == [("user-agent", "agent/1")]
    assert set(call.other_headers) == {"x-api-key", "cookie"}
    assert call.request_body is not None
    assert call.request_body.path is not None
    assert call.request_body.path.read_bytes() == QUESTION
    assert call.response_body is not None
    assert call.response_body.path is not None
    assert call.response_body.path.read_bytes() == ANSWER
    assert (call.end, call.request_complete) == (HttpEnd.COMPLETE, True)
    times = (call.request_start, call.request_end, call.ended_at)
    assert times == (1_790_000_000.0, 1_790_000_000.25, 1_790_000_002.0)
    assert (call.first_byte_at, call.first_byte_ns, call.request_end_ns, call.ended_ns, call.chunks) == (None,) * 5


def test_calls_stand_in_the_order_in_which_requests_began(imported: Import, tmp_path: Path) -> None:
    """Files hold them in the order of their ends, and there can be several files."""
    first = write_flows(tmp_path / "a", flow("/a/messages", started_at=30.0), flow("/b/messages", started_at=10.0))
    second = write_flows(tmp_path / "b", flow("/c/messages", started_at=20.0))
    attempt = imported(first, second)
    assert [call.path[1] for call in attempt.calls] == ["b", "c", "a"]
    assert [call.flow for call in attempt.calls] == ["1:2", "2:1", "1:1"]


def _killed(made: http.HTTPFlow) -> None:
    made.error = type(flow(error="x").error)("Connection killed.", 5.0)  # type: ignore[misc]
    made.response = None


def _edited(made: http.HTTPFlow) -> None:
    made.backup()
    made.request.text = '{"model": "other", "messages": []}'


def _replayed(made: http.HTTPFlow) -> None:
    made.is_replay = "request"


def _unended(made: http.HTTPFlow) -> None:
    assert made.response is not None
    made.response.timestamp_end = None
    made.response.content = None


def _streamed(made: http.HTTPFlow) -> None:
    made.request.content = None


def _interim(made: http.HTTPFlow) -> None:
    assert made.response is not None
    made.response.status_code = 103


@pytest.mark.parametrize(
    ("change", "end", "cut_by", "named"),
    [
        (_killed, HttpEnd.PROXY_STOPPED, CutBy.PROXY, []),
        (_edited, HttpEnd.COMPLETE, None, ["import_altered"]),
        (_replayed, HttpEnd.COMPLETE, None, ["import_altered"]),
        (_unended, HttpEnd.CUT, None, ["import_cut_side_unknown", "import_body_missing"]),
        (_streamed, HttpEnd.COMPLETE, None, ["import_body_missing"]),
        (_interim, HttpEnd.PROXY_STOPPED, CutBy.PROXY, []),
    ],
)
def test_what_a_flow_does_not_prove_is_named(
    imported: Import, tmp_path: Path, change: Any, end: HttpEnd, cut_by: CutBy | None, named: list[str]
) -> None:
    """On the call, and of the whole."""
    made = flow()
    change(made)
    attempt = imported(write_flows(tmp_path / "f", made))
    call = only(attempt)
    assert (call.end, call.cut_by) == (end, cut_by)
    assert [code for code, _ in call.recorder_errors] == [CallErrorCode(name) for name in named]
    assert codes(attempt) == {AttemptErrorCode(name) for name in named}


def test_a_broken_flow_tells_no_side(imported: Import, tmp_path: Path) -> None:
    """What mitmproxy says of it is kept; a key that it quotes is not."""
    made = flow(response=None, error=f"HTTP/1 protocol error: peer closed, {KEY}")
    call = only(imported(write_flows(tmp_path / "f", made)))
    assert (call.end, call.cut_by, call.ended_at) == (HttpEnd.CUT, None, 1_790_000_001.5)
    assert call.failure_message is not None
    assert call.failure_message.startswith("HTTP/1 protocol error: peer closed, ***")


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (flow("/v1/messages/count_tokens"), OtherRequestKind.COUNT_TOKENS),
        (flow("/v1/models", method="GET", request=b""), OtherRequestKind.MODEL_LIST),
        (
            flow("/v1/responses", (b"upgrade", b"websocket"), method="GET", request=b"", status=426),
            OtherRequestKind.WEBSOCKET_REFUSED,
        ),
    ],
)
def test_other_traffic_is_counted(
    imported: Import, tmp_path: Path, made: http.HTTPFlow, kind: OtherRequestKind
) -> None:
    """As the recorder counts it."""
    attempt = imported(write_flows(tmp_path / "f", flow(), made))
    assert attempt.other_requests == {kind: 1}


def test_a_websocket_and_an_unknown_endpoint_are_errors(imported: Import, tmp_path: Path) -> None:
    """Model traffic that is no call is never passed over."""
    upgrade = flow("/v1/responses", (b"upgrade", b"websocket"), method="GET", request=b"", status=101)
    attempt = imported(write_flows(tmp_path / "f", upgrade, flow("/v9/ask")))
    assert codes(attempt) == {AttemptErrorCode.WEBSOCKET_PASSED, AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST}
    assert [body.path.read_bytes() for body in attempt.kept_bodies] == [QUESTION, ANSWER]


def test_a_torn_file_keeps_what_stands_before(imported: Import, tmp_path: Path) -> None:
    """mitmdump was killed, or the disk was full: wherever the file ends."""
    path = write_flows(tmp_path / "f", flow("/a/messages"), flow("/b/messages"))
    whole = path.read_bytes()
    second = whole.index(b":", 10) and len(write_flows(tmp_path / "one", flow("/a/messages")).read_bytes())
    path.write_bytes(whole[: second + 200])
    attempt = imported(path)
    assert [call.path for call in attempt.calls] == ["/a/messages"]
    (fault,) = (fault for fault in attempt.faults if fault.code is AttemptErrorCode.IMPORT_SOURCE_DAMAGED)
    assert fault.message == "record 2 cannot be read: the file ends within it"


def _state(**changes: Any) -> bytes:
    state: dict[str, Any] = {**flow("/bad/messages").get_state(), **changes}
    return tnetstring.dumps(state)


@pytest.mark.parametrize(
    "record",
    [
        b"3:abc,",
        tnetstring.dumps([1, 2]),
        tnetstring.dumps({"type": "http"}),
        _state(request=None),
        _state(request={**flow().get_state()["request"], "headers": 7}),
        _state(request={**flow().get_state()["request"], "port": "many"}),
        _state(request={**flow().get_state()["request"], "content": "text"}),
        _state(request={**flow().get_state()["request"], "method": 7}),
        _state(response={**flow().get_state()["response"], "status_code": []}),
        _state(version=10_000),
        _state(request={**flow().get_state()["request"], "headers": ((b"a", b"x" * (1 << 21)),)}),
    ],
    ids=["text", "list", "empty", "none", "headers", "port", "content", "method", "status", "newer", "huge head"],
)
def test_a_damaged_flow_costs_only_itself(imported: Import, tmp_path: Path, record: bytes) -> None:
    """Whatever is wrong with it, the calls around it are there, and it is named."""
    path = tmp_path / "f"
    before = write_flows(path, flow("/a/messages", started_at=1.0)).read_bytes()
    behind = write_flows(path, flow("/b/messages", started_at=2.0)).read_bytes()
    path.write_bytes(before + record + behind)
    attempt = imported(path)
    assert [call.path for call in attempt.calls] == ["/a/messages", "/b/messages"]
    assert codes(attempt) == {AttemptErrorCode.IMPORT_SOURCE_DAMAGED}


def test_flows_that_stand_there_twice_count_once(imported: Import, tmp_path: Path) -> None:
    """`-w +FILE` appends, and a saved view can hold them again."""
    made = flow()
    attempt = imported(write_flows(tmp_path / "f", made, made))
    assert len(attempt.calls) == 1
    assert codes(attempt) == {AttemptErrorCode.IMPORT_SOURCE_DAMAGED}


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), -5.0, 1e300, 0.0])
def test_times_that_are_none_are_unknown(imported: Import, tmp_path: Path, moment: float) -> None:
    """And they order nothing wrongly: the other calls stand behind."""
    made = flow("/a/messages", started_at=1.0)
    made.request.timestamp_start = moment
    call = imported(write_flows(tmp_path / "f", flow("/b/messages"), made)).calls[0]
    assert (call.path, call.request_start) == ("/a/messages", None)
