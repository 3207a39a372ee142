"""`roller-capture export main`: a row for each segment of each attempt's main trajectory, or why there is none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from roller_capture import json_text
from roller_capture.api import Attempt
from roller_capture.errors import RollerError
from roller_capture.export.main.card import sft_card
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.main.sft import SFT_COLUMNS, sft_row
from roller_capture.export.main.trajectory import Row, trajectory_rows
from roller_capture.export.outcome import Reasons, Runs, counted, tell
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import ENDINGS, Format, MainExport, MainForm, check_name
from roller_capture.export.row_writers import RowWriter, writer_for
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import progress
from roller_capture.view.words import count


@dataclass(slots=True)
class _Tally:
    """What was exported, and which attempts have no main trajectory."""

    exported: int = 0
    """Rows."""
    cut: int = 0
    notifications: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    runs: Runs = field(default_factory=Runs)
    without: Reasons = field(default_factory=Reasons)

    def lines(self) -> list[str]:
        """For people."""
        rows = count(self.exported, "main trajectory", "main trajectories")
        lines = [
            f"exported {rows}, of {count(self.attempts.read, 'attempt')} read",
            f"  segments between compactions: {self.cut:,}; notifications that are marked: {self.notifications:,}",
            *self.runs.lines(),
            f"without a main trajectory: {count(self.without.total(), 'attempt')}",
        ]
        hints = self.runs.hints(self.without.counts)
        return [*lines, *self.without.lines(), *hints, *self.attempts.lines()]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "rows": self.exported,
            "without": dict(self.without.counts),
            "named": self.without.named,
            **self.runs.document(),
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
        if tally.exported:
            if is_sft:
                name, ends, without = request.output.name, tally.runs.ends(), tally.without.counts
                files.write(card, sft_card(name, request.file_format, tally.exported, ends, without))
            files.publish()
    beside = f"; beside it {card.name}" if is_sft else ""
    return tell(
        request,
        tally,
        request.output,
        lambda: f"{request.form} form, {request.output.stat().st_size:,} bytes{beside}",
    )


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
        writes = "export main --as sft writes JSON Lines (.jsonl) or Parquet (.parquet)"
        check_name(request.output, writes, ENDINGS[request.file_format])
        return writer_for(request.file_format, SFT_COLUMNS, nested=False)
    if request.file_format is not Format.JSONL:
        raise RollerError("--format parquet is for --as sft: an ACTF row is one document", exit_code=2)
    check_name(request.output, "export main writes JSON Lines (.jsonl)", ENDINGS[request.file_format])
    return _Documents


def _write_rows(request: MainExport, sources: Sequence[Source], tally: _Tally, writer: RowWriter) -> None:
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in counted(opened(sources, tally.attempts, request.workers), tally):
            try:
                rows = _rows(request.form, attempt, source)
            except NoTrajectoryError as error:
                tally.without.add(error.reason, f"{source.path}{f': {error.call_id}' if error.call_id else ''}")
                continue
            finally:
                steps.count(source.calls)
            for row in rows:
                writer.write(row)
            tally.exported += len(rows)
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
