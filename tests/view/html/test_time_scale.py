"""Where moments stand on the line of time: what ran keeps its room, and pauses that are long are narrow."""

import pytest

from roller_capture.view.html.time_scale import Stretch, place, time_scale


def pauses(stretches: list[Stretch]) -> list[tuple[float, float]]:
    return [(item["start"], item["end"]) for item in stretches if item["pause"]]


def test_without_a_long_pause_the_line_is_the_time_itself() -> None:
    stretches = time_scale([(0, 100), (150, 100), (120, 40)])
    assert len(stretches) == 1
    assert [place(stretches, moment) for moment in (0, 50, 125, 250)] == [0, 0.2, 0.5, 1]


def test_a_pause_that_is_longer_than_all_that_ran_is_narrow() -> None:
    """Two calls of 100 and 300 ms; the ten minutes between them take 2 % of the line."""
    stretches = time_scale([(0, 100), (600_100, 300)])
    assert pauses(stretches) == [(100, 600_100)]
    assert place(stretches, 100) == pytest.approx(0.98 / 4)
    assert place(stretches, 600_100) == pytest.approx(0.98 / 4 + 0.02)
    assert place(stretches, 600_400) == pytest.approx(1)


def test_many_pauses_leave_room_for_what_ran() -> None:
    stretches = time_scale((second * 1e6, 10) for second in range(100))
    assert len(pauses(stretches)) == 99
    assert sum(item["width"] for item in stretches if item["pause"]) == pytest.approx(0.4)
    assert stretches[-1]["x"] + stretches[-1]["width"] == pytest.approx(1)


def test_calls_in_any_order_and_of_no_duration() -> None:
    """A call that took no time stands for a millisecond, so that there is a line at all."""
    assert [(item["start"], item["end"]) for item in time_scale([(5, 0)])] == [(5, 6)]
    assert time_scale([(600_100, 300), (0, 100)]) == time_scale([(0, 100), (600_100, 300)])
    assert time_scale([]) == []


def test_moments_outside_of_the_line_stand_at_its_ends() -> None:
    stretches = time_scale([(10, 10)])
    assert [place(stretches, moment) for moment in (0, 100)] == [0, 1]
