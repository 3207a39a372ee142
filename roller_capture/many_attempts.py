"""What came of many attempts, in a few lines at the end: counts, and the first of those that failed."""

from collections import Counter
from typing import Final

MANY: Final = 20
"""From so many attempts on, their own lines are more than people read."""

_MOST_NAMED: Final = 20


class Tally:
    """Counts what came of each attempt. Its memory does not grow with their number."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._words: Counter[str] = Counter()
        self._failed: list[str] = []
        self._failures = 0

    def count(self, word: str) -> None:
        """One that went well."""
        self._words[word] += 1

    def fail(self, word: str, path: object, reason: str) -> None:
        """One that did not; `path` is what it is called."""
        self._words[word] += 1
        self._failures += 1
        if len(self._failed) < _MOST_NAMED:
            text = reason.removeprefix(f"{path}: ")
            self._failed.append(f"{path}: {text}")

    def lines(self) -> list[str]:
        """For people; nothing where there were few attempts, since each had its line."""
        if self._words.total() < MANY:
            return []
        words = "; ".join(f"{word}: {count:,}" for word, count in self._words.items())
        lines = [f"{self._command}: {words}"]
        lines += [f"  {line}" for line in self._failed]
        if self._failures > len(self._failed):
            lines.append(f"  and {self._failures - len(self._failed):,} more")
        return lines
