"""`python -m fuzz`: so many mutations of all that is read; prints what came out, and exits with 1 if anything broke."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Final

from benchmarks.report import Table, plain
from fuzz import native_logs, published, streams, working_files
from fuzz.target import Result, Target, put_through
from roller_capture.terminal import progress

TARGETS: Final[Mapping[str, Target]] = {
    "streams": streams.TARGET,
    "native-logs": native_logs.TARGET,
    "working-files": working_files.TARGET,
    "published": published.TARGET,
}
_PIECE: Final = 1000
"""Cases that a process takes at a time."""

_MOST_WORDS: Final = 8


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="of all mutations (100000)")
    parser.add_argument("--only", choices=TARGETS, action="append", help="these targets, in their own proportion")
    parser.add_argument("--seed", type=int, help="of all choices (the time)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    return parser.parse_args()


def main() -> int:
    """The exit code."""
    arguments = _arguments()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    sys.stderr.write(f"seed {seed}\n")
    started = time.monotonic()
    names = arguments.only or list(TARGETS)
    results = {name: Result() for name in names}
    pieces = list(_pieces(names, arguments.count))
    with ProcessPoolExecutor(arguments.jobs) as pool, progress("fuzz", "pieces") as bar:
        running: dict[Future[Result], str] = {
            pool.submit(_piece, name, size, seed * 1000 + number): name for number, (name, size) in enumerate(pieces)
        }
        for done, future in enumerate(as_completed(list(running)), 1):
            name = running.pop(future)
            _add(results[name], future.result())
            bar(done, len(pieces))
            if name not in running.values():
                sys.stderr.write(f"{name}: {results[name].cases} mutations, {len(results[name].broken)} broken\n")
    sys.stdout.write(plain([_table(results, f"Mutations (seed {seed}, {time.monotonic() - started:.0f} s)")]))
    broken = [f"BROKEN {name}: {text}" for name, result in results.items() for text in result.broken]
    sys.stdout.write("".join(f"{line}\n" for line in broken))
    sys.stdout.write(f"{sum(item.cases for item in results.values())} mutations, {len(broken)} invariants broken\n")
    return int(bool(broken))


def _pieces(names: list[str], count: int) -> Iterator[tuple[str, int]]:
    """The cases of each target, in pieces."""
    shares = sum(TARGETS[name].share for name in names)
    for name in names:
        left = -(-count * TARGETS[name].share // shares)
        while left > 0:
            yield name, min(left, _PIECE)
            left -= _PIECE


def _piece(name: str, count: int, number: int) -> Result:
    return put_through(TARGETS[name], count, number)


def _add(total: Result, part: Result) -> None:
    total.cases += part.cases
    total.came_out.update(part.came_out)
    total.broken += part.broken


def _table(results: Mapping[str, Result], title: str) -> Table:
    table = Table(title, ("target", "mutations", "broken", "what came out"))
    for name, result in results.items():
        words = [f"{word} {count}" for word, count in result.came_out.most_common(_MOST_WORDS)]
        table.add(TARGETS[name].name, str(result.cases), str(len(result.broken)), "; ".join(words))
    return table


if __name__ == "__main__":
    sys.exit(main())
