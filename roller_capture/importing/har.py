"""Reads a HAR 1.2 file (http://www.softwareishard.com/blog/har-12-spec/): one JSON document, so read whole.

A HAR has texts, not bytes: decoded from their content coding and charset by the program that wrote it. Whether an
exchange came to its end it does not tell at all; what the response itself says of its end still counts.
"""

import base64
import binascii
import datetime
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.importing.exchange import DamagedRecordError, ImportedExchange, ImportGap, check_head
from roller_capture.importing.sources import Place
from roller_capture.recording.credentials import HeaderField
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead, ResponseHead
from roller_capture.recording.headers import split_roller, values
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working.values import integer, mapping, text

LARGEST_HAR: Final = 512 * 1024 * 1024
"""Bytes. All of it is in memory while it is imported, about four times."""

_PORTS: Final = {"http": 80, "https": 443}
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_SWITCHED: Final = 101
_WITHOUT_BODY: Final = (_SWITCHED, 204, 304)
_LONGEST_VERSION: Final = 20


class HarFile:
    """A HAR."""

    kind = "har"
    has_ids = False

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        """Raises `RollerError` (exit 1) for what is no HAR, or too large."""
        data = stream.read(LARGEST_HAR + 1)
        if len(data) > LARGEST_HAR:
            raise RollerError(f"{path}: is larger than {LARGEST_HAR >> 20} MiB, and a HAR has to be read whole")
        try:
            log = mapping(mapping(json_text.parse(data.removeprefix(b"\xef\xbb\xbf"))).get("log"))
        except json_text.JsonError as error:
            raise RollerError(f"{path}: is no whole HAR: {error}") from None
        entries = log.get("entries")
        if not isinstance(entries, list):
            raise RollerError(f"{path}: is no HAR: it has no log.entries")
        self._entries: list[Any] = entries
        # Of an event stream mitmproxy makes a text by taking each byte for a character.
        self._is_of_mitmproxy = mapping(log.get("creator")).get("name") == "mitmproxy"
        self.gaps: list[ImportGap] = [
            ImportGap(AttemptErrorCode.IMPORT_CALLS_UNPROVEN, "a HAR does not prove that every request is in it"),
            ImportGap(
                AttemptErrorCode.IMPORT_TIMING_UNKNOWN, "a HAR does not tell when and in how many pieces responses came"
            ),
        ]

    def places(self) -> list[Place]:
        """One for each entry; `offset` is its position."""
        moments = (_moment(mapping(entry).get("startedDateTime")) or 0.0 for entry in self._entries)
        return [Place(moment, position + 1, position, 0) for position, moment in enumerate(moments)]

    def read(self, place: Place) -> ImportedExchange:
        """One entry. Raises `DamagedRecordError`."""
        entry = mapping(self._entries[place.offset])
        return check_head(_exchange(entry, latin=self._is_of_mitmproxy))


def _exchange(entry: dict[str, Any], *, latin: bool) -> ImportedExchange:
    request, response = mapping(entry.get("request")), mapping(entry.get("response"))
    head = _request_head(request)
    status = integer(response.get("status")) or 0
    started_at = _moment(entry.get("startedDateTime"))
    fields = _fields(response.get("headers"))
    body = _request_body(request, head)
    answer = _response_body(response, fields, latin=latin) if status > 0 else None
    ended_at = _later(started_at, entry.get("time"))
    return ImportedExchange(
        head=head,
        request_body=body,
        request_times=BodyTimes(started_at, None),
        request_complete=True,
        response=ResponseHead(status, _version(response), fields, decoded=True) if status > 0 else None,
        response_body=answer,
        ended_at=ended_at,
        failure=Failure(None, _how_it_ended(response, status), ended_at=ended_at),
        is_websocket=entry.get("_resourceType") == "websocket" or status == _SWITCHED,
        gaps=tuple(_gaps(request_unseen=body is None, response_unseen=status > 0 and answer is None)),
    )


def _how_it_ended(response: dict[str, Any], status: int) -> str:
    error = text(response.get("_error"))
    if status > 0:
        return "a HAR does not tell how the exchange ended"
    return f"no response: {error}" if error else "the HAR has no response to it, and does not tell why"


