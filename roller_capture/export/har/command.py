"""`roller-capture export har`: one archive of all calls, and what is said of those that have no entry."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from roller_capture import __version__, json_text
from roller_capture.api import Attempt
from roller_capture.export.har.entries import Entry, NoEntryError, entry_of
from roller_capture.export.har.raw_files import schemes
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import answer, progress, say
from roller_capture.view.words import count

_MOST_NAMED: Final = 5
_HEAD: Final = {"version": "1.2", "creator": {"name": "roller-capture", "version": __version__}}


@dataclass(frozen=True, slots=True)
class HarExport:
    """What is asked for."""

    paths: Sequence[Path]
    output: Path
    overwrite: bool = False
    as_json: bool = False
    all_attempts: bool = False


@dataclass(slots=True)
class _Tally:
    """What was exported; memory grows with the attempts alone."""

    entries: int = 0
    bodies: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    left_out: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """A call that has an entry."""
        self.entries += 1
        self.bodies += "text" in entry["response"]["content"]

    def leave_out(self, place: str, error: NoEntryError) -> None:
        """A call that has none: counted and, a few of each kind, named."""
        self.left_out[str(error)] += 1
        names = self.named.setdefault(str(error), [])
        if len(names) < _MOST_NAMED:
            names.append(place)

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"exported {count(self.entries, 'call')}, of {count(self.attempts.read, 'attempt')} read",
            f"  {self.bodies:,} with the response body",
        ]
        for reason, number in self.left_out.most_common():
            lines += [f"left out {count(number, 'call')}: {reason}", *(f"  {name}" for name in self.named[reason])]
        return lines + self.attempts.lines()

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "calls": self.entries,
            "response_bodies": self.bodies,
            "left_out": dict(self.left_out),
            "named": self.named,
            **self.attempts.document(),
        }


def export_har(request: HarExport) -> int:
    """Writes the archive, tells what was left out, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then no file is written. Raises
    `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was read.
    """
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    check_place(request.output, sources)
    files = OutputFiles((request.output,), overwrite=request.overwrite)
    files.check()
    with files.writing():
        with files.open(request.output) as stream:
            _write(stream, sources, tally)
        if tally.entries:
            files.publish()
    for line in tally.lines():
        say(line)
    if tally.entries:
        say(f"{request.output}: HAR 1.2, {request.output.stat().st_size:,} bytes")
    else:
        say("error: there is nothing to export: no file was written")
    if request.as_json:
        answer(json_text.dumps_ascii({"output": str(request.output) if tally.entries else None, **tally.document()}))
    return int(bool(tally.attempts.refused) or not tally.entries)


def _write(stream: IO[bytes], sources: Sequence[Source], tally: _Tally) -> None:
    """Entries as they come; the pages, one for each attempt, are known when all entries are written."""
    pages = []
    stream.write(b'{"log":' + json_text.dumps(_HEAD)[:-1] + b',"entries":[\n')
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in opened(sources, tally.attempts):
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
            tally.leave_out(f"{source.path}: {call.call_id}", error)
            continue
        stream.write((b",\n" if tally.entries else b"") + json_text.dumps(entry))
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
