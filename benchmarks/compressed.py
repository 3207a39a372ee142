"""`finalize --compress`: what it gains on grown sessions, and what writing and reading then cost."""

import shutil
from pathlib import Path

from benchmarks.cost import Cost, measure, seconds
from benchmarks.figures import spread
from benchmarks.options import Options
from benchmarks.report import Table
from benchmarks.sessions import Shape, clone, record_session


def grown(options: Options) -> Shape:
    """A session whose requests grow from 57 to 700 kB, with four subagents."""
    return Shape(
        options.calls(160), 57_000, 700_000, answer=400, children=4 if options.scale == 1 else 0, child_calls=5
    )


def run(options: Options) -> list[Table]:
    """Sizes, and times side by side with those of the plain file."""
    sizes = Table(
        "Compressed calls: size",
        ("session", "calls.jsonl MB", "calls.jsonl.zst MB", "gain"),
        "Tool results are parts of Python's own sources, each another one: a made-up text repeats itself too much.",
    )
    times = Table(
        "Compressed calls: time",
        ("form", "finalize s", "validate s", "validate --deep s", "view s", "all contexts s", "one context alone ms"),
        "All contexts: each asked for in turn, through the Python API. One alone: the file is opened for it anew.",
    )
    shape = grown(options)
    recorded = options.directory / "to-compress"
    record_session(recorded, shape, sources=True)
    plain, packed = (options.directory / name for name in ("plain-calls", "packed-calls"))
    rounds: list[tuple[list[Cost], list[Cost]]] = []
    for _ in range(options.repetitions):
        for place in (plain, packed):
            shutil.rmtree(place, ignore_errors=True)
            clone(recorded, place)
        rounds.append((_costs(plain, "finalize"), _costs(packed, "finalize_compressed")))
    large, little = ((plain / "calls.jsonl").stat().st_size, (packed / "calls.jsonl.zst").stat().st_size)
    name = f"{shape.calls} calls, {shape.first_body // 1000} to {shape.last_body // 1000} kB"
    sizes.add(name, f"{large / 1e6:.1f}", f"{little / 1e6:.2f}", f"{large / little:.0f} x")
    for form, costs in zip(("plain", "compressed"), zip(*rounds, strict=True), strict=True):
        *whole, alone = zip(*costs, strict=True)
        each = [1000 * cost.seconds / shape.calls for cost in alone]
        times.add(form, *(spread(seconds(column)).text(3) for column in whole), spread(each).text(2))
    return [sizes, times]


def _costs(attempt: Path, finalize: str) -> list[Cost]:
    tasks = (finalize, "validate", "validate_deep", "view_attempt", "read_contexts", "read_each_alone")
    return [measure(task, attempt) for task in tasks]
