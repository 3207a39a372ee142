"""`view` and `validate` on published attempts: large contexts, and very many small calls."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.cost import Cost, measure, seconds
from benchmarks.figures import Floor, ratios, spread
from benchmarks.finalizer import small
from benchmarks.options import Options
from benchmarks.report import Table
from benchmarks.sessions import Shape, record_session

_VIEW: Final = Floor(2.0, at_least=False, unit="x")


class _Attempt(NamedTuple):
    name: str
    path: Path
    calls: int
    large: bool


def large(options: Options) -> Shape:
    """A long session with a context of 1 MB in every call."""
    return Shape(options.calls(500), 1_000_000, 1_000_000, answer=1000, children=2, child_calls=2)


def run_view(options: Options) -> list[Table]:
    """How long until an attempt is shown."""
    table = Table(
        "View",
        (
            "attempt",
            "view s",
            "reading line heads s",
            "passing over contexts s",
            "view / line heads",
            "floor",
            "view / passing over",
        ),
        "Reading line heads: every line is read, and what stands before `context` parsed. Passing over contexts: the "
        "reader that `view` itself uses. The floor speaks of large contexts.",
    )
    for attempt in _attempts(options):
        view, heads, skipped = _measure(attempt, ("view_attempt", "read_heads", "skip_to_heads"), options)
        factor = ratios(seconds(view), seconds(heads))
        table.add(
            attempt.name,
            *(spread(seconds(costs)).text(3) for costs in (view, heads, skipped)),
            factor.text(2),
            _VIEW.verdict(factor.median) if attempt.large else "-",
            ratios(seconds(view), seconds(skipped)).text(2),
        )
    return [table]


def run_validate(options: Options) -> list[Table]:
    """How long the check takes."""
    table = Table(
        "Validate",
        ("attempt", "validate s", "sha256 of the files s", "validate / sha256", "ms per call", "validate --deep s"),
        "No floor is set: every published byte must be hashed, so the ratio says what is done beyond that.",
    )
    for attempt in _attempts(options):
        checked, hashed, deep = _measure(attempt, ("validate", "hash_files", "validate_deep"), options)
        table.add(
            attempt.name,
            spread(seconds(checked)).text(3),
            spread(seconds(hashed)).text(3),
            ratios(seconds(checked), seconds(hashed)).text(2),
            spread([1000 * cost.seconds / attempt.calls for cost in checked]).text(2),
            spread(seconds(deep)).text(2),
        )
    return [table]


def _attempts(options: Options) -> Iterator[_Attempt]:
    """The two attempts; made once and kept in the run's folder, since both sections use them."""
    for name, shape, is_large in (("contexts of 1 MB", large(options), True), ("small calls", small(options), False)):
        path = options.directory / f"published-{shape.first_body}"
        if not path.exists():
            record_session(path, shape)
            measure("finalize", path)
        size = sum(file.stat().st_size for file in path.iterdir())
        yield _Attempt(f"{name}: {shape.calls} calls, {size / 1e6:.0f} MB", path, shape.calls, is_large)


def _measure(attempt: _Attempt, tasks: tuple[str, ...], options: Options) -> list[list[Cost]]:
    """The costs of each task, in turn."""
    rounds = [[measure(task, attempt.path) for task in tasks] for _ in range(options.repetitions)]
    return [list(costs) for costs in zip(*rounds, strict=True)]