def _gaps(*, request_unseen: bool, response_unseen: bool) -> Iterator[ImportGap]:
    yield ImportGap(AttemptErrorCode.IMPORT_CUT_SIDE_UNKNOWN, "a HAR does not tell how, and by whom, exchanges ended")
    yield ImportGap(AttemptErrorCode.IMPORT_BYTES_UNPROVEN, "a HAR has texts, not the bytes of the wire")
    if request_unseen:
        yield ImportGap(AttemptErrorCode.IMPORT_BODY_MISSING, "the HAR does not hold the request's body")
    if response_unseen:
        yield ImportGap(AttemptErrorCode.IMPORT_BODY_MISSING, "the HAR does not hold the response's body")


def _request_head(request: dict[str, Any]) -> RequestHead:
    method, url = text(request.get("method")), text(request.get("url"))
    if not method or not url:
        raise DamagedRecordError("it has no method or no URL")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        host = parts.hostname or ""
    except ValueError:
        raise DamagedRecordError("its URL is none") from None
    forwarded, roller = split_roller(_fields(request.get("headers")))
    return RequestHead(
        method=method,
        scheme=parts.scheme,
        host=host,
        port=port,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        http_version=_version(request),
        fields=tuple(forwarded),
        roller=tuple(roller),
        imported=True,
        decoded=True,
    )


def _fields(listed: Any) -> tuple[HeaderField, ...]:
    """Headers; browsers list those of HTTP/2 that begin with a colon too, which are no headers."""
    fields = []
    for item in listed if isinstance(listed, list) else ():
        name, value = text(mapping(item).get("name")), text(mapping(item).get("value"))
        if name and value is not None and not name.startswith(":"):
            fields.append((_encoded(name), _encoded(value)))
    return tuple(fields)


def _request_body(request: dict[str, Any], head: RequestHead) -> bytes | None:
    data = request.get("postData")
    body = text(mapping(data).get("text"))
    if body is None:
        has_none = data is None and (head.method.upper() not in _WITH_BODY or request.get("bodySize") == 0)
        return b"" if has_none else None
    return _base64(body) if mapping(data).get("encoding") == "base64" else _encoded(body)


def _response_body(response: dict[str, Any], fields: tuple[HeaderField, ...], *, latin: bool) -> bytes | None:
    """Its text. An empty one is no proof of an empty body: programs write it, and size 0, for bodies they let pass."""
    content = mapping(response.get("content"))
    body = text(content.get("text"))
    if not body:
        return b"" if response.get("status") in _WITHOUT_BODY else None
    if content.get("encoding") == "base64":
        return _base64(body)
    charset = _charset(fields, latin=latin)
    try:
        return body.encode(charset)
    except (LookupError, ValueError):
        return _encoded(body)


def _charset(fields: tuple[HeaderField, ...], *, latin: bool) -> str:
    """Into which bytes a text goes back: UTF-8, as all three protocols have it, but for mitmproxy's own way."""
    content_type = ",".join(values(fields, "content-type"))
    named = _CHARSET.search(content_type)
    if not latin:
        return "utf-8"
    if named:
        return named[1]
    return "utf-8" if "json" in content_type or "html" in content_type else "latin-1"


def _base64(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise DamagedRecordError("a body of it is no base64") from None


def _encoded(data: str) -> bytes:
    """UTF-8; a byte that is none stands in a HAR as a lone surrogate."""
    try:
        return data.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return data.encode("utf-8", "surrogatepass")


def _version(message: dict[str, Any]) -> str:
    return (text(message.get("httpVersion")) or "")[:_LONGEST_VERSION]


def _moment(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 time."""
    try:
        moment = datetime.datetime.fromisoformat(value if isinstance(value, str) else "").timestamp()
    except (ValueError, OverflowError):
        return None
    return moment if moment > 0 else None


def _later(start: float | None, milliseconds: Any) -> float | None:
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    if start is None or not is_number or not math.isfinite(milliseconds) or not 0 <= milliseconds < 1e12:
        return None
    return start + float(milliseconds) / 1000
