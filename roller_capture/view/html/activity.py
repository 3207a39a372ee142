"""Who ran when, small enough for a line in a table of attempts: for each agent the stretches in which it called."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from roller_capture.view.html.time_scale import Stretch, place
from roller_capture.vocabulary import ExecutionStatus

STEPS: Final = 240
"""An attempt's time is cut into so many steps: a column is not wider."""

_MOST_AGENTS: Final = 8

Document = dict[str, Any]


def activity(index: Document) -> Document:
    """`lanes`: the agents that called first, each with its `colour`, its stretches (`spans`, pairs of steps, in order),
    and those of them that did not end well (`bad`). `pauses`: what is drawn narrow, as pairs of steps."""
    stretches: list[Stretch] = index["stretches"]
    lanes = []
    for agent in index["agents"]:
        calls = [index["calls"][number] for number in agent["calls"]]
        spans = _spans(stretches, calls)
        if spans:
            ended_badly = [call for call in calls if call["status"] != ExecutionStatus.COMPLETED]
            lanes.append({"colour": agent["colour"], "spans": spans, "bad": _spans(stretches, ended_badly)})
    lanes.sort(key=lambda lane: lane["spans"][0])
    pauses = [[_step(item["x"]), _step(item["x"] + item["width"])] for item in stretches if item["pause"]]
    return {"lanes": lanes[:_MOST_AGENTS], "pauses": pauses}


def _spans(stretches: Sequence[Stretch], calls: Iterable[Document]) -> list[list[int]]:
    """Stretches that touch become one."""
    steps = sorted(
        [_step(place(stretches, call["start"])), _step(place(stretches, call["start"] + (call["ms"] or 0)))]
        for call in calls
        if call["start"] is not None
    )
    merged: list[list[int]] = []
    for start, end in steps:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def _step(share: float) -> int:
    return round(share * STEPS)
