"""JSON as text that must survive: parse tolerantly, write faithfully, splice original text.

The standard parsers lose things that captures hold: orjson refuses lone surrogates, `1e400` and depth beyond 1024 and
turns integers above 64 bit into floats; the standard library turns `1e400` into infinity and writes it as no JSON
(design section 11). So `parse` tries orjson and falls back to the standard library with such numbers kept as text, and
`dumps` writes both kinds of value, and raw JSON text, back as one valid JSON line.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import orjson

JsonValue: TypeAlias = Any
"""A parsed JSON value: dict, list, str, int, float, bool, None or `NumberText`."""

MAX_DEPTH = 900
"""Deepest nesting accepted. A published line nests its values a few levels deeper, and Python's own parser gives up
just below 1,000, so anything deeper would make a line that most readers cannot read."""

_ORJSON_DEPTH = 1024
_COUNTED = 8 * 1024
"""Up to so many bytes, counting brackets is quicker than parsing inside arrays; beyond, it takes half as long as
parsing the document itself."""
_OPEN = b"[" * (_ORJSON_DEPTH - MAX_DEPTH)
_CLOSE = b"]" * (_ORJSON_DEPTH - MAX_DEPTH)
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONG_DIGITS = b"0" * 19  # 64-bit integers have at most 19 digits, unsigned ones 20
_LONG_INTEGER = re.compile(rb"(?:\A|[\s,:\[])-?[1-9][0-9]{18,}+(?=[\s,\]}]|\Z)")
"""Where an integer may stand. Texts hold long runs of digits too, and one that looks like this costs time only."""
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_BOM = b"\xef\xbb\xbf"


class JsonError(ValueError):
    """The text is no JSON (RFC 8259). `too_deep` tells a document that merely nests too deep."""

    def __init__(self, message: str, *, too_deep: bool = False) -> None:
        super().__init__(message)
        self.too_deep = too_deep


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number that no Python number holds, kept as it was spelled."""

    text: str


@dataclass(frozen=True, slots=True)
class RawJson:
    """JSON text to be written as it stands. The caller vouches that it is one valid JSON value without line breaks."""

    text: bytes


def parse(data: bytes, *, exact_numbers: bool = True) -> JsonValue:
    """The value of a UTF-8 JSON text (a leading byte order mark is passed over).

    `exact_numbers=False` is for large documents whose numbers nobody uses: integers above 64 bit may become floats.

    Raises `JsonError` when it is no JSON: also for NaN and Infinity, which Python would accept, and beyond `MAX_DEPTH`.
    """
    data = data.removeprefix(_BOM)
    if not exact_numbers or not _has_long_integer(data):
        try:
            if len(data) <= _COUNTED and data.count(b"[") + data.count(b"{") <= MAX_DEPTH:  # too few to nest deeper
                return orjson.loads(data)
            # Inside so many arrays, what nests deeper than MAX_DEPTH is beyond orjson's own limit.
            return _unwrapped(orjson.loads(_OPEN + data + _CLOSE))
        except orjson.JSONDecodeError:
            pass
    return _parse_slowly(data)


def _has_long_integer(data: bytes) -> bool:
    return _LONG_DIGITS in data.translate(_DIGITS_AS_ZERO) and _LONG_INTEGER.search(data) is not None


def _unwrapped(value: JsonValue) -> JsonValue:
    """The document inside the arrays. Text such as `1],[2` fills an array with more or less than one value."""
    for _ in _OPEN:
        if len(value) != 1:
            raise JsonError("more or less than one JSON value")
        value = value[0]
    return value


def _parse_slowly(data: bytes) -> JsonValue:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    _check_depth(data)
    try:
        return json.loads(text, parse_float=_float_or_text, parse_int=_int_or_text, parse_constant=_refuse_constant)
    except JsonError:
        raise
    except RecursionError:
        raise JsonError("nested too deep", too_deep=True) from None
    except ValueError as error:
        raise JsonError(str(error)) from None


def _float_or_text(text: str) -> float | NumberText:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return NumberText(text)
    return value


