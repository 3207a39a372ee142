"""The attempts of an export, each once and only if it validates, and how rows name them."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture.api import Attempt, Call, open_attempt
from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.pool import THIS_PROCESS, Ask, Job, Workers
from roller_capture.publication import MANIFEST
from roller_capture.published import UnreadableError, find_attempts, read_manifest
from roller_capture.remote import Location
from roller_capture.remote.elsewhere import Input, RemoteFolder, fetched
from roller_capture.remote.sending import destination_of
from roller_capture.runs.newest import superseded
from roller_capture.terminal import say
from roller_capture.view.words import count

_MOST_NAMED: Final = 5


class Source(NamedTuple):
    """An attempt. `manifest_name` begins with the folder that was named: no row tells where that lies.

    `calls` is the number of calls that its manifest counts, unchecked: for progress alone.
    """

    path: Path
    manifest_name: str
    calls: int
    remote: RemoteFolder | None = None
    """Where it lies elsewhere; nothing is at `path` then but while the attempt is read."""


def find_sources(paths: Sequence[Input], tally: "AttemptTally", *, all_attempts: bool) -> list[Source]:
    """The attempts below the paths in their order. Those of a run's samples that were made again are left out, and
    counted, unless `all_attempts` are wanted; one that is named itself is taken.

    Raises `RollerError` for a path that holds none.
    """
    sources: dict[Path | Location, Source] = {}
    for path in paths:
        if isinstance(path, RemoteFolder):
            for source in _remote_sources(path, tally, all_attempts=all_attempts):
                sources.setdefault(path.location_of(source.path), source)
            continue
        asked = path.absolute()
        unreadable: list[UnreadableError] = []
        attempts = find_attempts(path, unreadable)
        for closed in unreadable:
            tally.refuse(closed)
        known = [*attempts, *(closed.path for closed in unreadable)]  # the newest one counts, whatever came of it
        older = frozenset() if all_attempts else superseded(known)
        tally.superseded += len(older.intersection(attempts))
        for attempt in attempts:
            if attempt in older:
                continue
            name = Path(asked.resolve().name, attempt.absolute().relative_to(asked), MANIFEST)
            sources.setdefault(attempt.resolve(), Source(attempt, name.as_posix(), _counted_calls(attempt)))
    return list(sources.values())


def _remote_sources(folder: RemoteFolder, tally: "AttemptTally", *, all_attempts: bool) -> Iterator[Source]:
    """Their calls are not counted: that would take another look at each."""
    attempts = folder.attempts()
    older = frozenset() if all_attempts else superseded(attempts)
    tally.superseded += len(older)
    for attempt in attempts:
        if attempt not in older:
            name = Path(folder.location.name, attempt.relative_to(folder.path), MANIFEST)
            yield Source(attempt, name.as_posix(), 0, folder)


def _counted_calls(attempt: Path) -> int:
    try:
        calls = read_manifest(attempt)["counts"]["calls"]
    except (RollerError, KeyError, TypeError):
        return 0
    return calls if isinstance(calls, int) and calls > 0 else 0


def check_place(output: Path, sources: Sequence[Source]) -> None:
    """Refuses a file in an attempt: what lies there and is not in the manifest makes it invalid."""
    place = output.absolute().parent.resolve()
    destination = destination_of(output.parent)
    for source in sources:
        if source.remote is not None:
            attempt = source.remote.location_of(source.path)
            if destination is not None and f"{destination.location}/".startswith(f"{attempt}/"):
                raise RollerError(
                    f"--output {output}: lies in the attempt {attempt}: files belong elsewhere", exit_code=2
                )
            continue
        if place.is_relative_to(source.path.resolve()):
            raise RollerError(
                f"--output {output}: lies in the attempt {source.path}: files belong elsewhere", exit_code=2
            )


@dataclass(slots=True)
class AttemptTally:
    """What became of the attempts."""

    read: int = 0
    superseded: int = 0
    refused: list[RollerError] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)

    def refuse(self, error: RollerError) -> None:
        """Says at once what cannot be read, and counts it."""
        say(f"error: {error}")
        self.refused.append(error)

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"not exported a second time: {name}" for name in self.repeated[:_MOST_NAMED]]
        if self.superseded:
            older = count(self.superseded, "attempt")
            lines.append(f"left out {older} of samples that were made again (--all-attempts takes all)")
        if self.refused:
            lines.append(f"not exported: {count(len(self.refused), 'attempt')} that cannot be trusted, named above")
        return lines

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "attempts": self.read,
            "attempts_superseded": self.superseded,
            "attempts_refused": [str(error) for error in self.refused],
            "attempts_repeated": self.repeated,
        }


def opened(
    sources: Sequence[Source], tally: AttemptTally, workers: Workers = THIS_PROCESS
) -> Iterator[tuple[Source, Attempt]]:
    """The attempts that validate, each capture once; what is wrong with the others is said at once.

    Other `workers` than this process validate them ahead; they are still told in their order.
    """
    seen: set[str] = set()
    for source, attempt in _opened_each(sources, workers):
        if isinstance(attempt, RollerError):
            tally.refuse(attempt)
            continue
        if attempt.capture_id in seen:
            tally.repeated.append(f"{source.path}: another copy of capture {attempt.capture_id}")
            continue
        seen.add(attempt.capture_id)
        tally.read += 1
        yield source, attempt


def _opened_each(sources: Sequence[Source], workers: Workers) -> Iterator[tuple[Source, Attempt | RollerError]]:
    if workers.are_needed and len(sources) > 1:
        with workers.pool() as pool:
            jobs = (Job(named(source.path), partial(_open_job, source), source) for source in sources)
            for source, attempt in pool.each(jobs):
                if attempt is None:
                    yield from _opened_here(source)
                else:
                    yield source, attempt
                if source.remote is not None:
                    shutil.rmtree(source.path, ignore_errors=True)
        return
    for source in sources:
        yield from _opened_here(source)


def _opened_here(source: Source) -> Iterator[tuple[Source, Attempt | RollerError]]:
    try:
        with nullcontext() if source.remote is None else fetched(source.remote, source.path):
            yield source, open_attempt(source.path)
    except RollerError as error:
        yield source, error


def _open_job(source: Source, _ask: Ask) -> Attempt | None:
    """Runs in a process. What is read later is read from the files that were validated here, or refused.

    `None` for an attempt that lies elsewhere, when this process is not on the machine that is to read it.
    """
    if source.remote is not None and not source.remote.fetch(source.path):
        return None
    return open_attempt(source.path)


class Steps:
    """Progress over the calls of all attempts."""

    def __init__(self, bar: Callable[[int, int], None], sources: Sequence[Source]) -> None:
        self._bar = bar
        self._total = sum(source.calls for source in sources)
        self._done = 0

    def over(self, calls: Iterator[Call]) -> Iterator[Call]:
        """The calls, each counted when the next one is asked for."""
        for call in calls:
            yield call
            self.count(1)

    def count(self, calls: int) -> None:
        """So many more are done."""
        self._done += calls
        self._total = max(self._total, self._done, 1)
        self._bar(self._done, self._total)
