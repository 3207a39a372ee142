"""An OTLP receiver on the loopback: reads OTLP, JSON or protobuf, into the official messages; files of it, too."""

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


def received(text: str | bytes) -> Any:
    """The message. Unknown members and wrong types are errors; ids, which OTLP writes in hex, have their length."""
    document = json.loads(text)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for item in (span, *span.get("links", [])):
                    _read_ids(item)
    return json_format.ParseDict(document, ExportTraceServiceRequest())


def _read_ids(item: dict[str, Any]) -> None:
    for name in _IDS:
        if name in item:
            data = bytes.fromhex(item[name])
            assert len(data) == (16 if name == "traceId" else 8)
            assert any(data)
            item[name] = base64.b64encode(data).decode()


def spans_of(message: Any) -> list[Any]:
    """All its spans."""
    return [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]


def file_spans(path: Path) -> list[Any]:
    """The spans of all lines."""
    return [span for line in path.read_text().splitlines() for span in spans_of(received(line))]


def attributes(item: Any) -> dict[str, Any]:
    """Attributes of a span, link or resource as Python values."""
    return {attribute.key: _value(attribute.value) for attribute in item.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@dataclass
class Receiver:
    """A collector. `answers` are (status, headers, body) for the next requests that it can read; then all is well."""

    url: str
    takes_json: bool = True
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    def answer(self, media_type: str) -> tuple[int, dict[str, str], bytes]:
        """The next answer to a request of this type."""
        if media_type == "application/json" and not self.takes_json:
            return 415, {}, b"Unsupported content type: application/json"
        if self.answers:
            return self.answers.pop(0)
        return 200, {}, b"{}" if media_type == "application/json" else b""

    @property
    def spans(self) -> list[Any]:
        """What it took."""
        return [span for _, _, message in self.requests for span in spans_of(message)]


def _message(headers: Message, body: bytes) -> Any:
    if headers["content-type"] == "application/x-protobuf":
        return ExportTraceServiceRequest.FromString(body)
    return received(body)


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """A collector on a free port of the loopback."""
    state = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, answered = state.answer(self.headers["content-type"])
            if status == 200:
                state.requests.append((self.path, dict(self.headers.items()), _message(self.headers, body)))
            self.send_response(status)
            for name, value in {"content-length": str(len(answered)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answered)

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Not into the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
