"""Lone surrogates: JSON can spell them, UTF-8 cannot, and so most readers refuse a document that holds one."""

from typing import Any

import orjson


def has_lone_surrogate(value: Any) -> bool:
    """Does any text in a JSON value hold one?"""
    try:
        orjson.dumps(value, default=_anything)
    except (orjson.JSONEncodeError, RecursionError):
        return any(not _is_utf8(text) for text in _texts(value))  # it may have been a large number
    return False


def _anything(_value: object) -> None:
    """Numbers that Python has no number for hold no text."""


def _texts(value: Any) -> list[str]:
    """All texts, also the names of members. Without recursion: values may nest deep."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            found += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
