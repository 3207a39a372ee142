"""`roller-capture view PATH --html FILE`: reads attempts one by one and writes the page, or a page for each of many."""

import contextlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from roller_capture import __version__
from roller_capture.api import open_attempt
from roller_capture.errors import RollerError
from roller_capture.export.output_files import OutputFiles
from roller_capture.paths import named
from roller_capture.publication import CALLS, COMPRESSED_CALLS
from roller_capture.published import UnreadableError
from roller_capture.terminal import progress, say
from roller_capture.view.attempt import Attempt, finding_lines, load_attempt
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.html.activity import activity
from roller_capture.view.html.attempt_index import Contents, attempt_index
from roller_capture.view.html.contexts import Contexts
from roller_capture.view.html.native_records import native_records
from roller_capture.view.html.page import PageWriter
from roller_capture.view.html.previews import preview
from roller_capture.view.html.prices import Prices, read_prices
from roller_capture.view.overview import find_shown, find_superseded, summary_document
from roller_capture.vocabulary import ExecutionStatus, Role

MOST_ATTEMPTS: Final = 100
"""Above this many attempts each gets a page of its own."""

MOST_BYTES: Final = 256 * 1024 * 1024
"""And above this many bytes of calls.jsonl together: a browser has to hold the whole page."""

_MOST_PROBLEMS: Final = 10
_OUTSIDE_RECORD: Final = ("context", "context_raw", "output")

Document = dict[str, Any]
Problems = list[str]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What the user wants: the page of `path` in the file `output`; `prices` is a price table's file."""

    path: Path
    output: Path
    overwrite: bool = False
    prices: Path | None = None
    unfetched: tuple[UnreadableError, ...] = ()
    """Attempts of a place elsewhere that `path`, its copy, lacks."""


def write_html(request: PageRequest) -> int:
    """Writes the page and returns the exit code: 1 when something is damaged or not published, and the rest is shown.

    Raises `RollerError`: exit 2 for what cannot be done as asked, exit 1 when of a single attempt nothing can be shown.
    """
    prices = None if request.prices is None else read_prices(request.prices)
    attempts, unreadable = find_shown(request.path, request.unfetched)
    _check_place(request.output, attempts)
    files = OutputFiles([request.output], overwrite=request.overwrite)
    files.check()
    single = attempts == [request.path]
    older, book_problems = find_superseded([*attempts, *(error.path for error in unreadable)])
    problems: Problems = [str(error) for error in (*book_problems, *unreadable)]
    with _counting(request.path, len(attempts)) as step, files.writing():
        pages = _Pages(request, _Found(attempts, older, unreadable), prices, problems, step)
        if single or _fits_one_page(attempts):
            with files.open(request.output) as stream:
                pages.together(PageWriter(stream), must_load=single)
            files.publish()
        else:
            with _new_folder(folder_of(request.output), overwrite=request.overwrite) as folder:
                rows = pages.one_each(folder)
                with files.open(request.output) as stream:
                    PageWriter(stream).finish(_about(request.path, rows))
            files.publish()
    for problem in problems[:_MOST_PROBLEMS]:
        say(f"error: {problem}")
    if len(problems) > _MOST_PROBLEMS:
        say(f"error: and {len(problems) - _MOST_PROBLEMS} more")
    return int(bool(problems))


def folder_of(output: Path) -> Path:
    """Where the pages of many attempts go: beside the page that lists them."""
    return output.with_name(f"{output.stem}-attempts")


class _Found(NamedTuple):
    """The attempts, those of them whose samples were made again, and the folders that could not be looked into."""

    attempts: Sequence[Path]
    older: Collection[Path]
    unreadable: Sequence[UnreadableError]


