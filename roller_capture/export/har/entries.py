"""One entry for one call. Members of our own begin with an underscore, as HAR asks for.

What was never recorded is said to be so: the values of headers by a mark in their place, a scheme or a time by a
comment. The request body is the record's own text; the response body is the one in raw/, with its coding undone.
"""

import base64
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from roller_capture.api import Attempt, Call
from roller_capture.export.har.raw_files import response_body
from roller_capture.export.times import nanoseconds
from roller_capture.model_protocols.content_coding import DecodedBody, decode_body
from roller_capture.vocabulary import ResponseCaptureStatus

WITHHELD: Final = "[withheld]"
"""Stands for the value of a header whose values are never stored."""

_NO_VALUE: Final = "roller-capture stores no values of this header"
_ASSUMED: Final = "https"
_NO_SCHEME: Final = "the scheme was not recorded: https is assumed"
_NOT_KEPT: Final = "the response body was not kept (raw/ is gone): _output has what the service said, as one object"
_NOTHING: Final = b"null"
_NO_BODY: Final = "no response body came"

Entry = dict[str, Any]


class NoEntryError(Exception):
    """Why a call has no entry."""


def entry_of(attempt: Attempt, call: Call, page: str, scheme: str | None) -> Entry:
    """The entry.

    Raises `NoEntryError` where it would need what is not known, `RollerError` when a file of the attempt has changed.
    """
    timing = call.record["timing"]
    if nanoseconds(timing["request_start"]) is None:
        raise NoEntryError("its start is not known")
    timings, comment = _timings(timing)
    entry = {
        "pageref": page,
        "startedDateTime": timing["request_start"],
        "time": round(timings["send"] + timings["wait"] + timings["receive"], 3),
        "request": _request(call, scheme),
        "response": _response(call, response_body(attempt, call)),
        "cache": {},
        "timings": timings,
        "_roller": _identity(attempt, call),
    }
    return entry | ({"comment": comment} if comment else {})


def _timings(timing: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Milliseconds. HAR wants numbers of `send`, `wait` and `receive`: what is not known is 0, and told."""
    first, whole = timing["first_byte_ms"], timing["duration_ms"]
    wait = first if first is not None else whole
    known = {
        "send": _milliseconds(timing["request_start"], timing["request_end"]),
        "wait": wait,
        "receive": None if whole is None or wait is None else round(max(0.0, whole - wait), 3),
    }
    unknown = [name for name, value in known.items() if value is None]
    told: dict[str, Any] = {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1}
    told |= {name: 0 if value is None else value for name, value in known.items()}
    return told, f"not known, and therefore 0: {', '.join(unknown)}" if unknown else ""


def _milliseconds(start: Any, end: Any) -> float | None:
    """Between two times of our records."""
    begun, ended = nanoseconds(start), nanoseconds(end)
    return None if begun is None or ended is None else max(0, ended - begun) / 1e6


def _request(call: Call, scheme: str | None) -> dict[str, Any]:
    endpoint, http = call.record["endpoint"], call.record["http"]
    url = f"{scheme or _ASSUMED}://{endpoint['host']}{endpoint['path']}"
    headers = http["request_headers"]
    request: dict[str, Any] = {
        "method": endpoint["method"],
        "url": url,
        "httpVersion": http["request_version"] or "",
        "cookies": [],
        "headers": _headers(headers, http["request_other_headers"]),
        "queryString": [{"name": name, "value": value} for name, value in _query(endpoint["path"])],
        "headersSize": -1,
        "bodySize": _content_length(headers),
    }
    body = _post_data(call, _first(headers, "content-type") or "")
    if body is not None:
        request["postData"] = body
    return request | ({} if scheme else {"comment": _NO_SCHEME})


def _query(path: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(path).query, keep_blank_values=True)
    except ValueError:
        return []


def _post_data(call: Call, mime_type: str) -> dict[str, Any] | None:
    """The body's own text. HAR has no coding of request bodies: what is no text is base64, and says so itself."""
    raw = call.record.get("context_raw")
    if raw:
        data = {"mimeType": mime_type, "text": raw["data"]}
        return data if raw["encoding"] == "utf-8" else {**data, "_encoding": raw["encoding"]}
    text = call.context_text
    if call.record["context_sha256"] is None and text == _NOTHING:
        return None
    return {"mimeType": mime_type, "text": text.decode("utf-8", "surrogatepass")}


def _response(call: Call, body: bytes | None) -> dict[str, Any]:
    http = call.record["http"]
    headers = http["response_headers"]
    return {
        "status": http["status"] or 0,
        "statusText": "",
        "httpVersion": http["response_version"] or "",
        "cookies": [],
        "headers": _headers(headers, http["response_other_headers"]),
        "content": _content(call, headers, body),
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1 if body is None else len(body),
    }


def _content(call: Call, headers: dict[str, list[str]], body: bytes | None) -> dict[str, Any]:
    mime_type = _first(headers, "content-type") or ""
    if body is None:
        if call.record["response_capture_status"] == ResponseCaptureStatus.MISSING:
            return {"size": 0, "mimeType": mime_type, "comment": _NO_BODY}
        return {"size": -1, "mimeType": mime_type, "comment": _NOT_KEPT, "_output": call.output}
    decoded = decode_body(body, ", ".join(headers.get("content-encoding", [])) or None)
    content = {"size": len(decoded.data), "mimeType": mime_type, **_text(decoded.data)}
    if len(decoded.data) != len(body):
        content["compression"] = len(decoded.data) - len(body)
    trouble = _trouble(decoded)
    return content | ({"comment": trouble} if trouble else {})


def _text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"text": base64.b64encode(data).decode(), "encoding": "base64"}


def _trouble(decoded: DecodedBody) -> str:
    """Why the text is not the whole body, if it is not."""
    if decoded.unknown is not None:
        return f"still coded: {decoded.unknown} is not known"
    if decoded.invalid is not None:
        return f"its coding is damaged: {decoded.invalid}"
    if decoded.too_large:
        return "only its beginning: decoded it is too large"
    return "" if decoded.ended else "only its beginning: its coding did not end"


def _headers(values: dict[str, list[str]], others: list[str]) -> list[dict[str, str]]:
    """Each value that is stored, then each name whose value is not."""
    told = [{"name": name, "value": value} for name, items in values.items() for value in items]
    return told + [{"name": name, "value": WITHHELD, "comment": _NO_VALUE} for name in others]


def _first(headers: dict[str, list[str]], name: str) -> str | None:
    return next(iter(headers.get(name, ())), None)


def _content_length(headers: dict[str, list[str]]) -> int:
    text = _first(headers, "content-length") or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _identity(attempt: Attempt, call: Call) -> dict[str, Any]:
    record = call.record
    return {
        "capture_id": attempt.capture_id,
        "call_id": call.call_id,
        "sequence": call.sequence,
        "participant_id": call.participant_id,
        "purpose": call.purpose,
        "protocol": call.protocol,
        "execution_status": record["execution_status"],
        "response_capture_status": record["response_capture_status"],
        "identity_status": record["identity_status"],
        "errors": [{name: error.get(name) for name in ("code", "cut_by")} for error in record["errors"]],
        "request_sha256": record["request_sha256"],
        "context_exact": record["context_exact"],
    }
