"""The small picture of an attempt in the table of a run."""

from collections.abc import Sequence
from typing import Any

from roller_capture.view.html.activity import STEPS, activity
from roller_capture.view.html.time_scale import time_scale

Span = tuple[float | None, float | None]


def index(*agents: Sequence[Span], failed: float | None = None) -> dict[str, Any]:
    """Agents by their calls' begins and durations; the call that began at `failed` did not end well."""
    calls: list[dict[str, Any]] = []
    described = []
    for colour, spans in enumerate(agents):
        places = range(len(calls), len(calls) + len(spans))
        for start, ms in spans:
            calls.append({"start": start, "ms": ms, "status": "failed" if start == failed else "completed"})
        described.append({"colour": colour, "calls": list(places)})
    begun = [(call["start"], call["ms"] or 0) for call in calls if call["start"] is not None]
    return {"agents": described, "calls": calls, "stretches": time_scale(begun)}


def test_each_agent_has_its_stretches_in_steps_of_the_whole() -> None:
    root, child = [(0.0, 100.0), (900.0, 100.0)], [(250.0, 250.0), (400.0, 200.0)]
    assert activity(index(root, child)) == {
        "lanes": [
            {"colour": 0, "spans": [[0, 24], [216, STEPS]], "bad": []},
            {"colour": 1, "spans": [[60, 144]], "bad": []},
        ],
        "pauses": [],
    }


def test_what_did_not_end_well_is_marked() -> None:
    root, child = [(0.0, 100.0), (900.0, 100.0)], [(100.0, 200.0), (400.0, 200.0)]
    lanes = activity(index(root, child, failed=400.0))["lanes"]
    assert [lane["bad"] for lane in lanes] == [[], [[96, 144]]]


def test_a_long_pause_is_narrow() -> None:
    picture = activity(index([(0.0, 100.0), (60_000.0, 100.0)]))
    assert picture["pauses"] == [[118, 122]]
    assert picture["lanes"] == [{"colour": 0, "spans": [[0, 118], [122, STEPS]], "bad": []}]


def test_those_that_called_first_are_shown() -> None:
    lanes = activity(index(*([(float(100 - place), 1.0)] for place in range(20))))["lanes"]
    assert [lane["colour"] for lane in lanes] == [19, 18, 17, 16, 15, 14, 13, 12]


def test_calls_without_times_leave_no_trace() -> None:
    lanes = activity(index([(None, 5.0)], [(0.0, None)], []))["lanes"]
    assert lanes == [{"colour": 1, "spans": [[0, 0]], "bad": []}]
    assert activity(index()) == {"lanes": [], "pauses": []}
