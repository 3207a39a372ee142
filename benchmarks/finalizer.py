"""`finalize` against the unavoidable work on the same working folder."""

import shutil
from pathlib import Path
from typing import Final

from benchmarks.cost import Cost, measure, processor_seconds, seconds
from benchmarks.figures import Floor, ratios, spread
from benchmarks.options import Options
from benchmarks.report import Table
from benchmarks.sessions import Shape, clone, record_session

_SPEED: Final = Floor(0.5, at_least=True)
_A_CALL: Final = Floor(1.0, at_least=False, unit=" ms")
_MEGABYTE: Final = 1e6


def growing(options: Options) -> Shape:
    """A long session as harnesses make them: every request repeats the conversation so far."""
    return Shape(options.calls(160), 57_000, 700_000, answer=600, children=2, child_calls=options.calls(160) // 20)


def small(options: Options) -> Shape:
    """Very many calls with next to nothing in them: what a call costs, whatever its size."""
    calls = options.calls(10_000)
    return Shape(calls, 2_000, 2_000, answer=200, children=calls // 100, child_calls=4)


def run(options: Options) -> list[Table]:
    """Both sessions."""
    table = Table(
        "Finalizer",
        (
            "session",
            "finalize MB/s",
            "unavoidable MB/s",
            "speed (wall)",
            "speed (processor)",
            "floor (wall)",
            "ms per call",
            "floor",
            "peak memory over start",
            "in largest calls",
            "kB a call",
        ),
        "Speed is in units of the unavoidable work's. Memory: highest resident size less that before the work, divided "
        "by the bytes of the largest call, and by the calls. The floor in ms is for small calls.",
    )
    for name, shape in (("growing", growing(options)), ("small calls", small(options))):
        _session(table, name, shape, options)
    return [table]


def _session(table: Table, name: str, shape: Shape, options: Options) -> None:
    original = options.directory / "session"
    record_session(original, shape)
    size, largest = _sizes(original / "work")
    ours: list[Cost] = []
    bound: list[Cost] = []
    for _ in range(options.repetitions):
        copy = options.directory / "copy"
        clone(original, copy)
        ours.append(measure("finalize", copy))
        bound.append(measure("unavoidable", original, options.directory / "written"))
        shutil.rmtree(copy)
    shutil.rmtree(original)
    speed = ratios(seconds(bound), seconds(ours))
    each = spread([1000 * cost.seconds / shape.calls for cost in ours])
    memory = spread([(cost.peak_memory - cost.memory_before) / _MEGABYTE for cost in ours])
    table.add(
        f"{name}: {shape.calls} calls, {size / _MEGABYTE:.0f} MB",
        spread([size / _MEGABYTE / cost.seconds for cost in ours]).text(0),
        spread([size / _MEGABYTE / cost.seconds for cost in bound]).text(0),
        speed.text(2),
        ratios(processor_seconds(bound), processor_seconds(ours)).text(2),
        _SPEED.verdict(speed.median),
        each.text(2),
        _A_CALL.verdict(each.median) if shape.first_body == shape.last_body else "-",
        f"{memory.text(1)} MB",
        f"{memory.median * _MEGABYTE / largest:.1f}",
        f"{memory.median * 1000 / shape.calls:.1f}",
    )


def _sizes(work: Path) -> tuple[int, int]:
    """Bytes of the folder, and of the bodies of its largest call."""
    calls: dict[str, int] = {}
    total = 0
    for path in work.rglob("*"):
        if path.is_file():
            length = path.stat().st_size
            total += length
            if path.parent.name == "bodies":
                calls[path.stem] = calls.get(path.stem, 0) + length
    return total, max(calls.values())
