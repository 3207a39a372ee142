"""Where spans go: a file of OTLP/JSON, a line for each attempt, or a collector that speaks OTLP over HTTP.

The file is what the collector's file exporter writes and its file receiver reads
(https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/). What a collector is sent is cut into requests of
bounded size; spans keep their ids, so sending them again makes no second ones.
"""

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, Any, Final, Protocol

from roller_capture import __version__, json_text
from roller_capture.errors import RollerError
from roller_capture.export.otel.otlp import SCHEMA_URL, Attribute, Span, attributes
from roller_capture.export.otel.protobuf import CONTENT_TYPE, Messages, Refused

_SCOPE: Final = {"name": "roller_capture", "version": __version__}
_LONGEST_REQUEST: Final = 4 * 1024 * 1024
"""Bytes of spans in one request, unless a single span is larger; collectors refuse more than 20 MiB by default."""
_MOST_SPANS: Final = 512
_TRACES: Final = "/v1/traces"
_TRIES: Final = 5
_UNSUPPORTED: Final = 415
"""The media type is not supported: this collector takes no JSON."""
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
"""The statuses that the OTLP specification calls retryable."""
_LONGEST_WAIT: Final = 30.0
_TIMEOUT: Final = 30.0
_HEADERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")


class Destination(Protocol):
    """Takes the spans of attempts, one after the other."""

    def begin(self, resource: dict[str, Attribute]) -> None:
        """An attempt. Nothing is written for one without spans."""

    def add(self, span: Span) -> None:
        """A span of it."""

    def end(self) -> None:
        """The attempt is over."""


class _Enveloped:
    """What stands around the spans of one resource."""

    def __init__(self, resource: dict[str, Attribute]) -> None:
        told = json_text.dumps({"attributes": attributes(resource)})
        scope = json_text.dumps(_SCOPE)
        self.head = b'{"resourceSpans":[{"resource":%s,"scopeSpans":[{"scope":%s,"spans":[' % (told, scope)
        schema = json_text.dumps(SCHEMA_URL)
        self.tail = b'],"schemaUrl":%s}],"schemaUrl":%s}]}' % (schema, schema)


class LinesOfOtlp:
    """A line of OTLP/JSON for each attempt."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._envelope = _Enveloped({})
        self._spans = 0

    def begin(self, resource: dict[str, Attribute]) -> None:
        self._envelope = _Enveloped(resource)
        self._spans = 0

    def add(self, span: Span) -> None:
        self._stream.write(b"," if self._spans else self._envelope.head)
        self._stream.write(json_text.dumps(span.json()))
        self._spans += 1

    def end(self) -> None:
        if self._spans:
            self._stream.write(self._envelope.tail + b"\n")


class Collector:
    """Sends OTLP over HTTP: JSON, and to one that takes none the same as protobuf.

    `rejected` counts the spans that the collector did not want, `reasons` says why.
    """

    def __init__(self, endpoint: str, environment: Mapping[str, str] = os.environ) -> None:
        """`endpoint` with or without `/v1/traces`. Raises `RollerError` (exit 2) where it is no such URL."""
        self._url = _traces_url(endpoint)
        self._headers = {"Content-Type": "application/json", "User-Agent": f"roller-capture/{__version__}"}
        self._headers |= _headers_of(environment)
        self._messages: Messages | None = None
        self._envelope = _Enveloped({})
        self._spans: list[bytes] = []
        self._bytes = 0
        self.rejected = 0
        self.reasons: set[str] = set()

    def begin(self, resource: dict[str, Attribute]) -> None:
        self._envelope = _Enveloped(resource)

    def add(self, span: Span) -> None:
        text = json_text.dumps(span.json())
        if self._spans and (self._bytes + len(text) > _LONGEST_REQUEST or len(self._spans) >= _MOST_SPANS):
            self.end()
        self._spans.append(text)
        self._bytes += len(text)

    def end(self) -> None:
        if self._spans:
            self._send(self._envelope.head + b",".join(self._spans) + self._envelope.tail)
        self._spans, self._bytes = [], 0

    def _send(self, body: bytes) -> None:
        sent, tried = self._encoded(body), 0
        while True:
            status, answered, wait = self._post(sent)
            if status == 200:
                self._read_answer(answered)
                return
            if status == _UNSUPPORTED and self._messages is None:
                self._messages = Messages(self._url)
                sent = self._encoded(body)
                continue
            tried += 1
            if status not in _TRY_AGAIN or tried == _TRIES:
                break
            time.sleep(min(wait if wait is not None else 2.0 ** (tried - 1), _LONGEST_WAIT))
        words = answered[:200].decode("utf-8", "backslashreplace").strip()
        raise RollerError(f"{self._url}: the collector answered {status}{f': {words}' if words else ''}")

    def _encoded(self, body: bytes) -> bytes:
        if self._messages is None:
            return body
        self._headers["Content-Type"] = CONTENT_TYPE
        return self._messages.request(body)

    def _post(self, body: bytes) -> tuple[int, bytes, float | None]:
        """Status, answer, and how long the collector asks to wait."""
        request = urllib.request.Request(self._url, body, self._headers, method="POST")  # noqa: S310 - http(s) alone
        try:
            with _OPENER.open(request, timeout=_TIMEOUT) as response:
                return response.status, response.read(_LONGEST_REQUEST), None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(_LONGEST_REQUEST), _seconds(error.headers.get("Retry-After"))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RollerError(f"{self._url}: the collector cannot be reached ({reason})") from None

    def _read_answer(self, answered: bytes) -> None:
        """A collector may take a part only; it says how many it did not."""
        refused = _refused(answered) if self._messages is None else self._messages.refused(answered)
        self.rejected += max(0, refused.spans)
        if refused.spans > 0:
            self.reasons.add(refused.reason[:200])


def _refused(answered: bytes) -> Refused:
    try:
        partial = json_text.parse(answered)["partialSuccess"]
        return Refused(int(partial.get("rejectedSpans", 0)), str(partial.get("errorMessage", "")))
    except (json_text.JsonError, KeyError, TypeError, ValueError, AttributeError):
        return Refused(0, "")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, whose answer says nothing of the spans."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects())


def _traces_url(endpoint: str) -> str:
    try:
        url = urllib.parse.urlsplit(endpoint)
        is_http = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        is_http = False
    if not is_http or url.username is not None or url.query or url.fragment:
        raise RollerError(f"--endpoint {endpoint}: write it as http(s)://HOST:PORT", exit_code=2)
    path = url.path.rstrip("/")
    return url._replace(path=path if path.endswith(_TRACES) else path + _TRACES).geturl()


def _headers_of(environment: Mapping[str, str]) -> dict[str, str]:
    """`name=value,…`, percent-encoded, as all OTLP exporters read it. A key belongs there, never on a command line."""
    given = next((environment[name] for name in _HEADERS if environment.get(name)), "")
    headers = {}
    for pair in given.split(","):
        name, separator, value = pair.partition("=")
        if separator and name.strip():
            headers[name.strip()] = urllib.parse.unquote(value.strip())
    return headers


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
