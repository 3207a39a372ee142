"""Spans in OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), and their ids.

Ids are derived from ours, so an attempt that is exported twice has the same spans. Times are Unix nanoseconds.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from roller_capture.export.surrogates import has_lone_surrogate
from roller_capture.export.times import nanoseconds

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"
"""The last version of the semantic conventions that had those for GenAI before they moved to a repository of their own;
all names used here are in both."""

_INT64: Final = 2**63
_UINT64: Final = 2**64
_ERROR: Final = 2
_ESCAPED: Final = "roller.escaped_attributes"


class Kind(IntEnum):
    """Span kinds of OTLP."""

    INTERNAL = 1
    CLIENT = 3


Attribute = str | bool | int | float | Sequence[str] | None
"""`None` is not written: what is not known is not told."""


@dataclass(slots=True)
class Span:
    """A span. `error` is its `error.type`; then its status is an error, else unset."""

    trace_id: str
    span_id: str
    name: str
    kind: Kind
    start: int
    end: int
    parent_id: str | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    links: list[tuple[str, dict[str, Attribute]]] = field(default_factory=list)
    error: str | None = None

    def json(self) -> dict[str, Any]:
        """The span as OTLP/JSON."""
        span: dict[str, Any] = {"traceId": self.trace_id, "spanId": self.span_id}
        if self.parent_id is not None:
            span["parentSpanId"] = self.parent_id
        span |= {
            "name": _text(self.name),
            "kind": int(self.kind),
            "startTimeUnixNano": str(self.start),
            "endTimeUnixNano": str(max(self.start, self.end)),
            "attributes": attributes(self.attributes | {"error.type": self.error}),
        }
        if self.links:
            span["links"] = [
                {"traceId": self.trace_id, "spanId": span_id, "attributes": attributes(told)}
                for span_id, told in self.links
            ]
        if self.error is not None:
            span["status"] = {"code": _ERROR}
        return span


def unix_nanoseconds(timestamp: Any) -> int | None:
    """A time of a record as OTLP has it, in a uint64; `None` for what is no time, before 1970 or after 2554."""
    moment = nanoseconds(timestamp)
    return moment if moment is not None and 0 <= moment < _UINT64 else None


def trace_id(capture_id: str) -> str:
    """The trace of an attempt."""
    return _digest(16, "trace", capture_id)


def span_id(capture_id: str, kind: str, *names: str) -> str:
    """The span of a participant, a call, or a tool call of a participant."""
    return _digest(8, kind, capture_id, *names)


def _digest(size: int, *parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    digest = hashlib.sha256(text).digest()[:size]
    return digest.hex() if any(digest) else "01".zfill(2 * size)  # all zeros is no id


def attributes(told: dict[str, Attribute]) -> list[dict[str, Any]]:
    """Attributes as OTLP/JSON. Texts with lone surrogates, which have no UTF-8, are escaped, and that is told."""
    known = {name: value for name, value in told.items() if value is not None}
    escaped = [name for name, value in known.items() if has_lone_surrogate(value)]
    if escaped:
        known[_ESCAPED] = escaped
    return [
        {"key": name, "value": value} for name, value in ((name, _value(item)) for name, item in known.items()) if value
    ]


def _value(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        return {"stringValue": _text(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -_INT64 <= value < _INT64 else None
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [{"stringValue": _text(item)} for item in value]}}


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
