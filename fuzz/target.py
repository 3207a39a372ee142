"""A target: cases, and what must hold of each; and the runner that puts a target through many of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

_BATCH: Final = 500
"""Cases of one search: Hypothesis remembers all that it has tried, and slows down by it."""

_MOST_BROKEN: Final = 5


@dataclass(frozen=True, slots=True)
class Target:
    """`check` takes a case of `cases`, raises where an invariant is broken, and says in a word what came out.

    `share` is the target's part of all mutations, in percent.
    """

    name: str
    share: int
    invariants: str
    cases: SearchStrategy[Any]
    check: Callable[[Any], str]


@dataclass(slots=True)
class Result:
    """What came of a target's cases."""

    cases: int = 0
    came_out: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


def put_through(target: Target, count: int, number: int, told: Callable[[int], None] | None = None) -> Result:
    """`count` cases (at least), by a seed; a broken one is made as small as can be, and told with its case."""
    result = Result()
    batch = 0
    while result.cases < count and len(result.broken) < _MOST_BROKEN:
        size = min(_BATCH, count - result.cases)
        _search(target, size, number * 1_000_003 + batch, result)
        batch += 1
        if told is not None:
            told(result.cases)
    return result


def _search(target: Target, size: int, number: int, result: Result) -> None:
    smallest: list[Any] = []
    is_broken = False

    @seed(number)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(target.cases)
    def search(case: Any) -> None:
        nonlocal is_broken
        if not is_broken:
            result.cases += 1
        smallest[:] = [case]
        try:
            word = target.check(case)
        except Exception:
            is_broken = True
            raise
        if not is_broken:
            result.came_out[word] += 1

    try:
        search()
    except Exception as error:  # noqa: BLE001 - whatever is raised is what is looked for
        result.broken.append(f"{type(error).__name__}: {str(error)[:1500]}\n    case: {str(smallest)[:1500]}")
