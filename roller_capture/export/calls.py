"""`roller-capture export calls`: chooses the calls, makes their rows, writes them, and tells what was left out."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from roller_capture.api import Call
from roller_capture.errors import RollerError
from roller_capture.export.call_rows import CallRows, NoRowError
from roller_capture.export.card import card_text, row_schema
from roller_capture.export.columns import CALL_ROW, CHAT_ROW, columns_of
from roller_capture.export.outcome import counted, tell
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import ENDINGS, CallExport, Form, Format, check_name
from roller_capture.export.row_writers import RowWriter, writer_for
from roller_capture.export.sources import Source, Steps, check_place, find_sources, opened
from roller_capture.export.tally import Tally, purpose_reason
from roller_capture.terminal import progress, say
from roller_capture.vocabulary import Blocker

_NO_MESSAGES: Final = frozenset({Blocker.CONTEXT_NOT_JSON})
"""Without messages there is no row, whatever is allowed."""


def export_calls(request: CallExport) -> int:
    """Writes the rows, their card and their schema, tells what was left out, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then no file is written. Raises
    `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was read.
    """
    writes = "export calls writes JSON Lines (.jsonl) or Parquet (.parquet)"
    check_name(request.output, writes, ENDINGS[request.file_format])
    if _NO_MESSAGES & set(request.allow):
        raise RollerError("--allow context_not_json: a request that is no JSON has no messages to export", exit_code=2)
    columns = columns_of(request.form)
    new_writer = writer_for(request.file_format, columns, nested=request.nested)
    tally = Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    check_place(request.output, sources)
    card, schema = (request.output.with_name(f"{request.output.name}.{name}") for name in ("card.md", "schema.json"))
    files = OutputFiles((card, schema, request.output), overwrite=request.overwrite)
    files.check()
    with files.writing():
        with files.open(request.output) as stream:
            _write_rows(request, sources, tally, new_writer(stream))
        if tally.exported:
            form = CHAT_ROW if request.form is Form.CHAT else CALL_ROW
            name, nested = request.output.name, request.nested
            files.write(card, card_text(name, request.file_format, columns, tally, nested=nested))
            files.write(schema, row_schema(form, columns, nested=request.nested))
            files.publish()
    nothing = f"no file was written{f'; {taken}' if (taken := tally.taken_by_purpose()) else ''}"
    code = tell(request, tally, request.output, lambda: _written(request, card, schema), nothing)
    if request.file_format is Format.JSONL and tally.dates:
        names = ", ".join(sorted(tally.dates))
        say(f"every {names} looks like a date, and datasets makes dates of such columns: parquet keeps the texts")
    return code or int(tally.unreadable > 0)


def _write_rows(request: CallExport, sources: Sequence[Source], tally: Tally, writer: RowWriter) -> None:
    with progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in counted(opened(sources, tally.attempts, request.workers), tally):
            chosen = _chosen(steps.over(attempt.calls()), request, tally.left_out.add)
            _write_attempt(CallRows(attempt, source.manifest_name, request.form), chosen, source.path, tally, writer)
    writer.close()


def _write_attempt(rows: CallRows, calls: Iterator[Call], path: Path, tally: Tally, writer: RowWriter) -> None:
    for call in calls:
        try:
            row = rows.row(call)
        except NoRowError as error:
            tally.leave_out_named(str(path), call.call_id, error)
            tally.unreadable += error.unreadable
            continue
        writer.write(row)
        tally.add(row)


def _chosen(calls: Iterator[Call], request: CallExport, leave_out: Callable[[str], None]) -> Iterator[Call]:
    """The calls to export. Each other one is counted for one reason: what bars it, else its purpose."""
    for call in calls:
        barred = [blocker for blocker in call.blockers if blocker not in request.allow]
        if barred:
            leave_out(" + ".join(barred))
        elif call.purpose not in request.purposes:
            leave_out(purpose_reason(call.purpose))
        else:
            yield call


def _written(request: CallExport, card: Path, schema: Path) -> str:
    size = request.output.stat().st_size
    return f"{request.form} form, {request.file_format}, {size:,} bytes; beside it {card.name} and {schema.name}"
