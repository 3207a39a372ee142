"""Figures of repeated measurements: medians, their spread, and how two things compare within one repetition."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by nearest rank. Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class Spread(NamedTuple):
    """A figure over several repetitions."""

    median: float
    lowest: float
    highest: float

    def text(self, digits: int = 1, sign: str = "") -> str:
        """`median (lowest to highest)`; just the figure when it was measured once or never differed."""
        low, middle, high = (f"{value:{sign}.{digits}f}" for value in (self.lowest, self.median, self.highest))
        return middle if low == high else f"{middle} ({low} to {high})"


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest and highest of the repetitions."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The ratio within each repetition, so that what slows a whole repetition down cancels out."""
    return spread([one / other for one, other in zip(numerators, denominators, strict=True)])


def differences(minuends: Sequence[float], subtrahends: Sequence[float]) -> Spread:
    """The difference within each repetition."""
    return spread([one - other for one, other in zip(minuends, subtrahends, strict=True)])


def slope(values: Sequence[float]) -> float:
    """Least-squares growth of a series per step; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    return statistics.linear_regression(range(len(values)), values).slope


@dataclass(frozen=True, slots=True)
class Floor:
    """A bound that a median must keep."""

    bound: float
    at_least: bool
    unit: str = ""

    def met(self, value: float) -> bool:
        """Is the bound kept?"""
        return value >= self.bound if self.at_least else value <= self.bound

    def verdict(self, value: float) -> str:
        """The bound and whether it is kept, for a table."""
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:g}{self.unit}: {'met' if self.met(value) else '**MISSED**'}"
