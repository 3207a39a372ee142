"""Reading single values out of native records, where any key may hold any type.

A native log is written by another program in a version we may not know. These helpers return the value when it has
the expected type and `None` or an empty value when it has not, so that adapters never fail on a shape.
"""

import re
from collections.abc import Mapping
from typing import Any

_MAX_ID_LENGTH = 512
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_LOCATABLE = re.compile(r"[A-Za-z0-9_.:|@+=-]{1,200}")


def as_mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """`value` if it is a string, else `None`."""
    return value if isinstance(value, str) else None


def as_id(value: object) -> str | None:
    """`value` if it can serve as an id: a string, not empty, of sane length, with a UTF-8 form; else `None`."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID_LENGTH:
        return None
    return value if _has_utf8_form(value) else None


def as_word(value: object) -> str | None:
    """`value` if it is a short word of a vocabulary (`completed`, `end_turn`), which may be published as it stands."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def is_locatable(identifier: str) -> bool:
    """Whether an id stands in a JSON line letter by letter and needs no quoting in an evidence locator."""
    return _LOCATABLE.fullmatch(identifier) is not None


def _has_utf8_form(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
