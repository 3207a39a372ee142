"""`roller-capture view PATH`: reads, shows on stdout, tells what is damaged on stderr."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TextIO

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.published import UnreadableError, is_attempt
from roller_capture.terminal import progress, say
from roller_capture.view.attempt import finding_lines, load_attempt
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.json_form import attempt_document
from roller_capture.view.outline import Outline
from roller_capture.view.overview import HEADER, Row, find_shown, find_superseded, summarise, table_rows, unusable
from roller_capture.view.rendering import (
    fitting_table,
    least_width,
    plain_lines,
    rich_trees,
    table_lines,
    terminal_console,
)

_MOST_FINDINGS: Final = 10
_SHOW_PROGRESS_FROM: Final = 20


def view(
    path: Path,
    *,
    json_output: bool = False,
    evidence: bool = False,
    calls: bool = True,
    width: int | None = None,
    color: bool = True,
    stream: TextIO | None = None,
    unfetched: Sequence[UnreadableError] = (),
) -> int:
    """Shows an attempt, or the attempts of a folder a line each, and returns the exit code.

    `evidence` names the source and place of every proof, `calls=False` leaves the single calls out, `width` and
    `color` matter on a terminal only. `unfetched` are attempts of a place elsewhere that `path`, its copy, lacks. 1
    means that something is damaged or not published; what can be read is shown.
    Raises `RollerError`: exit 2 for a missing path, 1 for a single attempt of which nothing can be shown, and when the
    output cannot be written.
    """
    stream = stream or sys.stdout
    if stream is None:
        raise RollerError("the output could not be written: it is closed")
    output = _Output(stream, width=width, color=color)
    attempts, unreadable = find_shown(path, unfetched)
    if attempts == [path] and is_attempt(path):
        return _view_attempt(path, output, json_output=json_output, evidence=evidence, calls=calls)
    return _view_folder(path, attempts, unreadable, output, json_output=json_output)


def _view_attempt(path: Path, output: "_Output", *, json_output: bool, evidence: bool, calls: bool) -> int:
    attempt = load_attempt(path)
    family = family_of(attempt)
    gaps = gaps_of(attempt, family)
    if json_output:
        output.document(attempt_document(attempt, family, gaps))
    else:
        nodes = Outline(attempt, family, gaps, calls=calls, evidence=evidence).nodes()
        if output.is_terminal:
            output.show(rich_trees(nodes), least_width=least_width(nodes))
        else:
            output.lines(plain_lines(nodes))
    return _tell(finding_lines(attempt))


def _view_folder(
    path: Path, attempts: list[Path], unreadable: list[UnreadableError], output: "_Output", *, json_output: bool
) -> int:
    older, problems = find_superseded([*attempts, *(error.path for error in unreadable)])
    rows: list[Row] = []
    with progress(f"view {path}", "attempts") if len(attempts) >= _SHOW_PROGRESS_FROM else nullcontext() as bar:
        for attempt in attempts:
            rows.append(summarise(attempt, older))
            if bar is not None:
                bar(len(rows), len(attempts))
    rows += [unusable(error.path, error) for error in unreadable]
    if json_output:
        output.document({"path": named(path), "attempts": [row.document for row in rows]})
    else:
        cells = table_rows(rows, path)
        if output.is_terminal:
            output.show([fitting_table(HEADER, cells, output.width)])
        else:
            output.lines(line.plain for line in table_lines(HEADER, cells))
    return max([_tell([str(problem) for problem in problems]), *(_tell(row.problems) for row in rows)])


def _tell(problems: Sequence[str]) -> int:
    """Says each problem on stderr; the exit code."""
    for problem in problems[:_MOST_FINDINGS]:
        say(f"error: {problem}")
    if len(problems) > _MOST_FINDINGS:
        say(f"error: and {len(problems) - _MOST_FINDINGS} more of this attempt")
    return int(bool(problems))


class _Output:
    """Standard output: a terminal or not, and whatever encoding it has."""

    def __init__(self, stream: TextIO, *, width: int | None, color: bool) -> None:
        self._stream = stream
        self._width = width
        self._console = terminal_console(stream, width=width, color=color)
        self.is_terminal = self._console.is_terminal

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._console.width

    def show(self, items: Iterable[Any], *, least_width: int = 0) -> None:
        """Rich things, not narrower than `least_width`."""
        if self._width is not None and self._width < least_width:
            say(f"--width {self._width}: shown in {least_width} columns, in fewer there is no room for words")
        self._console.width = max(self._console.width, least_width)
        with self._console.capture() as captured:
            for item in items:
                self._console.print(item)
        self._write(captured.get())

    def lines(self, lines: Iterable[str]) -> None:
        """Plain lines."""
        self._write("".join(f"{line}\n" for line in lines))

    def document(self, document: dict[str, Any]) -> None:
        """One JSON document on one line of ASCII."""
        self._write(json_text.dumps_ascii(document).replace("\x7f", "\\u007f") + "\n")

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()  # here a closed pipe is noticed while the command can still end quietly
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RollerError(f"the output could not be written: {reason}") from None
