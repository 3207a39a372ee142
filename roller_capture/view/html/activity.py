"""Who ran when, small enough for a line in a table of attempts: for each agent the stretches in which it called."""

from collections.abc import Sequence
from typing import Any, Final

STEPS: Final = 240
"""An attempt's time is cut into so many steps: a column is not wider."""

_MOST_AGENTS: Final = 8

Document = dict[str, Any]


def activity(index: Document) -> list[Document]:
    """The agents that called first, each with its colour and its stretches as pairs of steps, in order."""
    calls = index["calls"]
    ends = [call["start"] + (call["ms"] or 0) for call in calls if call["start"] is not None]
    whole = max(ends, default=0) or 1
    lanes = []
    for agent in index["agents"]:
        spans = [calls[place] for place in agent["calls"] if calls[place]["start"] is not None]
        steps = [(_step(call["start"], whole), _step(call["start"] + (call["ms"] or 0), whole)) for call in spans]
        if steps:
            lanes.append({"colour": agent["colour"], "spans": _merged(sorted(steps))})
    lanes.sort(key=lambda lane: lane["spans"][0])
    return lanes[:_MOST_AGENTS]


def _step(milliseconds: float, whole: float) -> int:
    return min(STEPS, max(0, round(milliseconds / whole * STEPS)))


def _merged(steps: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Stretches that touch become one."""
    merged: list[list[int]] = []
    for start, end in steps:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged
