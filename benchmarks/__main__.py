"""`python -m benchmarks`: measures, prints tables, and says which floors are missed."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks import compressed, finalizer, machine, many, proxy, published, report
from benchmarks.options import Options

SECTIONS: Final[Mapping[str, Callable[[Options], list[report.Table]]]] = {
    "proxy": proxy.run,
    "finalizer": finalizer.run,
    "view": published.run_view,
    "validate": published.run_validate,
    "compressed": compressed.run,
    "many": many.run,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="measure this; may be given several times")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run? Its figures judge nothing")
    parser.add_argument("--repetitions", type=int, help="of every measurement (4, with --quick 2)")
    parser.add_argument(
        "--directory", type=Path, help="where to work; the disk matters (the system's temporary folder)"
    )
    parser.add_argument("--markdown", type=Path, help="also write the tables here, between the marks of a document")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a floor is missed")
    return parser.parse_args()


def main() -> int:
    """The exit code."""
    arguments = _arguments()
    repetitions = arguments.repetitions or (2 if arguments.quick else 4)
    tables: list[report.Table] = []
    with tempfile.TemporaryDirectory(prefix="roller-bench-", dir=arguments.directory) as directory:
        options = Options(Path(directory), repetitions, scale=20 if arguments.quick else 1)
        about = machine.describe(options.directory)
        about += f" Medians of {repetitions} repetitions, lowest and highest in brackets."
        if arguments.quick:
            about += " A quick run: its figures judge nothing."
        sys.stdout.write(f"{about}\n\n")
        for name in arguments.only or SECTIONS:
            started = time.monotonic()
            found = SECTIONS[name](options)
            tables += found
            sys.stdout.write(report.plain(found) + "\n")
            sys.stdout.flush()
            sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")
    if arguments.markdown is not None:
        report.write_markdown(arguments.markdown, report.markdown(tables, about))
    missed = sum(table.missed for table in tables)
    sys.stdout.write(f"{missed} floors missed\n" if missed else "every floor met\n")
    return int(bool(missed) and arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
