"""JSON text that must survive: what parses, what does not, and what is written back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roller_capture import json_text
from roller_capture.json_text import JsonError, NumberText, RawJson


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (rb'{"a":"\ud800"}', rb'{"a":"\ud800"}'),
        (b"[1234567890123456789012]", b"[1234567890123456789012]"),
        (b"[-98765432109876543210987654321098765432109876543210987654321098765432109876543210]",) * 2,
        (b"[1e400]", b"[1e400]"),
        (b"[-1E+999]", b"[-1E+999]"),
        (b"[18446744073709551616]", b"[18446744073709551616]"),
        (b'\xef\xbb\xbf{"a":1}', b'{"a":1}'),
        ('{"é":"😀\u2028"}'.encode(), '{"é":"😀\u2028"}'.encode()),
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b"[" * 900 + b"]" * 900, b"[" * 900 + b"]" * 900),
        (b"[" + b"9" * 5000 + b"]", b"[" + b"9" * 5000 + b"]"),
        (b"1234567890123456789012",) * 2,
        (b"-1234567890123456789012",) * 2,
        (b'{"a": 1234567890123456789012\n}', b'{"a":1234567890123456789012}'),
        (
            b'[0,\t1234567890123456789012 ,"1234567890123456789012"]',
            b'[0,1234567890123456789012,"1234567890123456789012"]',
        ),
    ],
)
def test_what_the_standard_parsers_refuse_or_change_is_read_and_written_faithfully(text: bytes, written: bytes) -> None:
    """Lone surrogates, large integers, numbers beyond a double, a byte order mark and depth come back as they were."""
    assert json_text.dumps(json_text.parse(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[NaN]",
        b"[Infinity]",
        b"[-Infinity]",
        b"{'a':1}",
        b'{"a":1',
        b'"a\nb"',
        b"\xff\xfe[\x001\x00]\x00",
        b"\xed\xa0\x80",
        b'"\xed\xa0\x80"',
        b"[1,]",
        b"01",
        b"nul",
        b"[1] x",
        b"1],[2",
        b"1,2",
        b"],[",
        b"]" * 124 + b",1," + b"[" * 124,
        b"1],[2" + b" " * 9000,
        b"]" * 124 + b" " * 9000 + b",1," + b"[" * 124,
        b" ",
    ],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    """Also what Python's parser would let pass: NaN, Infinity, other encodings."""
    with pytest.raises(JsonError) as caught:
        json_text.parse(text)
    assert not caught.value.too_deep


@pytest.mark.parametrize("text", [b"[" * 901 + b"]" * 901, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 1_000_000])
def test_nesting_beyond_what_readers_can_read_is_told_apart(text: bytes) -> None:
    """Such a document may be JSON, but a line that holds it would break most readers."""
    with pytest.raises(JsonError) as caught:
        json_text.parse(text)
    assert caught.value.too_deep


@pytest.mark.parametrize(
    "text",
    [b'{"id":"1234567890123456789012"}', b'["a 1234567890123456789012"]', b"[0.1234567890123456789012]", b"[1e-7]"],
)
def test_long_digits_that_are_no_integer_do_not_lead_to_the_slow_parser(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a text as large as a context, that would cost ten times as much."""
    monkeypatch.setattr(json_text, "_parse_slowly", None)
    assert json_text.parse(text) == json.loads(text)


def test_brackets_in_strings_are_no_depth() -> None:
    """A long text full of brackets is as flat as any other string."""
    text = json.dumps({"a": '[{"' * 3000 + "\\" * 7}).encode()
    assert json_text.parse(text) == json.loads(text)


@pytest.mark.parametrize(
    ("body", "line", "exact"),
    [
        (b'{"a": 1.50}', b'{"a": 1.50}', True),
        (b'{\n "a":1,\r\n "b":"x\\n"}', b'{  "a":1,   "b":"x\\n"}', False),
        (b'\xef\xbb\xbf{"a":1}', b'{"a":1}', False),
    ],
)
def test_a_document_is_put_on_one_line_by_turning_each_line_break_into_a_space(
    body: bytes, line: bytes, exact: bool
) -> None:
    """Nothing else of the text changes, and the answer says whether it is exactly the body."""
    assert json_text.one_line(body) == (line, exact)


def test_raw_text_and_odd_values_are_written_together() -> None:
    """Spliced text, a number kept as text, and a lone surrogate stand in one valid line."""
    value = {"a": RawJson(b'{"x":1.50,"x":2}'), "b": NumberText("1e400"), "c": "\udfff", "d": [True, None, 1.5, "é"]}
    assert json_text.dumps(value) == b'{"a":{"x":1.50,"x":2},"b":1e400,"c":"\\udfff","d":[true,null,1.5,"\xc3\xa9"]}'


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec=None, exclude_categories=())),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_every_value_comes_back_from_its_line(value: object) -> None:
    """Written and read again, a value is the same; the ASCII form says the same as the UTF-8 one."""
    line = json_text.dumps(value)
    assert b"\n" not in line
    assert json_text.parse(line) == value
    ascii_line = json_text.dumps_ascii(value)
    assert ascii_line.isascii()
    assert json.loads(ascii_line) == value


@pytest.mark.parametrize(("place", "value"), [("", {"a/b": [1, {"~": 2}]}), ("/a~1b/0", 1), ("/a~1b/1/~0", 2)])
def test_pointers_name_what_they_were_made_of(place: str, value: object) -> None:
    """RFC 6901 with its two escapes."""
    assert json_text.resolve_pointer({"a/b": [1, {"~": 2}]}, place) == value


@pytest.mark.parametrize("place", ["a", "/x", "/a~1b/2", "/a~1b/-1", "/a~1b/\u0661", "/a~1b/0/0"])
def test_pointers_to_nowhere_raise_lookup_error(place: str) -> None:
    """Also an index that only looks like a number."""
    with pytest.raises(LookupError):
        json_text.resolve_pointer({"a/b": [1, {"~": 2}]}, place)


def test_pointer_escapes_its_parts() -> None:
    """The maker and the resolver agree."""
    assert json_text.pointer("a/b", 1, "~") == "/a~1b/1/~0"
