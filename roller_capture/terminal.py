"""What a person sees: one-line messages without raw control characters, and progress on long work."""

import contextlib
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
    """One line on stderr, where everything goes that is not machine-readable output."""
    stream = sys.stderr
    line = safe(text)
    stream.write(line.encode(stream.encoding or "utf-8", "backslashreplace").decode(stream.encoding or "utf-8") + "\n")
    stream.flush()


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere a plain line now and then. Call it with (done, total)."""
    if not sys.stderr.isatty():
        yield _PlainProgress(title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(title).replace("[", r"\["), total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update


class _PlainProgress:
    """A line at each tenth of long work."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._said = 0

    def __call__(self, done: int, total: int) -> None:
        tenth = done * 10 // total
        if total >= _SHOW_PROGRESS_FROM * 10 and tenth > self._said and done < total:
            self._said = tenth
            say(f"{self._title}: {done} of {total} calls")
