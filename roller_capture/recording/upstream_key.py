"""The credential that the proxy puts in: the harness has a made-up key, and only the proxy the real one (design 4).

Options name environment variables, and only these hold the keys. The made-up key also tells which requests come from
the recorded harness: one that does not carry it belongs to somebody else.
"""

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.recording.credentials import SHORTEST_SECRET, HeaderField

_CREDENTIAL_HEADERS: Final = frozenset((b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"))


class CredentialMark(StrEnum):
    """Whose credential a request carried."""

    OWN = "own"  # the harness's made-up key
    FOREIGN = "foreign"  # another one, or none


class UpstreamKey:
    """A made-up key, and the real one that takes its place; without a real one the made-up key passes."""

    def __init__(self, dummy: bytes, real: bytes | None) -> None:
        self._dummy: Final = dummy
        self._real: Final = real

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Both keys, neither of which may reach the disk."""
        return (self._dummy,) if self._real is None else (self._dummy, self._real)

    def mark(self, fields: Iterable[HeaderField]) -> CredentialMark:
        """Whether the made-up key stands in a header that carries credentials."""
        return CredentialMark.OWN if any(map(self._is_dummy, fields)) else CredentialMark.FOREIGN

    def put_into(self, fields: Sequence[HeaderField]) -> tuple[HeaderField, ...]:
        """The headers with the real key wherever the made-up one stood; nothing else is changed."""
        return tuple(self._replaced(field) for field in fields)

    def _is_dummy(self, field: HeaderField) -> bool:
        name, value = field
        return name.lower() in _CREDENTIAL_HEADERS and value.split(b" ")[-1] == self._dummy

    def _replaced(self, field: HeaderField) -> HeaderField:
        name, value = field
        if self._real is None or not self._is_dummy(field):
            return field
        return name, value[: len(value) - len(self._dummy)] + self._real


def read_upstream_key(dummy_variable: str, key_variable: str) -> UpstreamKey | None:
    """The keys in the environment variables of these names, or `None` when no names are given.

    Raises `RollerError` when a named variable holds no key, and for a real key without a made-up one.
    """
    if not dummy_variable:
        if key_variable:
            raise RollerError("roller_upstream_key_env needs roller_dummy_key_env: which key is it to replace?")
        return None
    return UpstreamKey(
        _key_in("roller_dummy_key_env", dummy_variable),
        _key_in("roller_upstream_key_env", key_variable) if key_variable else None,
    )


def _key_in(option: str, variable: str) -> bytes:
    value = os.environ.get(variable, "")
    if len(value) < SHORTEST_SECRET or not value.isascii() or not value.isprintable() or " " in value:
        raise RollerError(f"{option}: the environment variable {variable} holds no key")
    return value.encode()
