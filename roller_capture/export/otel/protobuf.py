"""OTLP in its binary form, for collectors that take no JSON: by the official messages of `opentelemetry-proto`."""

import base64
import importlib
import json
from typing import Any, Final, NamedTuple

from roller_capture.errors import RollerError

CONTENT_TYPE: Final = "application/x-protobuf"
_SERVICE: Final = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
_IDS: Final = ("traceId", "spanId", "parentSpanId")


class Refused(NamedTuple):
    """What a collector did not take of a request: how many spans, and why."""

    spans: int
    reason: str


class Messages:
    """The official messages."""

    def __init__(self, url: str) -> None:
        """`url` is the collector's. Raises `RollerError` (exit 2) where their package is not installed."""
        self._url = url
        try:
            self._service: Any = importlib.import_module(_SERVICE)
            self._json: Any = importlib.import_module("google.protobuf.json_format")
            self._error: Any = importlib.import_module("google.protobuf.message").DecodeError
        except ImportError:
            raise RollerError(
                f"{url}: takes only protobuf: install it with pip install 'roller-capture[otlp]'",
                exit_code=2,
            ) from None

    def request(self, body: bytes) -> bytes:
        """A request of OTLP/JSON in the binary form. Raises `RollerError` (exit 1) for a value that no field takes."""
        document = json.loads(body)
        for resource in document["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    for item in (span, *span.get("links", ())):
                        _as_base64(item)
        try:
            message = self._json.ParseDict(document, self._service.ExportTraceServiceRequest())
        except self._json.ParseError as error:
            raise RollerError(
                f"{self._url}: takes only protobuf, which has no such span ({str(error)[:200]})"
            ) from None
        return bytes(message.SerializeToString())

    def refused(self, answered: bytes) -> Refused:
        """What the answer says was not taken; nothing where it is no such message."""
        answer = self._service.ExportTraceServiceResponse()
        try:
            answer.ParseFromString(answered)
        except self._error:
            return Refused(0, "")
        return Refused(answer.partial_success.rejected_spans, answer.partial_success.error_message)


def _as_base64(item: dict[str, Any]) -> None:
    """Ids are hex in OTLP/JSON alone; every other JSON of a protobuf message has bytes in base64."""
    for name in _IDS:
        if name in item:
            item[name] = base64.b64encode(bytes.fromhex(item[name])).decode()
