"""The small picture of an attempt in the table of a run."""

from typing import Any

from roller_capture.view.html.activity import STEPS, activity


def index(*agents: list[tuple[float | None, float | None]]) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    described = []
    for colour, spans in enumerate(agents):
        places = range(len(calls), len(calls) + len(spans))
        calls += [{"start": start, "ms": ms} for start, ms in spans]
        described.append({"colour": colour, "calls": list(places)})
    return {"agents": described, "calls": calls}


def test_each_agent_has_its_stretches_in_steps_of_the_whole() -> None:
    root, child = [(0.0, 100.0), (900.0, 100.0)], [(250.0, 250.0), (400.0, 200.0)]
    assert activity(index(root, child)) == [
        {"colour": 0, "spans": [[0, 24], [216, STEPS]]},
        {"colour": 1, "spans": [[60, 144]]},
    ]


def test_those_that_called_first_are_shown() -> None:
    lanes = activity(index(*([(float(100 - place), 1.0)] for place in range(20))))
    assert [lane["colour"] for lane in lanes] == [19, 18, 17, 16, 15, 14, 13, 12]


def test_calls_without_times_leave_no_trace() -> None:
    assert activity(index([(None, 5.0)], [(0.0, None)], [])) == [{"colour": 1, "spans": [[0, 0]]}]
    assert activity(index()) == []
