import pytest

from benchmarks.figures import Floor, differences, percentile, ratios, slope, spread


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 6), (0.99, 10), (1.0, 10)])
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    """Nearest rank, whatever the order of the values."""
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == expected


def test_percentile_of_nothing_is_refused() -> None:
    """No figure is made up."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_ratios_and_differences_are_taken_within_each_repetition() -> None:
    """A repetition in which everything took ten times as long changes no ratio."""
    assert ratios([1, 10], [2, 20]) == (0.5, 0.5, 0.5)
    assert differences([3, 30], [2, 20]) == (5.5, 1, 10)


def test_spread_is_shown_only_where_there_is_one() -> None:
    """Median first, then lowest and highest."""
    assert spread([3, 1, 2]).text() == "2.0 (1.0 to 3.0)"
    assert spread([2]).text(2, "+") == "+2.00"


@pytest.mark.parametrize(("values", "expected"), [([], 0), ([7], 0), ([5, 5, 5], 0), ([1, 3, 5, 7], 2)])
def test_slope_is_the_growth_per_step(values: list[float], expected: float) -> None:
    """Least squares; too few values grow by nothing."""
    assert slope(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("floor", "value", "verdict"),
    [
        (Floor(0.5, at_least=True), 0.5, "≥ 0.5: met"),
        (Floor(0.5, at_least=True), 0.49, "≥ 0.5: **MISSED**"),
        (Floor(1, at_least=False, unit=" ms"), 1.0, "≤ 1 ms: met"),
        (Floor(1, at_least=False, unit=" ms"), 1.01, "≤ 1 ms: **MISSED**"),
    ],
)
def test_a_floor_says_whether_it_is_kept(floor: Floor, value: float, verdict: str) -> None:
    """The bound itself still keeps it."""
    assert floor.verdict(value) == verdict
