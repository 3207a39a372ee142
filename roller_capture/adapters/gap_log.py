"""Collects gaps so that a thousand equal oddities of one file become one gap with a count."""

from dataclasses import dataclass

from roller_capture.capture_protocol import Gap
from roller_capture.vocabulary import AttemptErrorCode


@dataclass(slots=True)
class _Entry:
    locator: str | None
    count: int = 1


class GapLog:
    """Gaps by code, reason and source, in the order in which they first appeared."""

    def __init__(self) -> None:
        self._entries: dict[tuple[AttemptErrorCode, str, str | None], _Entry] = {}

    def add(self, code: AttemptErrorCode, reason: str, *, source: str | None = None, line: int | None = None) -> None:
        """Notes one gap. `reason` is a clause without content of the conversation; `line` counts from 1."""
        entry = self._entries.get((code, reason, source))
        if entry is None:
            self._entries[code, reason, source] = _Entry(None if line is None else f"line:{line}")
        else:
            entry.count += 1

    def gaps(self) -> tuple[Gap, ...]:
        """One gap per kind; the locator is that of its first occurrence."""
        return tuple(
            Gap(code, reason if entry.count == 1 else f"{reason} ({entry.count} times)", source, entry.locator)
            for (code, reason, source), entry in self._entries.items()
        )
