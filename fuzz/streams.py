"""Responses on the wire: cut, split, garbled, and under a wrong coding."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from fuzz.target import Target
from roller_capture.model_protocols import DecodedResponse, decode_body
from roller_capture.scripted_provider.coding import CODINGS, Coder
from roller_capture.vocabulary import HttpEnd, Protocol, ResponseCaptureStatus
from tests.model_protocols.transcripts import ALL, decode, plain, protocol_of

_TERMINAL: Final = {
    Protocol.ANTHROPIC_MESSAGES: re.compile(rb"message_stop"),
    Protocol.OPENAI_CHAT_COMPLETIONS: re.compile(rb'"finish_reason"\s*:\s*"'),
    Protocol.OPENAI_RESPONSES: re.compile(rb"response\.(completed|incomplete|failed|cancelled)"),
}
"""Without these words in what came, no stream has ended."""

_TEXT_MEMBERS: Final = frozenset(
    (
        "delta",
        "text",
        "thinking",
        "content",
        "arguments",
        "refusal",
        "reasoning",
        "reasoning_content",
        "partial_json",
        "transcript",
    )
)
_TEXT_CHANGES: Final = frozenset(("delta_mismatch",))
"""Recordings in which the provider's last word on a text is another one than the sum of its deltas."""


class Case(NamedTuple):
    """One mutation of one recording: `what` says how the numbers and pieces are used."""

    what: str
    recording: int
    coding: str | None
    http_end: HttpEnd
    place: int
    sizes: list[int]
    changes: list[tuple[int, int, bytes]]
    label: str


_CASES: Final = st.builds(
    Case,
    st.sampled_from(("cut", "cut", "cut", "split", "bytes", "events", "label")),
    st.integers(0, len(ALL) - 1),
    st.sampled_from(CODINGS),
    st.sampled_from(HttpEnd),
    st.integers(0, 1 << 16),
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 1 << 13), st.integers(0, 40), st.binary(max_size=8)), min_size=1, max_size=3),
    st.sampled_from(("gzip", "deflate", "br", "zstd", "gzip, br", "x-unknown", "identity, gzip", "")),
)


@cache
def _recording(number: int) -> bytes:
    return ALL[number].read_bytes()


@cache
def _wire(number: int, coding: str | None) -> bytes:
    coder = Coder(coding)
    return coder.feed(_recording(number)) + coder.finish()


@cache
def _truth(number: int, http_end: HttpEnd = HttpEnd.COMPLETE) -> DecodedResponse:
    return decode(protocol_of(ALL[number]), _recording(number), http_end=http_end)


def check(case: Case) -> str:
    """Every case decodes to what can be published; a cut and a split one to what the whole one says."""
    path = ALL[case.recording]
    protocol, wire = protocol_of(path), _wire(case.recording, case.coding)
    if case.what == "cut":
        wire = wire[: case.place % max(1, len(wire))]
        decoded = decode(protocol, wire, http_end=case.http_end, content_encoding=case.coding)
        _check_cut(
            path, decoded, _truth(case.recording), decode_body(wire, case.coding).data, _recording(case.recording)
        )
    elif case.what == "split":
        pieces = list(_split(wire, case.sizes))
        decoded = decode(protocol, pieces, http_end=case.http_end, content_encoding=case.coding)
        assert _meaning(decoded) == _meaning(_truth(case.recording, case.http_end))
    elif case.what == "label":
        decoded = decode(protocol, wire, http_end=case.http_end, content_encoding=case.label)
    else:
        body = _recording(case.recording)
        body = _events(body, case.changes) if case.what == "events" else _garbled(body, case.changes)
        coder = Coder(case.coding)
        wire = coder.feed(body) + coder.finish()
        decoded = decode(protocol, wire, http_end=case.http_end, content_encoding=case.coding)
    _check_publishable(decoded)
    return f"{case.what}: {decoded.execution_status}/{decoded.response_capture_status}"


def _check_publishable(decoded: DecodedResponse) -> None:
    plain(decoded.output)
    plain([decoded.usage, decoded.response_id, decoded.model, decoded.finish_reason])
    plain([[warning.code, warning.detail] for warning in decoded.warnings])
    for ref in decoded.tool_refs:
        assert all(value is None or isinstance(value, str) for value in (ref.tool_call_id, ref.item_id, ref.name))
    if not _is_whole(decoded):
        assert decoded.blockers, "it is not whole, and nothing bars it"


def _is_whole(decoded: DecodedResponse) -> bool:
    return decoded.execution_status == "completed" and decoded.response_capture_status is ResponseCaptureStatus.COMPLETE


def _check_cut(path: Path, decoded: DecodedResponse, truth: DecodedResponse, came: bytes, whole: bytes) -> None:
    assert whole.startswith(came), "decoding made up bytes"
    if _is_whole(decoded):
        is_stream = path.suffix == ".sse"
        ended = _TERMINAL[protocol_of(path)].search(came) is not None if is_stream else came.strip() == whole.strip()
        assert ended, "a cut answer counts as whole"
    if path.stem not in _TEXT_CHANGES:
        said, all_said = dict(_texts(plain(decoded.output), ())), dict(_texts(plain(truth.output), ()))
        for place, text in said.items():
            is_said = all_said.get(place, "").startswith(text) or any(one.startswith(text) for one in _deltas(path))
            assert is_said, f"{place}: {text!r} was not said"


@cache
def _deltas(path: Path) -> tuple[str, ...]:
    """The texts that a stream builds up piece by piece: arguments have another form when they are whole."""
    built: dict[tuple[Any, ...], str] = {}
    for line in path.read_bytes().splitlines():
        if not line.startswith(b"data:") or not line[5:].strip().startswith(b"{"):
            continue
        event = json.loads(line[5:])
        indexes = tuple(event.get(name) for name in ("type", "index", "output_index", "item_id"))
        for place, text in _texts(event, ()):
            built[(*indexes, place)] = built.get((*indexes, place), "") + text
    return tuple(built.values())


def _texts(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name in _TEXT_MEMBERS and isinstance(member, str):
                yield (*place, name), member
            else:
                yield from _texts(member, (*place, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*place, number))


def _meaning(decoded: DecodedResponse) -> Any:
    members = (decoded.output, decoded.usage, decoded.response_id, decoded.model, decoded.finish_reason)
    statuses = (decoded.execution_status, decoded.response_capture_status, decoded.blockers, decoded.tool_refs)
    return [*map(plain, members), *statuses, decoded.warnings]


def _split(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    place = number = 0
    while place < len(data):
        size = sizes[number % len(sizes)]
        yield data[place : place + size]
        place, number = place + size, number + 1


def _garbled(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for number, length, new in changes:
        place = number % (len(data) + 1)
        data = data[:place] + new + data[place + length :]
    return data


def _events(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Whole events dropped, doubled and moved."""
    events = data.split(b"\n\n")
    for number, length, new in changes:
        place = number % len(events)
        if len(new) % 3 == 0 and len(events) > 1:
            del events[place]
        elif len(new) % 3 == 1:
            events.insert(length % len(events), events[place])
        else:
            events.insert(length % len(events), events.pop(place))
    return b"\n\n".join(events)


TARGET: Final = Target(
    "model responses",
    80,
    "nothing raises; what comes out is strict JSON; the texts of a cut answer begin those of the whole one; it counts "
    "as whole only behind its end mark; how it was split does not matter; what is not whole is barred from export",
    _CASES,
    check,
)
