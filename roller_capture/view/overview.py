"""Several attempts, a line each."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.published import UnreadableError, find_attempts
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, read_sample
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.newest import superseded
from roller_capture.view.attempt import Attempt, finding_lines, load_attempt
from roller_capture.view.lines import BAD, FAINT, PLAIN, STRONG, Piece, joined, status_style
from roller_capture.view.provider_words import total
from roller_capture.view.words import amount, count, cut, duration

HEADER: Final = ("attempt", "harness", "execution", "capture", "exportable", "agents", "tokens", "time", "remarks")
SUPERSEDED: Final = "superseded"
"""An attempt whose sample was made again."""

_ADVICE: Final = (": run ", ": restore ", ": give ", ": wait ")
"""Where the advice of an error begins: it stands on stderr."""


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt of a folder: what it says, or why it cannot be shown."""

    path: Path
    document: dict[str, Any]
    problems: tuple[str, ...]


def summarise(path: Path, older: Collection[Path] = ()) -> Row:
    """Reads one attempt and keeps its totals; an unusable attempt is a row too. `older` are those made again."""
    try:
        attempt = load_attempt(path)
    except RollerError as error:
        return unusable(path, error)
    return Row(path, summary_document(attempt, is_superseded=path in older), tuple(finding_lines(attempt)))


def unusable(path: Path, error: RollerError) -> Row:
    """The row of what cannot be shown."""
    return Row(path, {"path": named(path), "error": named(str(error))}, (str(error),))


def find_shown(path: Path, unfetched: Sequence[UnreadableError]) -> tuple[list[Path], list[UnreadableError]]:
    """The attempts of `path` that are to be shown, and what is told of instead: those `unfetched`, when it is the copy
    of a place elsewhere, and the folders that cannot be looked into. Raises `RollerError` like `find_attempts`."""
    unreadable = list(unfetched)
    try:
        return find_attempts(path, unreadable), unreadable
    except OSError as error:  # no permission, a name that is too long
        raise RollerError(f"{path}: cannot be opened ({error.strerror}): check the path", exit_code=2) from None
    except RollerError:
        if unfetched:  # all of them
            return [], unreadable
        raise


def find_superseded(attempts: Sequence[Path]) -> tuple[frozenset[Path], list[RollerError]]:
    """The attempts of a run whose samples were made again, and the books that would have to tell that and cannot be
    read: of such a sample no attempt is among the first."""
    return superseded(attempts), list(_book_problems(attempts))


def _book_problems(attempts: Sequence[Path]) -> Iterator[RollerError]:
    for folder, times in Counter(attempt.parent for attempt in attempts).items():
        if times < 2 or folder.name != CAPTURE or not (folder.parent / SAMPLE_FILE).exists():
            continue
        try:
            read_sample(folder.parent, RunMode.CAPTURED)
        except RollerError as error:
            yield RollerError(f"{error}: so it is not known which attempt of the sample counts: restore it from a copy")


def summary_document(attempt: Attempt, *, is_superseded: bool = False) -> dict[str, Any]:
    """The totals of an attempt, as `--json` has them for a folder."""
    manifest = attempt.manifest
    tokens = total(call.tokens for call in attempt.calls).tokens
    return {
        "path": named(attempt.path),
        "capture_id": manifest["capture_id"],
        "harness": manifest["harness"],
        "execution_status": manifest["execution_status"],
        "capture_status": manifest["capture_status"],
        "superseded": is_superseded,
        "why_not_completed": None if attempt.end is None else attempt.end.brief,
        "calls": len(attempt.calls),
        "exportable_calls": sum(call.exportable for call in attempt.calls),
        "participants": len(manifest["participants"]),
        "tokens": {
            "input": tokens.input,
            "output": tokens.output,
            "cache_read": tokens.cache_read,
            "cache_creation": tokens.cache_creation,
        },
        "wall_seconds": attempt.wall_seconds(),
        "status_reasons": manifest["status_reasons"],
        "findings": [{"file": name, "message": message} for name, message in attempt.findings],
    }


def table_rows(rows: Sequence[Row], below: Path) -> list[list[Piece]]:
    """The cells of `HEADER`; paths are shown below the folder that was asked for."""
    return [_cells(row, below) for row in rows]


def _cells(row: Row, below: Path) -> list[Piece]:
    name = Piece(str(row.path.relative_to(below)), STRONG)
    document = row.document
    if "error" in document:
        text = document["error"].removeprefix(f"{named(row.path)}: ")
        for advice in _ADVICE:
            text = text.partition(advice)[0]
        return [name, *([Piece("")] * (len(HEADER) - 2)), Piece(text, BAD)]
    reasons = [f"{reason['code']} {reason['count']:,}" for reason in document["status_reasons"]]
    damaged = ["damaged"] if document["findings"] else []
    older = [SUPERSEDED] if document["superseded"] else []
    harness = document["harness"]
    seconds, tokens = document["wall_seconds"], document["tokens"]
    return [
        name,
        Piece(f"{cut(harness['name'])} {cut(harness['version'] or '')}".strip()),
        Piece(document["execution_status"], status_style(document["execution_status"])),
        Piece(document["capture_status"], status_style(document["capture_status"])),
        Piece(f"{document['exportable_calls']:,} of {count(document['calls'], 'call')}"),
        Piece(f"{document['participants']:,}"),
        Piece(joined([amount(tokens["input"], "in"), amount(tokens["output"], "out")]) or "-"),
        Piece(duration(None if seconds is None else seconds * 1000), FAINT),
        Piece(
            joined([*older, *damaged, document["why_not_completed"] or "", ", ".join(reasons)], "; "),
            BAD if damaged else FAINT if older else PLAIN,
        ),
    ]
