"""`roller-capture prune`: takes `raw/` out of attempts, and says how much room that gave."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.filesize import decimal

from roller_capture.errors import RollerError
from roller_capture.prune import prune_attempt, raw_bytes
from roller_capture.published import find_attempts
from roller_capture.terminal import answer, progress, safe, say

BooksOf = Callable[[Path], Callable[[str], None] | None]
"""For an attempt of a run: what notes the new manifest's hash in the run's books."""


def prune(paths: Sequence[Path], *, dry_run: bool, books_of: BooksOf = lambda _attempt: None) -> int:
    """Prunes every attempt of every path, a line each on stdout; the exit code. One that fails stops no other."""
    worst, total, pruned = 0, 0, 0
    attempts: list[Path] = []
    for path in paths:
        try:
            attempts += find_attempts(path)
        except RollerError as error:
            say(f"error: {error}")
            worst = max(worst, error.exit_code)
    with progress("prune") as bar:
        for number, attempt in enumerate(attempts, 1):
            try:
                freed = raw_bytes(attempt) if dry_run else prune_attempt(attempt, books_of(attempt)).freed
            except RollerError as error:
                say(f"error: {error}")
                worst = max(worst, error.exit_code)
                continue
            finally:
                bar(number, len(attempts))
            total, pruned = total + freed, pruned + bool(freed)
            answer(safe(f"{attempt}: {_words(freed, dry_run=dry_run)}"))
    if len(attempts) > 1:
        say(f"{pruned} of {len(attempts)} attempts, {_words(total, dry_run=dry_run)}")
    return worst


def _words(freed: int, *, dry_run: bool) -> str:
    if not freed:
        return "has no raw/, nothing to do"
    return f"{decimal(freed)} {'would be freed' if dry_run else 'freed'}"
