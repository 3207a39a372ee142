"""Which attempt of a sample counts: the newest one that the run's books know, whatever came of it."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, read_sample
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.stored import DamagedError


def superseded(attempts: Sequence[Path], *, strict: bool = False) -> frozenset[Path]:
    """Those of the attempts that were made again: a newer one of their sample is among them, too.

    An attempt outside of a run has no books, and one that they do not know is nobody's predecessor. Damaged books
    choose none: whoever validates the attempts of such a sample refuses them all (`outside_books.books_findings`); for
    others there is `strict`, which raises `DamagedError`.
    """
    by_sample = groupby(sorted(attempts), key=lambda attempt: attempt.parent)
    return frozenset(path for folder, found in by_sample for path in _older(folder, list(found), strict=strict))


def _older(folder: Path, attempts: Sequence[Path], *, strict: bool) -> Iterator[Path]:
    if len(attempts) < 2 or folder.name != CAPTURE or not (folder.parent / SAMPLE_FILE).exists():
        return
    try:
        known = [entry.name for entry in read_sample(folder.parent, RunMode.CAPTURED).attempts]
    except DamagedError:
        if strict:
            raise
        return
    ordered = sorted((path for path in attempts if path.name in known), key=lambda path: known.index(path.name))
    yield from ordered[:-1]
