"""`roller-capture export main`: a row for each segment of each attempt's main trajectory, or why there is none."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.api import Attempt
from roller_capture.errors import RollerError
from roller_capture.export.main.card import sft_card
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.main.sft import SFT_COLUMNS, sft_row
from roller_capture.export.main.trajectory import Row, trajectory_rows
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import Format, MainExport, MainForm
from roller_capture.export.row_writers import RowWriter, writer_for
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import answer, progress, say
from roller_capture.view.words import count

_MOST_NAMED: Final = 5


@dataclass(slots=True)
class _Tally:
    """What was exported, and which attempts have no main trajectory."""

    rows: int = 0
    cut: int = 0
    notifications: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    without: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, source: Source, error: NoTrajectoryError) -> None:
        """An attempt without one: it is counted and, a few of each kind, named."""
        self.without[error.reason] += 1
        names = self.named.setdefault(error.reason, [])
        if len(names) < _MOST_NAMED:
            names.append(f"{source.path}{f': {error.call_id}' if error.call_id else ''}")

    def lines(self) -> list[str]:
        """For people."""
        rows = count(self.rows, "main trajectory", "main trajectories")
        lines = [
            f"exported {rows}, of {count(self.attempts.read, 'attempt')} read",
            f"  segments between compactions: {self.cut:,}; notifications that are marked: {self.notifications:,}",
            f"without a main trajectory: {count(sum(self.without.values()), 'attempt')}",
        ]
        for reason, number in self.without.most_common():
            lines += [f"  {number:>7,}  {reason}", *(f"           {name}" for name in self.named[reason])]
        return lines + self.attempts.lines()

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "rows": self.rows,
            "without": dict(self.without),
            "named": self.named,
            **self.attempts.document(),
        }


def export_main(request: MainExport) -> int:
    """Writes the rows, tells which attempts have none and why, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then no file is written. Raises
    `RollerError` like `export calls`.
    """
    new_writer = _writer_for(request)
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    check_place(request.output, sources)
    is_sft = request.form is MainForm.SFT
    card = request.output.with_name(f"{request.output.name}.card.md")
    files = OutputFiles((card, request.output) if is_sft else (request.output,), overwrite=request.overwrite)
    files.check()
    with files.writing():
        with files.open(request.output) as stream:
            _write_rows(request, sources, tally, new_writer(stream))
        if tally.rows:
            if is_sft:
                files.write(card, sft_card(request.output.name, request.file_format, tally.rows, tally.without))
            files.publish()
    for line in tally.lines():
        say(line)
    if tally.rows:
        beside = f"; beside it {card.name}" if is_sft else ""
        say(f"{request.output}: {request.form} form, {request.output.stat().st_size:,} bytes{beside}")
    else:
        say("error: there is nothing to export: no file was written")
    if request.as_json:
        answer(json_text.dumps_ascii({"output": str(request.output) if tally.rows else None, **tally.document()}))
    return int(bool(tally.attempts.refused) or not tally.rows)


class _Documents:
    """ACTF rows: a JSON document a line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        self._stream.write(json_text.dumps(row) + b"\n")

    def close(self) -> None:
        self._stream.flush()


def _writer_for(request: MainExport) -> Callable[[IO[bytes]], RowWriter]:
    if request.form is MainForm.SFT:
        return writer_for(request.file_format, SFT_COLUMNS, nested=False)
    if request.file_format is not Format.JSONL:
        raise RollerError("--format parquet is for --as sft: an ACTF row is one document", exit_code=2)
    return _Documents


def _write_rows(request: MainExport, sources: Sequence[Source], tally: _Tally, writer: RowWriter) -> None:
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in opened(sources, tally.attempts, request.workers):
            try:
                rows = _rows(request.form, attempt, source)
            except NoTrajectoryError as error:
                tally.leave_out(source, error)
                continue
            finally:
                steps.count(source.calls)
            for row in rows:
                writer.write(row)
            tally.rows += len(rows)
            tally.cut += len(rows) if len(rows) > 1 else 0
            tally.notifications += sum(_notified(row) for row in rows)
    writer.close()


def _rows(form: MainForm, attempt: Attempt, source: Source) -> list[Row]:
    """All of an attempt or nothing: half a trajectory is none."""
    trajectories = trajectory_rows(attempt, source.manifest_name)
    return trajectories if form is MainForm.ACTF else [sft_row(trajectory) for trajectory in trajectories]


def _notified(row: Row) -> int:
    if "notifications" in row:
        return len(row["notifications"])
    return sum(bool(message["notifications"]) for message in row["messages"])
