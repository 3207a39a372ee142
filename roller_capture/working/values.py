"""Values of hostile JSON taken by type: what is of another type is as good as absent."""

from enum import StrEnum
from typing import Any, TypeVar

_Word = TypeVar("_Word", bound=StrEnum)


def member(words: type[_Word], value: object) -> _Word | None:
    """The word of a closed list that `value` spells, if it does."""
    return next((word for word in words if word == value), None)


def mapping(value: object) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    """The text, or None."""
    return value if isinstance(value, str) else None


def texts(value: object) -> list[str]:
    """The texts of an array."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def pairs(value: object) -> list[tuple[str, str]]:
    """The [name, value] pairs of an array, names in lower case."""
    return [
        (item[0].lower(), item[1])
        for item in (value if isinstance(value, list) else ())
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str)
    ]


def integer(value: object) -> int | None:
    """The integer, or None; a boolean is none, nor is what no 64 bits hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def number(value: object) -> float | None:
    """A time in seconds since 1970, if it is one that a calendar holds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 253402300800:
        return float(value)
    return None
