"""Runs of very many small attempts: how they are made, and what `finalize` and `validate` cost for them.

`python -m benchmarks.many DIRECTORY COUNT` makes one to try things on.
"""

import contextlib
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.cost import Cost, measure, seconds
from benchmarks.figures import spread
from benchmarks.options import Options
from benchmarks.report import Table
from benchmarks.sessions import HARNESS, Shape, clone, record_session
from roller_capture.runs.books import SampleState, create_sample
from roller_capture.runs.configuration import RunConfiguration, RunMode
from roller_capture.runs.directory import new_run
from roller_capture.runs.samples_file import SampleSpec

_SMALL: Final = Shape(calls=6, first_body=4_000, last_body=12_000, answer=200, children=1, child_calls=2)
_CONFIGURATION: Final = RunConfiguration(
    harness=HARNESS,
    harness_version="2.1.332",
    protocol="anthropic-messages",
    model=None,
    api_base="https://model.example",
    mode=RunMode.CAPTURED,
    profile=None,
    network="host",
    wire_trace=True,
    capture_debug="on-error",
    key_via="proxy",
    timeout=60,
    drain_timeout=30,
    harness_args=(),
)


def make_run(directory: Path, count: int) -> None:
    """A run directory of `count` samples, each with one recorded attempt of six calls that is not yet published.

    All have the same bodies, as second names of one template's, and each an id of its own.
    """
    with contextlib.ExitStack() as held, new_run(directory, _CONFIGURATION, held):
        pass
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".template-") as folder:
        template = Path(folder) / "attempt"
        record_session(template, _SMALL)
        for number in range(1, count + 1):
            sample = create_sample(directory, SampleSpec(f"sample-{number:05}", ("Do the task.",)), RunMode.CAPTURED)
            entry, place = sample.begin_attempt()
            clone(template, place)
            _give_own_id(place / "work" / "attempt.json")
            sample.end_attempt(entry, SampleState.COMPLETED)


def _give_own_id(path: Path) -> None:
    info: dict[str, Any] = orjson.loads(path.read_bytes())
    path.unlink()  # it is the template's too
    path.write_bytes(orjson.dumps({**info, "capture_id": f"cap_{secrets.token_hex(10)}"}))


def run(options: Options) -> list[Table]:
    """Time and memory by the number of attempts and of processes."""
    table = Table(
        "Many attempts",
        ("command", "attempts", "processes", "seconds", "attempts/s", "peak memory MB"),
        "Small attempts of six calls. Memory is that of the command itself; its processes have about as much each.",
    )
    for count in (options.calls(250), options.calls(1000)):
        for jobs in (1, 2):
            costs = [_costs(options.directory / "many", count, jobs) for _ in range(options.repetitions)]
            for command, each in zip(("finalize", "validate"), zip(*costs, strict=True), strict=True):
                time = spread(seconds(each))
                table.add(
                    command,
                    f"{count:,}",
                    str(jobs),
                    time.text(1),
                    f"{count / time.median:.0f}",
                    spread([cost.peak_memory / 1e6 for cost in each]).text(0),
                )
    return [table]


def _costs(directory: Path, count: int, jobs: int) -> tuple[Cost, Cost]:
    make_run(directory, count)
    try:
        return measure(f"finalize_run_{jobs}", directory), measure(f"validate_run_{jobs}", directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    make_run(Path(sys.argv[1]), int(sys.argv[2]))
