"""Puts together what a stream sends in pieces. Nothing here changes a value it was given; a merge makes a new one."""

from collections.abc import Container, Iterable
from typing import Any

from roller_capture.model_protocols.shapes import JsonObject

MERGE_DEPTH = 8
"""How deep objects are merged member by member; provider objects nest three or four levels."""


def joined(parts: Iterable[str]) -> str:
    """The pieces as one text. A surrogate pair that was cut between two pieces becomes its character again."""
    text = "".join(parts)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


class Merger:
    """Merges objects member by member; later non-null wins. Linear in what is added, and owns all that it changes."""

    def __init__(self, start: JsonObject | None = None) -> None:
        self.value: JsonObject = {}
        if start is not None:
            self.add(start)

    def add(self, later: JsonObject, without: Container[str] = ()) -> None:
        for key, value in later.items():
            if key not in without:
                _merge_member(self.value, key, value, MERGE_DEPTH)


def _merge_member(own: JsonObject, key: str, value: Any, depth: int) -> None:
    if value is None:
        own.setdefault(key, None)
    elif not isinstance(value, dict) or depth == 0:
        own[key] = value
    else:
        if not isinstance(own.get(key), dict):
            own[key] = {}
        for member, item in value.items():
            _merge_member(own[key], member, item, depth - 1)
