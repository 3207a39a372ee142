"""Files of other recorders, as tests need them: flows made by mitmproxy's own classes, and HAR entries."""

import json
from pathlib import Path
from typing import Any, Final

from mitmproxy import connection, http
from mitmproxy.flow import Error
from mitmproxy.io import FlowWriter

from roller_capture.working_files import BodyFile
from tests.support.attempts import message_body, request_body

KEY: Final = "sk-ant-api03-0123456789abcdefghij"
ANSWER: Final = message_body("msg_1")
QUESTION: Final = request_body({"role": "user", "content": "ask"})


def flow(
    path: str = "/v1/messages",
    *headers: tuple[bytes, bytes],
    request: bytes | None = QUESTION,
    response: bytes | None = ANSWER,
    status: int = 200,
    answer_headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),),
    started_at: float = 1_790_000_000.0,
    error: str | None = None,
    method: str = "POST",
) -> http.HTTPFlow:
    """A flow to model.test as mitmproxy has it in the end; a body that is `None` was streamed past."""
    made = http.HTTPFlow(_client(), connection.Server(address=("model.test", 443)))
    fields = ((b"x-api-key", KEY.encode()), (b"user-agent", b"agent/1"), *headers)
    made.request = http.Request(
        "model.test", 443, method.encode(), b"https", b"", path.encode(), b"HTTP/1.1", http.Headers(fields), request,
        None, started_at, started_at + 0.25,
    )  # fmt: skip
    made.response = http.Response(
        b"HTTP/1.1", status, b"", http.Headers(answer_headers), response, None, started_at + 1, started_at + 2
    )
    if error is not None:
        made.error = Error(error, started_at + 1.5)
    return made


def _client() -> connection.Client:
    return connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=1.0)


def write_flows(path: Path, *flows: http.HTTPFlow) -> Path:
    """What `mitmdump -w` writes."""
    with path.open("wb") as stream:
        writer = FlowWriter(stream)
        for one in flows:
            writer.add(one)
    return path


def data_of(body: BodyFile | None) -> bytes:
    """What was stored."""
    assert body is not None
    assert body.path is not None
    return body.path.read_bytes()


def har_entry(**changes: Any) -> dict[str, Any]:
    """A call as a browser tells it; `request` and `response` are merged into the usual ones."""
    request = {
        "method": "POST",
        "url": "https://model.test/v1/messages?beta=true",
        "httpVersion": "h2",
        "headers": [{"name": ":method", "value": "POST"}, {"name": "X-Api-Key", "value": KEY}],
        "postData": {"mimeType": "application/json", "text": QUESTION.decode()},
        "bodySize": len(QUESTION),
    }
    response = {
        "status": 200,
        "httpVersion": "h2",
        "headers": [
            {"name": "Content-Type", "value": "application/json"},
            {"name": "Content-Encoding", "value": "gzip"},
        ],
        "content": {"size": len(ANSWER), "text": ANSWER.decode()},
        "bodySize": 77,
    }
    entry = {"startedDateTime": "2026-09-21T12:00:00.500Z", "time": 1500.0}
    request |= changes.pop("request", {})
    response |= changes.pop("response", {})
    return {**entry, "request": request, "response": response, **changes}


def write_har(path: Path, *entries: Any, creator: str = "WebInspector") -> Path:
    """A HAR."""
    log = {"version": "1.2", "creator": {"name": creator, "version": "1"}, "entries": list(entries)}
    path.write_text(json.dumps({"log": log}), encoding="utf-8")
    return path
