"""The WHATWG rules for event streams, however the bytes are cut."""

import pytest

from roller_capture.model_protocols.sse import ServerSentEvent, SseParser
from tests.model_protocols.transcripts import bytewise

CASES = {
    "one event": (b"data: a\n\n", [(None, b"a", True)]),
    "no space": (b"data:a\n\n", [(None, b"a", True)]),
    "only one space goes": (b"data:  a\n\n", [(None, b" a", True)]),
    "name": (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a", True), (None, b"b", True)]),
    "several lines": (b"data: a\ndata\ndata: b\n\n", [(None, b"a\n\nb", True)]),
    "comments": (b": hi\n\n:\ndata: a\n: in between\ndata: b\n\n", [(None, b"a\nb", True)]),
    "crlf": (b"event: x\r\ndata: a\r\n\r\n", [("x", b"a", True)]),
    "cr": (b"event: x\rdata: a\r\rdata: b\r\r", [("x", b"a", True), (None, b"b", True)]),
    "mixed": (b"data: a\r\n\ndata: b\n\r\n", [(None, b"a", True), (None, b"b", True)]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [(None, b"a", True)]),
    "mark only at the start": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [(None, b"a", True)]),
    "id": (b"id: 7\ndata: a\n\ndata: b\n\n", [(None, b"a", True), (None, b"b", True)]),
    "id with a null": (b"id: 7\0\ndata: a\n\n", [(None, b"a", True)]),
    "retry and unknown fields": (b"retry: 5\nnovel: x\nnovel\ndata: a\n\n", [(None, b"a", True)]),
    "no data, no event": (b"event: x\n\nevent: y\nid: 1\n\n", []),
    "name without data is forgotten": (b"event: x\n\ndata: a\n\n", [(None, b"a", True)]),
    "empty data": (b"data:\n\n", [(None, b"", True)]),
    "last event without blank line": (b"data: a\n\ndata: b\n", [(None, b"a", True), (None, b"b", False)]),
    "last line without its end": (b"event: x\ndata: b", [("x", b"b", False)]),
    "half a field": (b"data: a\n\ndat", [(None, b"a", True), (None, b"", False)]),
    "half an event without data": (b"event: x\n", [("x", b"", False)]),
    "half a comment": (b"data: a\n\n: bye", [(None, b"a", True)]),
    "characters": ("data: — 😀\n\n".encode(), [(None, "— 😀".encode(), True)]),
    "blank lines": (b"\n\n\n\ndata: a\n\n\n\n", [(None, b"a", True)]),
    "nothing": (b"", []),
}


def parse(pieces: list[bytes]) -> list[ServerSentEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_events(data: bytes, expected: list[tuple[str | None, bytes, bool]]) -> None:
    """The events, fed whole, byte by byte, and cut once at every place, with empty pieces in between."""
    wanted = [ServerSentEvent(*event) for event in expected]
    assert parse([data]) == wanted
    assert parse(list(bytewise(data))) == wanted
    for cut in range(len(data)):
        assert parse([data[:cut], b"", data[cut:]]) == wanted


def test_huge_line_byte_by_byte() -> None:
    """A line of a million bytes that comes one byte at a time is put together once."""
    line = b"data: " + b"x" * 1_000_000
    [event] = parse(list(bytewise(line + b"\n\n")))
    assert len(event.data) == 1_000_000
