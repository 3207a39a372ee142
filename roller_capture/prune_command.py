"""`roller-capture prune`: takes `raw/` out of attempts, and says how much room that gave."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.filesize import decimal

from roller_capture.errors import RollerError
from roller_capture.prune import prune_attempt, raw_bytes
from roller_capture.published import find_attempts
from roller_capture.terminal import answer, progress, safe, say
from roller_capture.view.words import count

NoteHash = Callable[[Path, str], None]
"""Writes the sha256 of an attempt's new manifest into the books of its run, where it has one. Raises `RollerError`."""


def _no_books(_attempt: Path, _digest: str) -> None:
    """For attempts of which nobody keeps books."""


def prune(
    paths: Sequence[Path], *, dry_run: bool, before_swap: NoteHash = _no_books, after_swap: NoteHash = _no_books
) -> int:
    """Prunes every attempt of every path, a line each on stdout; the exit code. One that fails stops no other."""
    worst, total, pruned, failed = 0, 0, 0, 0
    attempts: list[Path] = []
    for path in paths:
        try:
            attempts += find_attempts(path)
        except RollerError as error:
            say(f"error: {error}")
            worst = max(worst, error.exit_code)
    with progress("prune", "attempts") as bar:
        for number, attempt in enumerate(attempts, 1):
            try:
                freed = raw_bytes(attempt) if dry_run else _prune(attempt, before_swap, after_swap)
            except RollerError as error:
                say(f"error: {error}")
                worst = max(worst, error.exit_code)
                failed += 1
                continue
            finally:
                bar(number, len(attempts))
            total, pruned = total + freed, pruned + bool(freed)
            answer(safe(f"{attempt}: {_words(freed, dry_run=dry_run)}"))
    if len(attempts) > 1 and failed < len(attempts):
        told = f"{pruned:,} of {count(len(attempts), 'attempt')}, {_words(total, dry_run=dry_run)}"
        say(f"{told}; failed: {failed:,}" if failed else told)
    return worst


def _prune(attempt: Path, before_swap: NoteHash, after_swap: NoteHash) -> int:
    """The bytes that were freed. The books know both manifests only as long as either may be in place."""
    pruned = prune_attempt(attempt, partial(before_swap, attempt))
    if pruned.manifest_sha256 is not None:
        after_swap(attempt, pruned.manifest_sha256)
    return pruned.freed


def _words(freed: int, *, dry_run: bool) -> str:
    if not freed:
        return "no raw/, nothing to do"
    return f"{decimal(freed)} {'would be freed' if dry_run else 'freed'}"
