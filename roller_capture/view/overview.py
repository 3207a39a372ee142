"""Several attempts, a line each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture.errors import RollerError
from roller_capture.view.attempt import Attempt, finding_lines, load_attempt
from roller_capture.view.lines import BAD, FAINT, PLAIN, STRONG, Piece, joined, status_style
from roller_capture.view.provider_words import total
from roller_capture.view.words import amount, count, cut, duration

HEADER: Final = ("attempt", "harness", "execution", "capture", "exportable", "agents", "tokens", "time", "missing")


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt of a folder: what it says, or why it cannot be shown."""

    path: Path
    document: dict[str, Any]
    problems: tuple[str, ...]


def summarise(path: Path) -> Row:
    """Reads one attempt and keeps its totals; an unusable attempt is a row too."""
    try:
        attempt = load_attempt(path)
    except RollerError as error:
        return Row(path, {"path": str(path), "error": str(error)}, (str(error),))
    return Row(path, summary_document(attempt), tuple(finding_lines(attempt)))


def summary_document(attempt: Attempt) -> dict[str, Any]:
    """The totals of an attempt, as `--json` has them for a folder."""
    manifest = attempt.manifest
    tokens = total(call.tokens for call in attempt.calls).tokens
    return {
        "path": str(attempt.path),
        "capture_id": manifest["capture_id"],
        "harness": manifest["harness"],
        "execution_status": manifest["execution_status"],
        "capture_status": manifest["capture_status"],
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
        text = document["error"].removeprefix(f"{row.path}: ").partition(": run ")[0]
        return [name, *([Piece("")] * (len(HEADER) - 2)), Piece(text, BAD)]
    reasons = [f"{reason['code']} {reason['count']:,}" for reason in document["status_reasons"]]
    damaged = ["damaged"] if document["findings"] else []
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
        Piece(joined([*damaged, *reasons]), BAD if damaged else PLAIN),
    ]
