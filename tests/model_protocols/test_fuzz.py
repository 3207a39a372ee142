"""Mutated transcripts: whatever comes over the wire is decoded to something that can be published."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roller_capture.vocabulary import HttpEnd, Protocol, ResponseCaptureStatus
from tests.model_protocols.transcripts import ALL, STREAMS, decode, plain, protocol_of

QUICK = settings(
    max_examples=300, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def check(protocol: Protocol, body: bytes, http_end: HttpEnd, **options: Any) -> None:
    decoded = decode(protocol, body, http_end=http_end, **options)
    plain(decoded.output)
    plain([decoded.usage, decoded.response_id, decoded.model, decoded.finish_reason])
    plain([[warning.code, warning.detail] for warning in decoded.warnings])
    for ref in decoded.tool_refs:
        assert all(value is None or isinstance(value, str) for value in (ref.tool_call_id, ref.item_id, ref.name))
    if decoded.execution_status != "completed" or decoded.response_capture_status is not ResponseCaptureStatus.COMPLETE:
        assert decoded.blockers


@QUICK
@given(
    path=st.sampled_from(ALL),
    protocol=st.sampled_from(Protocol),
    cuts=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 40), st.binary(max_size=8)), min_size=1, max_size=4),
    http_end=st.sampled_from(HttpEnd),
    coding=st.sampled_from([None, "gzip", "deflate", "br", "zstd", "gzip, br"]),
)
def test_bytes_are_replaced(
    path: Any, protocol: Protocol, cuts: list[tuple[int, int, bytes]], http_end: HttpEnd, coding: str | None
) -> None:
    """Bytes cut out and put in anywhere, also under a wrong protocol and a wrong coding."""
    data = path.read_bytes()
    for position, length, new in cuts:
        data = data[:position] + new + data[position + length :]
    check(protocol, data, http_end, content_encoding=coding)


@QUICK
@given(path=st.sampled_from(STREAMS), data=st.data(), http_end=st.sampled_from(HttpEnd))
def test_values_are_replaced(path: Any, data: st.DataObject, http_end: HttpEnd) -> None:
    """Any value anywhere in the events becomes any other JSON value; events are dropped, doubled and swapped."""
    events = [json.loads(line[5:]) for line in path.read_bytes().splitlines() if line[5:].strip().startswith(b"{")]
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(events) - 1))
        action = data.draw(st.sampled_from(["value", "value", "value", "drop", "double", "swap"]))
        if action == "value":
            _replace(events[position], data)
        elif action == "drop" and len(events) > 1:
            del events[position]
        elif action == "double":
            events.insert(data.draw(st.integers(0, len(events))), events[position])
        else:
            events.insert(0, events.pop(position))
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    check(protocol_of(path), body, http_end)


def _replace(value: Any, data: st.DataObject) -> None:
    """Walk down at random and put another value in."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and data.draw(st.booleans()):
            value = value[key]
        else:
            value[key] = data.draw(JSON_VALUES)
            return
