"""Tests of the tolerant JSON Lines reader."""

import io

import pytest

from roller_capture.adapters.native_jsonl import LineProblem, NativeLine, read_lines


def _read(data: bytes, limit: int = 1000) -> list[NativeLine]:
    return list(read_lines(io.BytesIO(data), limit))


def test_lines_are_numbered_from_one_and_blank_ones_are_passed_over() -> None:
    """Locators count every line, also those that hold nothing."""
    assert [(line.number, line.record) for line in _read(b'{"a":1}\n\n \r\n{"b":2}\r\n')] == [
        (1, {"a": 1}),
        (4, {"b": 2}),
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": \n', LineProblem.NOT_JSON),
        (b'{"a": ', LineProblem.TORN),
        (b"[1]\n", LineProblem.NOT_AN_OBJECT),
        (b"null\n", LineProblem.NOT_AN_OBJECT),
        (b'{"a":"\xff"}\n', LineProblem.NOT_JSON),
        (b"\x00\x00\x00\n", LineProblem.NOT_JSON),
        (b'{"a":NaN}\n', LineProblem.NOT_JSON),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"\n", LineProblem.TOO_DEEP),
        (b'{"a":"' + b"x" * 5000 + b'"}\n', LineProblem.TOO_LONG),
    ],
)
def test_a_bad_line_is_named_and_the_next_one_is_read(data: bytes, problem: LineProblem) -> None:
    """One bad line never spoils those after it."""
    limit = 20000 if problem is LineProblem.TOO_DEEP else 1000
    after = b"" if problem is LineProblem.TORN else b'{"next":1}\n'
    lines = _read(data + after, limit)
    assert lines[0].problem is problem
    assert [line.record for line in lines[1:]] == ([{"next": 1}] if after else [])


def test_a_last_line_without_a_line_break_is_read_when_it_is_whole() -> None:
    """A process that was killed right after writing loses nothing."""
    assert _read(b'{"a":1}') == [NativeLine(1, {"a": 1})]


def test_a_line_of_exactly_the_limit_is_read() -> None:
    """The limit is inclusive, the line break not counted for."""
    line = b'{"a":"' + b"x" * 92 + b'"}'
    assert [item.problem for item in _read(line + b"\n" + line, 101)] == [None, None]


def test_a_numbered_line_after_a_huge_one_keeps_its_number() -> None:
    """A line that is passed over in pieces counts once."""
    lines = _read(b'{"a":"' + b"x" * (3 << 20) + b'"}\n{"b":1}\n')
    assert [(line.number, line.problem) for line in lines] == [(1, LineProblem.TOO_LONG), (2, None)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'\xef\xbb\xbf{"a": 1}\n', {"a": 1}),
        (b'{"a": 1}\r\n', {"a": 1}),
        (b'{"a": 1, "a": 2}\n', {"a": 2}),
        (b'{"a": "\\ud800"}\n', {"a": "\ud800"}),
        (b'{"a": 123456789012345678901234567890}\n', {"a": 123456789012345678901234567890}),
        (b'{"a": "nul \\u0000"}\n', {"a": "nul \0"}),
    ],
    ids=["byte order mark", "CRLF", "a key twice", "half a surrogate pair", "a huge number", "an escaped NUL"],
)
def test_odd_but_valid_lines_are_read(content: bytes, expected: dict[str, object]) -> None:
    """As every other parser reads them; of a key that stands twice the last value counts."""
    [line] = _read(content)
    assert (line.record, line.problem) == (expected, None)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}\0\n',
        b"\0\0\0\n",
        '{"a": 1}\n'.encode("utf-16"),
        b'{"a": "\xff"}\n',
        b'{"a": NaN}\n',
        b"\x1f\x8b\x08\n",
    ],
    ids=["a NUL", "only NUL", "UTF-16", "no UTF-8", "no number", "gzip"],
)
def test_what_is_no_json_is_named(content: bytes) -> None:
    """One gap for each line that cannot be read."""
    assert {line.problem for line in _read(content)} <= {LineProblem.NOT_JSON, LineProblem.TORN}
    assert all(line.record == {} for line in _read(content))
