"""`roller-capture export otel`: spans into a file or to a collector, and what is said of what has none."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from roller_capture.errors import RollerError
from roller_capture.export.otel.destinations import Collector, Destination, LinesOfOtlp
from roller_capture.export.otel.spans import AttemptSpans, Untold
from roller_capture.export.outcome import Runs, counted, tell
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import ENDINGS, Export, Format, check_name
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import progress, say
from roller_capture.view.words import count

_JSONL: Final = ENDINGS[Format.JSONL]
_WORDS: Final = {
    "calls_without_times": "calls and tool calls whose times are not known, or not of 1970 to 2554",
    "agents_without_calls": "agents without a call",
    "tool_calls_without_result": "tool calls whose result no request held",
    "tool_calls_not_unique": "ids of tool calls that two answers hold",
    "requests_unreadable": "requests that cannot be read: their settings are not told",
    "calls_without_content": "calls whose content has no chat form",
}


@dataclass(frozen=True, slots=True)
class OtelExport(Export):
    """What is asked for: an output or an endpoint."""

    output: Path | None = None
    endpoint: str | None = None
    content: bool = False


@dataclass(slots=True)
class _Tally:
    """What was exported."""

    exported: int = 0
    """Spans."""
    by_operation: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    runs: Runs = field(default_factory=Runs)
    untold: Untold = field(default_factory=Untold)

    def lines(self) -> list[str]:
        """For people."""
        shown = ", ".join(f"{name} {number:,}" for name, number in self.by_operation.most_common())
        spans = count(self.exported, "span")
        lines = [f"exported {spans} of {count(self.attempts.read, 'attempt')}{f': {shown}' if shown else ''}"]
        lines += self.runs.lines()
        untold = asdict(self.untold)
        if any(untold.values()):
            lines.append("not told:")
            lines += [f"  {untold[name]:>7,}  {words}" for name, words in _WORDS.items() if untold[name]]
        return lines + self.attempts.lines()

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "spans": self.exported,
            "by_operation": dict(self.by_operation),
            "rejected": self.rejected,
            "untold": asdict(self.untold),
            **self.runs.document(),
            **self.attempts.document(),
        }


def export_otel(request: OtelExport) -> int:
    """Writes or sends the spans, tells what has none, and returns the exit code.

    1 means that an attempt could not be trusted, that there was nothing to export, or that the collector rejected
    spans. Raises `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was
    read, or the collector failed.
    """
    if (request.output is None) == (request.endpoint is None):
        which = "name one" if request.output is None else "name only one of them"
        raise RollerError(f"{which}: --output FILE, or --endpoint URL", exit_code=2)
    if request.output is not None:
        # One attempt is one JSON document, and the collector's own file exporter calls such files .json, too.
        check_name(request.output, "export otel writes lines of OTLP/JSON (.jsonl, .json)", (*_JSONL, ".json"))
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    if request.output is not None:
        _to_file(request, request.output, sources, tally)
    else:
        _to_collector(request, str(request.endpoint), sources, tally)
    target = str(request.output or request.endpoint)
    code = tell(request, tally, target, lambda: _written(request.output), "no file was written, and nothing sent")
    return code or int(tally.rejected > 0)


def _written(output: Path | None) -> str:
    return "sent" if output is None else f"OTLP/JSON, {output.stat().st_size:,} bytes"


def _to_file(request: OtelExport, output: Path, sources: Sequence[Source], tally: _Tally) -> None:
    check_place(output, sources)
    files = OutputFiles((output,), overwrite=request.overwrite)
    files.check()
    with files.writing():
        with files.open(output) as stream:
            _export(request, sources, tally, LinesOfOtlp(stream))
        if tally.exported:
            files.publish()


def _to_collector(request: OtelExport, endpoint: str, sources: Sequence[Source], tally: _Tally) -> None:
    collector = Collector(endpoint)
    with _said_how_far(tally):
        _export(request, sources, tally, collector)
    tally.rejected = collector.rejected
    if collector.rejected:
        reasons = "; ".join(sorted(filter(None, collector.reasons)))
        say(f"error: the collector rejected {count(collector.rejected, 'span')}{f' ({reasons})' if reasons else ''}")


@contextlib.contextmanager
def _said_how_far(tally: _Tally) -> Iterator[None]:
    try:
        yield
    except RollerError:
        say(f"made before: {count(tally.exported, 'span')}: the collector may have some of them")
        raise


def _export(request: OtelExport, sources: Sequence[Source], tally: _Tally, destination: Destination) -> None:
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in counted(opened(sources, tally.attempts), tally):
            spans = AttemptSpans(attempt, request.content, tally.untold)
            destination.begin(spans.resource(source.manifest_name))
            for span in spans.spans():
                destination.add(span)
                operation = str(span.attributes["gen_ai.operation.name"])
                tally.exported += 1
                tally.by_operation[operation] += 1
                steps.count(int(operation == "chat"))
            destination.end()
