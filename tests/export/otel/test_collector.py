"""`export otel --endpoint`: an OTLP receiver on the loopback takes the spans, or does not want them."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from roller_capture.errors import RollerError
from roller_capture.export.otel import destinations, protobuf
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.importing.command import ImportRequest, import_attempt
from roller_capture.vocabulary import ExecutionStatus
from tests.export.families import publish_generations, run_export
from tests.export.otel.receiver import Receiver, file_spans, receiver
from tests.importing.recorded import flow, write_flows


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return publish_generations(tmp_path / "a", monkeypatch)


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_a_collector_gets_what_a_file_would_have(attempt: Path, collector: Receiver, path: str) -> None:
    """All spans, at the path of traces."""
    code, _, err = run_export("otel", attempt, "--endpoint", collector.url + path)
    assert code == 0, err
    assert [where for where, _, _ in collector.requests] == ["/v1/traces"]
    assert run_export("otel", attempt, "--output", attempt.parent / "o")[0] == 0
    assert collector.spans == file_spans(attempt.parent / "o")


def test_requests_are_of_bounded_size(attempt: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long attempt is cut into several; each span is sent once."""
    monkeypatch.setattr(destinations, "_MOST_SPANS", 5)
    assert run_export("otel", attempt, "--endpoint", collector.url)[0] == 0
    assert len(collector.requests) == 3
    assert len({span.span_id for span in collector.spans}) == len(collector.spans) == 12
    collector.requests.clear()
    monkeypatch.setattr(destinations, "_LONGEST_REQUEST", 2_000)
    assert run_export("otel", attempt, "--endpoint", collector.url)[0] == 0
    assert len(collector.requests) > 3
    assert len(collector.spans) == 12


def test_headers_come_from_the_environment(attempt: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of every OTLP exporter; a key is on no command line, and in no message."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret, x-team = a")
    _, _, err = run_export("otel", attempt, "--endpoint", collector.url)
    sent = {name.lower(): value for name, value in collector.requests[0][1].items()}
    assert (sent["authorization"], sent["x-team"]) == ("Bearer secret", "a")
    assert sent["content-type"] == "application/json"
    assert "secret" not in err


def test_a_collector_that_is_busy_is_asked_again(
    attempt: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it asks for, within bounds."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    collector.answers = [(503, {"Retry-After": "7"}, b""), (429, {"Retry-After": "9999"}, b""), (502, {}, b"")]
    assert run_export("otel", attempt, "--endpoint", collector.url)[0] == 0
    assert waited == [7, 30, 4]
    assert len(collector.spans) == 12
    collector.answers = [(503, {}, b"later")] * 5
    code, _, err = run_export("otel", attempt, "--endpoint", collector.url)
    assert (code, "answered 503: later" in err) == (1, True)


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [(400, {}, "answered 400: bad"), (302, {"Location": "/elsewhere"}, "answered 302"), (401, {}, "answered 401")],
)
def test_a_refusal_is_one_line(
    attempt: Path, collector: Receiver, status: int, headers: dict[str, str], words: str
) -> None:
    """Exit 1; a redirect would not carry the spans."""
    collector.answers = [(status, headers, b"bad\x1b[31m")]
    code, _, err = run_export("otel", attempt, "--endpoint", collector.url)
    assert code == 1
    assert words in err
    assert "\x1b" not in err
    assert collector.requests == []


def test_spans_that_were_rejected_are_told(attempt: Path, collector: Receiver) -> None:
    """A collector may take a part only."""
    collector.answers = [(200, {}, b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}')]
    code, out, err = run_export("otel", attempt, "--endpoint", collector.url, "--json")
    assert code == 1
    assert "the collector rejected 3 spans (too old)" in err
    assert '"rejected":3' in out


def test_a_collector_without_json_gets_the_same_as_protobuf(
    attempt: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked with JSON once. Its answers are of its form, too."""
    monkeypatch.setattr(destinations, "_MOST_SPANS", 5)
    collector.takes_json = False
    partial = ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    collector.answers = [(503, {"Retry-After": "0"}, b""), (200, {}, answer), (200, {}, b"\xff no message")]
    code, _, err = run_export("otel", attempt, "--endpoint", collector.url)
    assert (code, "the collector rejected 2 spans (too old)" in err) == (1, True)
    assert {headers["Content-Type"] for _, headers, _ in collector.requests} == {"application/x-protobuf"}
    assert run_export("otel", attempt, "--output", attempt.parent / "o")[0] == 0
    assert collector.spans == file_spans(attempt.parent / "o")


@pytest.mark.parametrize("takes_json", [True, False])
def test_times_that_otlp_has_not_are_left_out(tmp_path: Path, collector: Receiver, takes_json: bool) -> None:
    """An imported file can hold any: a call that begins beyond has no span, an end beyond is not known."""
    far = 19_880_899_200.0  # in 2600
    endless = flow(started_at=2.0)
    assert endless.response is not None
    endless.response.timestamp_end = far
    flows = write_flows(tmp_path / "flows.mitm", flow(started_at=1.0), endless, flow(started_at=far))
    import_attempt(ImportRequest((flows,), tmp_path / "a", "generic"))
    finalize_attempt(tmp_path / "a", FinalizeRequest(execution_status=ExecutionStatus.COMPLETED))
    collector.takes_json = takes_json
    code, _, err = run_export("otel", tmp_path / "a", "--endpoint", collector.url)
    assert (code, "1  calls and tool calls whose times are not known" in err) == (0, True), err
    seconds = [(span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9) for span in collector.spans]
    assert seconds == [(1.0, 3.0), (2.0, 2.25)]


@pytest.mark.parametrize("member", [{"startTimeUnixNano": "-1"}, {"kind": [1]}, {"surplus": 1}])
def test_what_the_official_messages_refuse_is_one_line(member: dict[str, Any]) -> None:
    """Whatever it is: no traceback."""
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [member]}]}]}
    with pytest.raises(
        RollerError, match=r"^http://c: takes only protobuf, which has no such span \(.{10,200}\)$"
    ) as told:
        protobuf.Messages("http://c").request(json.dumps(body).encode())
    assert told.value.exit_code == 1


def test_a_collector_without_json_needs_a_package(
    attempt: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2, one line that says which."""
    monkeypatch.setitem(sys.modules, protobuf._SERVICE, None)
    assert run_export("otel", attempt, "--endpoint", collector.url)[0] == 0
    collector.takes_json = False
    code, _, err = run_export("otel", attempt, "--endpoint", collector.url)
    assert (code, "pip install 'roller-capture[otlp]'" in err) == (2, True)


def test_a_collector_that_is_not_there(attempt: Path, collector: Receiver) -> None:
    """Exit 1, one line."""
    code, _, err = run_export("otel", attempt, "--endpoint", "http://127.0.0.1:1")
    assert code == 1
    assert "cannot be reached" in err
    assert collector.requests == []


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--output", "o", "--endpoint", "http://127.0.0.1:1"],
        ["--endpoint", "127.0.0.1:4318"],
        ["--endpoint", "file:///etc/passwd"],
        ["--endpoint", "http://user:key@127.0.0.1:4318"],
        ["--endpoint", "http://127.0.0.1:99999"],
    ],
)
def test_what_cannot_be_done_as_asked(
    attempt: Path, options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit 2, one line, nothing sent or written."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run_export("otel", attempt, *options)
    assert (code, err.count("\n")) == (2, 1)
    assert not (tmp_path / "o").exists()
