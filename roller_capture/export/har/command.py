"""`roller-capture export har`: one archive of all calls, and what is said of those that have no entry."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from roller_capture import __version__, json_text
from roller_capture.api import Attempt
from roller_capture.export.har.entries import Entry, NoEntryError, entry_of
from roller_capture.export.har.raw_files import schemes
from roller_capture.export.outcome import Reasons, Runs, counted, tell
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import Export, check_name
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import progress
from roller_capture.view.words import count

_HEAD: Final = {"version": "1.2", "creator": {"name": "roller-capture", "version": __version__}}


@dataclass(frozen=True, slots=True)
class HarExport(Export):
    """What is asked for."""

    output: Path


@dataclass(slots=True)
class _Tally:
    """What was exported; memory grows with the attempts alone."""

    exported: int = 0
    """Calls that have an entry."""
    bodies: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    runs: Runs = field(default_factory=Runs)
    left_out: Reasons = field(default_factory=Reasons)

    def add(self, entry: Entry) -> None:
        """A call that has an entry."""
        self.exported += 1
        self.bodies += "text" in entry["response"]["content"]

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"exported {count(self.exported, 'call')}, of {count(self.attempts.read, 'attempt')} read",
            f"  {self.bodies:,} with the response body",
            *self.runs.lines(),
        ]
        for reason, number in self.left_out.counts.most_common():
            names = (f"  {name}" for name in self.left_out.named[reason])
            lines += [f"left out {count(number, 'call')}: {reason}", *names]
        return lines + self.attempts.lines()

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "calls": self.exported,
            "response_bodies": self.bodies,
            "left_out": dict(self.left_out.counts),
            "named": self.left_out.named,
            **self.runs.document(),
            **self.attempts.document(),
        }


def export_har(request: HarExport) -> int:
    """Writes the archive, tells what was left out, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then no file is written. Raises
    `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was read.
    """
    check_name(request.output, "export har writes HAR 1.2, which is JSON (.har, .json)", (".har", ".json"))
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    check_place(request.output, sources)
    files = OutputFiles((request.output,), overwrite=request.overwrite)
    files.check()
    with files.writing():
        with files.open(request.output) as stream:
            _write(stream, sources, tally)
        if tally.exported:
            files.publish()
    return tell(request, tally, request.output, lambda: f"HAR 1.2, {request.output.stat().st_size:,} bytes")


def _write(stream: IO[bytes], sources: Sequence[Source], tally: _Tally) -> None:
    """Entries as they come; the pages, one for each attempt, are known when all entries are written."""
    pages = []
    stream.write(b'{"log":' + json_text.dumps(_HEAD)[:-1] + b',"entries":[\n')
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in counted(opened(sources, tally.attempts), tally):
            start = _write_attempt(stream, source, attempt, steps, tally)
            if start is not None:
                pages.append(_page(source, attempt, start))
    stream.write(b'\n],"pages":' + json_text.dumps(pages) + b"}}\n")


def _write_attempt(stream: IO[bytes], source: Source, attempt: Attempt, steps: Steps, tally: _Tally) -> str | None:
    """The start of the first call that has an entry."""
    first = None
    known = schemes(attempt)
    for call in steps.over(attempt.calls()):
        try:
            entry = entry_of(attempt, call, attempt.capture_id, known.get(call.sequence))
        except NoEntryError as error:
            tally.left_out.add(str(error), f"{source.path}: {call.call_id}")
            continue
        stream.write((b",\n" if tally.exported else b"") + json_text.dumps(entry))
        tally.add(entry)
        first = first or str(entry["startedDateTime"])
    return first


def _page(source: Source, attempt: Attempt, first: str) -> dict[str, Any]:
    """An attempt, in the place of the page that a browser loads."""
    return {
        "startedDateTime": attempt.manifest["started_at"] or first,
        "id": attempt.capture_id,
        "title": source.manifest_name,
        "pageTimings": {},
        "_roller": {
            "harness": attempt.harness,
            "sample_id": attempt.sample_id,
            "manifest_sha256": attempt.manifest_sha256,
        },
    }
