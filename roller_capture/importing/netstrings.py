"""Typed netstrings (https://tnetstrings.info), the way in which mitmproxy writes flows, read strictly.

mitmproxy's own reader takes a length for a number of any spelling, so that a file of a kilobyte can keep it busy for
ever (a negative length reads the same bytes again); and it goes as deep as the file likes.
"""

from typing import Any, Final

DEEPEST: Final = 40
"""Levels of lists and objects; a flow has about eight."""

_LONGEST_LENGTH: Final = 12
_LONGEST_NUMBER: Final = 40


class NetstringError(ValueError):
    """The data is no typed netstring."""


def loads(data: bytes) -> Any:
    """The only value of `data`. Raises `NetstringError`."""
    value, rest = _value(memoryview(data), 0)
    if rest:
        raise NetstringError("data behind the end")
    return value


def _value(data: memoryview, depth: int) -> tuple[Any, memoryview]:
    """The first value, and what stands behind it."""
    head = bytes(data[: _LONGEST_LENGTH + 1])
    digits, mark, _ = head.partition(b":")
    if not mark or not digits.isdigit():
        raise NetstringError("a value without a length")
    start = len(digits) + 1
    end = start + int(digits)
    if end >= len(data):
        raise NetstringError("a value that ends too early")
    return _typed(chr(data[end]), data[start:end], depth), data[end + 1 :]


def _typed(kind: str, data: memoryview, depth: int) -> Any:
    if kind == ",":
        return bytes(data)
    if kind == ";":
        return str(data, "utf-8", "surrogateescape")
    if kind == "}":
        items = _items(data, depth)
        if len(items) % 2 or not all(isinstance(name, str | bytes) for name in items[::2]):
            raise NetstringError("an object with a name that is none")
        return dict(zip(items[::2], items[1::2], strict=True))
    if kind == "]":
        return _items(data, depth)
    return _plain(kind, bytes(data[: _LONGEST_NUMBER + 1]))


def _items(data: memoryview, depth: int) -> list[Any]:
    if depth >= DEEPEST:
        raise NetstringError("nested too deep")
    items = []
    while data:
        item, data = _value(data, depth + 1)
        items.append(item)
    return items


def _plain(kind: str, text: bytes) -> Any:
    words = {("!", b"true"): True, ("!", b"false"): False, ("~", b""): None}
    if (kind, text) in words:
        return words[kind, text]
    if kind not in ("#", "^") or len(text) > _LONGEST_NUMBER:
        raise NetstringError("a value of no known type")
    try:
        return int(text) if kind == "#" else float(text)
    except ValueError:
        raise NetstringError("a number that is none") from None
