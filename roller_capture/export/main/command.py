"""`roller-capture export main`: a row for each segment of each attempt's main trajectory, or why there is none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

import orjson

from roller_capture import json_text
from roller_capture.api import Attempt
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.main.sft import sft_row
from roller_capture.export.main.trajectory import Row, trajectory_rows
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import MainExport, MainForm
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import answer, progress, say

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
        lines = [
            f"exported {self.rows:,} main trajectories, of {self.attempts.read:,} attempts that were read",
            f"  {self.cut:,} of them are segments between compactions; {self.notifications:,} notifications are marked",
            f"without a main trajectory: {sum(self.without.values()):,} attempts",
        ]
        for reason, count in self.without.most_common():
            lines += [f"  {count:>7,}  {reason}", *(f"           {name}" for name in self.named[reason])]
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
    sources = find_sources(request.paths)
    check_place(request.output, sources)
    files = OutputFiles((request.output,), overwrite=request.overwrite)
    files.check()
    tally = _Tally()
    with files.writing():
        with files.open(request.output) as stream:
            _write_rows(request.form, sources, tally, stream)
        if tally.rows:
            files.publish()
    for line in tally.lines():
        say(line)
    if tally.rows:
        say(f"{request.output}: {request.form} form, {request.output.stat().st_size:,} bytes")
    else:
        say("error: there is nothing to export: no file was written")
    if request.as_json:
        answer(json_text.dumps_ascii({"output": str(request.output) if tally.rows else None, **tally.document()}))
    return int(bool(tally.attempts.refused) or not tally.rows)


def _write_rows(form: MainForm, sources: Sequence[Source], tally: _Tally, stream: IO[bytes]) -> None:
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in opened(sources, tally.attempts):
            try:
                rows = _rows(form, attempt, source)
            except NoTrajectoryError as error:
                tally.leave_out(source, error)
                continue
            finally:
                steps.count(source.calls)
            for row in rows:
                stream.write(json_text.dumps(row) + b"\n")
            tally.rows += len(rows)
            tally.cut += len(rows) if len(rows) > 1 else 0
            tally.notifications += sum(_notified(row) for row in rows)


def _rows(form: MainForm, attempt: Attempt, source: Source) -> list[Row]:
    """All of an attempt or nothing: half a trajectory is none."""
    trajectories = trajectory_rows(attempt, source.manifest_name)
    if form is MainForm.ACTF:
        return trajectories
    rows = [sft_row(trajectory) for trajectory in trajectories]
    for row in rows:
        try:
            orjson.dumps([row["messages"], row["sample_id"]], default=lambda _number: None)
        except orjson.JSONEncodeError:
            raise NoTrajectoryError("lone surrogate, or a number that tables cannot hold") from None
    return rows


def _notified(row: Row) -> int:
    if "notifications" in row:
        return len(row["notifications"])
    return sum(bool(message["notifications"]) for message in row["messages"])
