"""Numbers, durations, ids and lists of calls as a person reads them."""

from collections.abc import Iterable, Sequence
from typing import Final

LONGEST_NAME: Final = 48
LONGEST_TEXT: Final = 240
_MOST_RANGES: Final = 12


def cut(text: str, length: int = LONGEST_NAME) -> str:
    """At most `length` characters; what is left out is marked."""
    return text if len(text) <= length else text[: length - 1] + "…"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`, `1,000 calls`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def amount(number: int | None, unit: str) -> str:
    """`1,000 in`; empty when it is not known."""
    return "" if number is None else f"{number:,} {unit}"


def cache_words(read: int | None, written: int | None) -> str:
    """`cache 5,000 read, 70 written`; empty when the cache did nothing."""
    parts = [amount(number, unit) for number, unit in ((read, "read"), (written, "written")) if number]
    return f"cache {', '.join(parts)}" if parts else ""


def duration(milliseconds: float | None) -> str:
    """`12 ms`, `1.2 s`, `2 min 05 s`, `1 h 02 min`; empty when it is not known."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(min(seconds, 1e12)), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min"


def call_numbers(numbers: Iterable[int]) -> str:
    """`#3, #5-#8 and 2 more`: consecutive numbers are joined, a long list is cut."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown, rest = ranges[:_MOST_RANGES], ranges[_MOST_RANGES:]
    text = ", ".join(f"#{first}" if first == last else f"#{first}-#{last}" for first, last in shown)
    more = sum(last - first + 1 for first, last in rest)
    return f"{text} and {more:,} more" if more else text


def listing(words: Sequence[str], most: int = 6) -> str:
    """`a, b and 3 more`."""
    text = ", ".join(cut(word) for word in words[:most])
    return f"{text} and {len(words) - most:,} more" if len(words) > most else text