def _int_or_text(text: str) -> int | NumberText:
    # int() refuses more digits than sys.get_int_max_str_digits(), a guard against quadratic time.
    return int(text) if len(text) <= 1000 else NumberText(text)


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is no JSON")


# Possessive, and with the closing quote left open: what is never closed is passed over once, and not once a quote.
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def _check_depth(data: bytes) -> None:
    depth = 0
    for match in _STRUCTURE.finditer(data):
        token = data[match.start()]
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH} levels", too_deep=True)
        elif token in b"]}":
            depth -= 1


def one_line(data: bytes) -> tuple[bytes, bool]:
    """The text of a valid JSON document on one line, and whether it is still exactly the document.

    In valid JSON a CR or LF can stand only between tokens, where one space means the same (design section 5).
    """
    text = data.removeprefix(_BOM)
    exact = len(text) == len(data)
    if b"\n" in text or b"\r" in text:
        return text.translate(_LINE_BREAKS), False
    return text, exact


def dumps(value: JsonValue) -> bytes:
    """One line of JSON for a value that may hold `NumberText`, `RawJson`, lone surrogates and large integers."""
    try:
        return orjson.dumps(value, default=_fragment, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except (orjson.JSONEncodeError, RecursionError):
        parts: list[bytes] = []
        _write(value, parts)
        return b"".join(parts)


def dumps_indented(value: JsonValue) -> bytes:
    """JSON for people to read, two spaces a level."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except (orjson.JSONEncodeError, RecursionError):
        return json.dumps(value, indent=2).encode()


def dumps_ascii(value: JsonValue) -> str:
    """Like `dumps`, with DEL and everything beyond ASCII escaped: for terminals and pipes of unknown encoding."""
    text = dumps(value).decode("utf-8")
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(r"[^\x00-\x7e]", _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return "\\u007f" if match.group() == "\x7f" else json.dumps(match.group())[1:-1]


def _fragment(value: object) -> orjson.Fragment:
    if isinstance(value, RawJson):
        return orjson.Fragment(value.text)
    if isinstance(value, NumberText):
        return orjson.Fragment(value.text.encode())
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _write(value: JsonValue, parts: list[bytes]) -> None:
    """The slow, complete writer, for what orjson refuses. No recursion: how deep it may go must not depend on where it
    is called."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += reversed(_members(item))
        elif isinstance(item, list | tuple):
            waiting += reversed(_items(item))
        else:
            parts.append(_scalar(item))


_COMMA, _COLON = RawJson(b","), RawJson(b":")


def _members(value: dict[Any, JsonValue]) -> list[JsonValue]:
    """An object as the values that spell it."""
    spelled: list[JsonValue] = [RawJson(b"{")]
    for key, item in value.items():
        spelled += (*((_COMMA,) if len(spelled) > 1 else ()), str(key), _COLON, item)
    return [*spelled, RawJson(b"}")]


def _items(value: list[JsonValue] | tuple[JsonValue, ...]) -> list[JsonValue]:
    """An array as the values that spell it."""
    spelled: list[JsonValue] = [RawJson(b"[")]
    for item in value:
        spelled += (*((_COMMA,) if len(spelled) > 1 else ()), item)
    return [*spelled, RawJson(b"]")]


def _scalar(value: JsonValue) -> bytes:
    if isinstance(value, RawJson):
        return value.text
    if isinstance(value, NumberText):
        return value.text.encode()
    if isinstance(value, str):
        return _string(value)
    return json.dumps(value, allow_nan=False).encode()


def _string(text: str) -> bytes:
    """A JSON string; text with a lone surrogate, which has no UTF-8 form, is written with escapes."""
    try:
        return orjson.dumps(str(text))
    except orjson.JSONEncodeError:
        return json.dumps(text).encode()


def pointer(*parts: str | int) -> str:
    """A JSON Pointer (RFC 6901) from its parts."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def resolve_pointer(value: JsonValue, text: str) -> JsonValue:
    """What a JSON Pointer names in `value`. Raises `LookupError` when it names nothing."""
    if text and not text.startswith("/"):
        raise LookupError(f"{text!r} is no JSON Pointer")
    for raw in text.split("/")[1:]:
        part = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise LookupError(f"{text!r} names nothing")
    return value
