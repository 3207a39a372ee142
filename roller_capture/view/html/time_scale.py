"""Where moments stand on the line of time, from 0 to 1.

A pause that is longer than all that ran together is drawn narrow, so that what did run keeps its room, in a session of
milliseconds as in one of hours.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, TypedDict

_PAUSE_WIDTH: Final = 0.02
_MOST_PAUSES: Final = 0.4
"""Of the whole line, however many pauses there are."""

_SHORTEST: Final = 1.0
"""Milliseconds that a call without duration counts as."""


class Stretch(TypedDict):
    """From `start` to `end`, in milliseconds since the first request, at `x` on the line and `width` wide."""

    start: float
    end: float
    x: float
    width: float
    pause: bool


def time_scale(spans: Iterable[tuple[float, float]]) -> list[Stretch]:
    """Stretches that cover the line from left to right, for calls by their begin and their duration in milliseconds.

    Nothing ran: no stretches.
    """
    busy = _busy(spans)
    if not busy:
        return []
    stretches = _cut_at_pauses(busy)
    pauses = sum(item["pause"] for item in stretches)
    pause_width = min(_PAUSE_WIDTH, _MOST_PAUSES / max(pauses, 1))
    ran = sum(item["end"] - item["start"] for item in stretches if not item["pause"])
    x = 0.0
    for item in stretches:
        share = (item["end"] - item["start"]) / ran
        item["x"] = x
        item["width"] = pause_width if item["pause"] else share * (1 - pauses * pause_width)
        x += item["width"]
    return stretches


def place(stretches: Sequence[Stretch], moment: float) -> float:
    """Where a moment stands; what is outside of the line stands at its end."""
    number = bisect_left(stretches, moment, key=lambda one: one["end"])
    item = stretches[min(number, len(stretches) - 1)]
    share = (moment - item["start"]) / (item["end"] - item["start"])
    return item["x"] + max(0.0, min(1.0, share)) * item["width"]


def _busy(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """When anything ran at all: spans that touch become one."""
    busy: list[tuple[float, float]] = []
    for start, duration in sorted(spans):
        end = start + max(duration, _SHORTEST)
        if busy and start <= busy[-1][1]:
            busy[-1] = (busy[-1][0], max(busy[-1][1], end))
        else:
            busy.append((start, end))
    return busy


def _cut_at_pauses(busy: Sequence[tuple[float, float]]) -> list[Stretch]:
    """Stretches with nothing between them; between two that are not pauses is one that is."""
    work = sum(end - start for start, end in busy)
    stretches: list[Stretch] = []
    begin = busy[0][0]
    for (_, end), (following, _) in itertools.pairwise(busy):
        if following - end > work:
            stretches += [_stretch(begin, end, pause=False), _stretch(end, following, pause=True)]
            begin = following
    return [*stretches, _stretch(begin, busy[-1][1], pause=False)]


def _stretch(start: float, end: float, *, pause: bool) -> Stretch:
    return {"start": start, "end": end, "x": 0.0, "width": 0.0, "pause": pause}