class _Pages:
    """Puts attempts into pages. What cannot be read goes into `problems`, and the others are shown."""

    def __init__(
        self,
        request: PageRequest,
        found: _Found,
        prices: Prices | None,
        problems: Problems,
        step: Callable[[], None],
    ) -> None:
        self._request = request
        self._found = found
        self._prices = prices
        self._problems = problems
        self._step = step

    def together(self, page: PageWriter, *, must_load: bool) -> None:
        """All in one page. `must_load`: an attempt of which nothing can be shown raises."""
        rows: list[Document] = []
        for number, path in enumerate(self._found.attempts):
            rows.append(self._put(page, path, number, must_load=must_load))
            self._step()
        page.finish(_about(self._request.path, [*rows, *self._unreadable()]))

    def one_each(self, folder: Path) -> list[Document]:
        """A page for each in `folder`; the rows of the list, which link to them."""
        rows: list[Document] = []
        for number, path in enumerate(self._found.attempts, 1):
            name = f"{number:06d}.html"
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                page = PageWriter(stream)
                row = self._put(page, path, 0, must_load=False)
                page.finish(_about(path, [row]))
            is_shown = "error" not in row
            if not is_shown:
                (folder / name).unlink()
            link = f"./{quote(folder_of(self._request.output).name)}/{name}" if is_shown else None
            rows.append({**row, "number": None, "link": link})
            self._step()
        return [*rows, *self._unreadable()]

    def _unreadable(self) -> list[Document]:
        return [_unusable(self._request, error.path, error) for error in self._found.unreadable]

    def _put(self, page: PageWriter, path: Path, number: int, *, must_load: bool) -> Document:
        """Writes the attempt into the page; its row."""
        try:
            attempt = load_attempt(path)
        except RollerError as error:
            if must_load:
                raise
            self._problems.append(str(error))
            return _unusable(self._request, path, error)
        family = family_of(attempt)
        contents = _contents(attempt, page)
        index = attempt_index(attempt, family, gaps_of(attempt, family), contents, self._prices)
        page.attempt(number, index)
        self._problems += finding_lines(attempt)
        costs = [call["cost"] for call in index["calls"]]
        known = [cost for cost in costs if cost is not None]
        return {
            "name": _name(self._request, path),
            "number": number,
            **summary_document(attempt, is_superseded=path in self._found.older),
            "activity": activity(index),
            "troubles": _troubles(index),
            "cost": sum(known) if known else None,
            "unpriced": len(costs) - len(known),
            "currency": index["currency"],
        }


def _troubles(index: Document) -> list[tuple[str, str, int]]:
    """What did not end well beside the run itself: agents and calls, by status."""
    children = [agent["status"] for agent in index["agents"] if agent["role"] != Role.ROOT]
    found: list[tuple[str, str, int]] = []
    for kind, statuses in (("agent", children), ("call", [call["status"] for call in index["calls"]])):
        counted = Counter(status for status in statuses if status != ExecutionStatus.COMPLETED)
        found += [(kind, status, times) for status, times in sorted(counted.items())]
    return found


def _unusable(request: PageRequest, path: Path, error: RollerError) -> Document:
    """The row of what cannot be shown."""
    return {"name": _name(request, path), "number": None, "error": named(str(error))}


def _name(request: PageRequest, path: Path) -> str:
    return "." if path == request.path else str(path.relative_to(request.path))


def _contents(attempt: Attempt, page: PageWriter) -> Contents:
    """Puts requests, responses and records into pieces, one call in memory at a time."""
    places = {call.call_id: place for place, call in reversed(list(enumerate(attempt.calls)))}
    contexts = Contexts(page.pieces)
    documents: dict[str, Document] = {}
    try:
        for call in open_attempt(attempt.path, validate=False).calls():
            place = places.get(call.call_id)
            if place is None or call.call_id in documents:
                continue
            first_piece = len(page.pieces)
            output = call.record.get("output")
            record = {key: value for key, value in call.record.items() if key not in _OUTSIDE_RECORD}
            documents[call.call_id] = {
                **contexts.document(place, call),
                "output": None if output is None else page.pieces.add(output),
                "record": page.pieces.add(record),
                "says": preview(call.protocol, output),
                "first_piece": first_piece,
                "next_piece": len(page.pieces),
            }
    except RollerError as error:
        attempt.findings.append((CALLS, f"requests and responses cannot all be read ({error})"))
    return Contents(documents, native_records(attempt, page.pieces))


def _about(path: Path, rows: list[Document]) -> Document:
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"version": __version__, "made_at": made_at, "path": path.absolute().name, "attempts": rows}


def _fits_one_page(attempts: Sequence[Path]) -> bool:
    if len(attempts) > MOST_ATTEMPTS:
        return False
    size = 0
    for attempt in attempts:
        for name in (CALLS, COMPRESSED_CALLS):
            with contextlib.suppress(OSError):
                size += (attempt / name).lstat().st_size
    return size <= MOST_BYTES


def _check_place(output: Path, attempts: Sequence[Path]) -> None:
    """What lies in an attempt and is not in its manifest makes it invalid."""
    place = output.absolute().parent.resolve()
    for attempt in attempts:
        if place.is_relative_to(attempt.resolve()):
            raise RollerError(f"--html {output}: lies in the attempt {attempt}: files belong elsewhere", exit_code=2)


@contextlib.contextmanager
def _new_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A private folder that gets its name when the block ends well, and is gone otherwise."""
    if folder.is_symlink() or (folder.exists() and not (overwrite and folder.is_dir())):
        raise RollerError(f"{folder}: is there already: name another file, or give --overwrite", exit_code=2)
    token = secrets.token_hex(4)
    fresh, old = (folder.with_name(f".{folder.name}.{token}.{kind}") for kind in ("tmp", "old"))
    fresh.mkdir(mode=0o700)
    try:
        yield fresh
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    finally:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _counting(path: Path, total: int) -> Iterator[Callable[[], None]]:
    """Something to call after each attempt."""
    if total == 1:
        yield lambda: None
        return
    with progress(f"view {path}", "attempts") as bar:
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            bar(done, total)

        yield step
