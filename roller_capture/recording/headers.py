"""Which header values may be stored: an allow-list; of every other header only the name (design section 4)."""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from roller_capture.recording.credentials import Credentials, HeaderField

ROLLER_PREFIX: Final = "x-roller-"
"""Headers that our hooks add: recorded, then taken off before the request goes on."""

_ALLOWED: Final = frozenset(
    (
        "content-type",
        "content-encoding",
        "content-length",
        "transfer-encoding",
        "accept",
        "accept-encoding",
        "user-agent",
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "openai-version",
        "openai-model",
        "openai-processing-ms",
        "request-id",
        "x-request-id",
        "x-client-request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "server-timing",
    )
)
_ALLOWED_PREFIXES: Final = ("x-stainless-", "x-ratelimit-", "anthropic-ratelimit-", "ratelimit")


@dataclass(frozen=True, slots=True)
class StoredHeaders:
    """`headers` are allow-listed pairs in wire order, names in lower case; `other` the names of all the rest."""

    headers: list[tuple[str, str]]
    other: list[str]

    @property
    def content_encoding(self) -> str | None:
        """Like the function of this name, of what may be stored."""
        return _codings(value for name, value in self.headers if name == "content-encoding")


def select(fields: Sequence[HeaderField], identity: frozenset[str], credentials: Credentials) -> StoredHeaders:
    """Splits headers into values that may be stored and names. A credential inside an allowed value is masked.

    A native id is stored whole or not at all: two ids that were masked would look like one.
    """
    kept: list[tuple[str, str]] = []
    other: dict[str, None] = {}
    for raw_name, raw_value in fields:
        name = _lower_name(raw_name)
        if name in identity:
            ids, withheld = select_ids([(name, text(raw_value))], credentials)
            kept += ids
            other.update(dict.fromkeys(withheld))
        elif _is_allowed(name):
            kept.append((name, credentials.masked_text(text(raw_value))))
        else:
            other[credentials.masked_text(text(raw_name)).lower()] = None
    return StoredHeaders(kept, list(other))


def select_ids(pairs: Iterable[tuple[str, str]], credentials: Credentials) -> tuple[list[tuple[str, str]], list[str]]:
    """The pairs of native ids that hold no credential, and the names of the others, whose values are not stored."""
    kept, withheld = [], []
    for name, value in pairs:
        if credentials.masked_text(value) == value:
            kept.append((name, value))
        else:
            withheld.append(name)
    return kept, withheld


def split_roller(fields: Sequence[HeaderField]) -> tuple[list[HeaderField], list[tuple[str, str]]]:
    """The headers to forward, untouched and in order, and the `x-roller-*` pairs that were among them."""
    forwarded: list[HeaderField] = []
    roller: list[tuple[str, str]] = []
    for raw_name, raw_value in fields:
        name = _lower_name(raw_name)
        if name.startswith(ROLLER_PREFIX):
            roller.append((name, text(raw_value)))
        else:
            forwarded.append((raw_name, raw_value))
    return forwarded, roller


def header_names(fields: Iterable[HeaderField], credentials: Credentials) -> list[str]:
    """The names of all headers, in lower case, each once."""
    return list(dict.fromkeys(credentials.masked_text(text(name)).lower() for name, _ in fields))


def values(fields: Iterable[HeaderField], name: str) -> list[str]:
    """All values of one header, in order; `name` in lower case."""
    return [text(value) for key, value in fields if _lower_name(key) == name]


def content_encoding(fields: Iterable[HeaderField]) -> str | None:
    """The content codings in the order in which they were applied, or `None` when there are none."""
    return _codings(values(fields, "content-encoding"))


def _codings(values: Iterable[str]) -> str | None:
    return ", ".join(values).strip().lower() or None


def content_length(fields: Iterable[HeaderField]) -> int | None:
    """The declared body length, if it is a number."""
    declared = values(fields, "content-length")
    return int(declared[0]) if declared and re.fullmatch("[0-9]{1,18}", declared[0].strip()) else None


def asks_for_websocket(fields: Iterable[HeaderField]) -> bool:
    """Whether a request wants to become a websocket (RFC 6455, section 4.1)."""
    wanted = ",".join(values(fields, "upgrade")).lower().split(",")
    return "websocket" in (protocol.strip() for protocol in wanted)


def _is_allowed(name: str) -> bool:
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)


@functools.lru_cache(maxsize=1024)
def _lower_name(name: bytes) -> str:
    """Clients send the same names with every request."""
    return text(name).lower()


def text(data: bytes) -> str:
    """Header bytes as text: UTF-8 where they are, else each byte as the character of its number (latin-1)."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
