"""What a person sees: one-line messages without raw control characters, and progress on long work."""

import contextlib
import io
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from roller_capture.errors import RollerError
from roller_capture.paths import named

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SHOW_PROGRESS_FROM: Final = 20


def safe(text: str) -> str:
    """The text on one line, with control, format and surrogate characters escaped: data never drives the terminal."""
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in _HIDDEN else char
        for char in text
    )


def say(text: str) -> None:
    """One line on stderr, where everything goes that is not machine-readable output.

    A stderr that is closed, full or a broken pipe changes nothing else: the work goes on without words.
    """
    stream = sys.stderr
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    with contextlib.suppress(OSError, ValueError):
        stream.write(safe(named(text)).encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


def answer(text: str) -> None:
    """One line of the command's output on stdout. Raises `RollerError` when it cannot be written."""
    try:
        if sys.stdout is None:
            raise OSError("it is closed")
        sys.stdout.write(named(text, in_json=True) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise RollerError(f"the output could not be written: {getattr(error, 'strerror', None) or error}") from None


def print_table(table: Table, *, compact: bool = False) -> None:
    """A table on stdout: as wide as the terminal, or in a pipe as wide as it wants to be, without lines. `compact`
    leaves one space between columns, where there are many."""
    wide = sys.stdout is None or not sys.stdout.isatty()
    table.box = box.SIMPLE_HEAD if not wide else None
    if compact:  # the box has a space of its own
        table.padding, table.pad_edge = (0, int(wide), 0, 0), False
    console = Console(file=io.StringIO(), width=10_000 if wide else None, highlight=False)
    console.print(table)
    text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    answer("\n".join(line.rstrip() for line in text.rstrip("\n").split("\n")))


@contextlib.contextmanager
def progress(title: str, unit: str = "calls") -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere a plain line now and then. Call it with (done, total), counted in `unit`."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _PlainProgress(title, unit)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(named(title)).replace("[", r"\["), total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update


class _PlainProgress:
    """A line at each tenth of long work."""

    def __init__(self, title: str, unit: str) -> None:
        self._title = title
        self._unit = unit
        self._said = 0

    def __call__(self, done: int, total: int) -> None:
        tenth = done * 10 // total
        if total >= _SHOW_PROGRESS_FROM * 10 and tenth > self._said and done < total:
            self._said = tenth
            say(f"{self._title}: {done} of {total} {self._unit}")
