"""`roller-capture finalize`: publishes attempts, a line each, one after the other or in several processes."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest, finalize_attempt
from roller_capture.finalizer_job import finalize_job
from roller_capture.many_attempts import MANY, Tally
from roller_capture.pool import THIS_PROCESS, Job, Workers
from roller_capture.published import UnreadableError, find_attempts, is_attempt
from roller_capture.remote import Location, Place
from roller_capture.remote.attempts import find_remote_attempts
from roller_capture.remote.finalizing import RemoteAttempt, finalize_remote, remote_finalize_job
from roller_capture.remote.publishing import note_remote_publication
from roller_capture.remote.staging import private_folder
from roller_capture.runs.outside_books import note_publication
from roller_capture.terminal import progress, say
from roller_capture.view.words import count
from roller_capture.vocabulary import CaptureStatus

_BOOKS: Final = threading.Lock()
"""Two attempts of one sample have the same books."""

Attempt = Path | RemoteAttempt


@dataclass(frozen=True, slots=True)
class FinalizeCommand:
    """The options of the command. `request` is that of every attempt, but for its books and its progress."""

    paths: tuple[Place, ...]
    request: FinalizeRequest
    workers: Workers = THIS_PROCESS
    strict: bool = False


def run_finalize(command: FinalizeCommand) -> int:
    """Publishes every attempt and returns the highest exit code; one that fails stops no other.

    Run again, it goes on where it was stopped: what is published already is validated and left alone.
    """
    tally = Tally("finalize")
    worst = 0
    with contextlib.ExitStack() as shown:
        refused: dict[Place, RollerError] = {}
        attempts = list(dict.fromkeys(_attempts(command.paths, _scratch(command, shown), refused)))
        for path, error in refused.items():
            worst = max(worst, _tell_failed(path, error, tally))
        bar = shown.enter_context(progress("finalize", "attempts")) if len(attempts) >= MANY else None
        for number, (attempt, outcome) in enumerate(_outcomes(attempts, command), 1):
            worst = max(worst, _tell(attempt, outcome, command, tally))
            if bar is not None:
                bar(number, len(attempts))
    for line in tally.lines():
        say(line)
    return worst


def _scratch(command: FinalizeCommand, held: contextlib.ExitStack) -> Path:
    """Where copies of attempts that lie elsewhere may lie; nothing where there are none."""
    if not any(isinstance(path, Location) for path in command.paths):
        return Path()
    held.enter_context(stops_cleanly())
    return held.enter_context(private_folder())


def _attempts(paths: Sequence[Place], scratch: Path, refused: dict[Place, RollerError]) -> Iterator[Attempt]:
    """The attempts that were named, and those of each run directory or other folder of attempts.

    A URL where none is, and a folder that cannot be looked into, go into `refused`; to look there once more would tell
    no more.
    """
    for path in paths:
        if isinstance(path, Location):
            try:
                yield from (RemoteAttempt(attempt, scratch) for attempt in find_remote_attempts(path))
            except RollerError as error:
                refused[path] = error
            continue
        if os.path.isdir(path) and not is_attempt(path):  # noqa: PTH112 - pathlib's raises for names that are too long
            unreadable: list[UnreadableError] = []
            with contextlib.suppress(RollerError):
                yield from find_attempts(path, unreadable)
                refused.update((closed.path, closed) for closed in unreadable)
                continue
        yield path  # also what is none: the finalizer says why


def _outcomes(
    attempts: Sequence[Attempt], command: FinalizeCommand
) -> Iterator[tuple[Attempt, FinalizeOutcome | RollerError]]:
    """What came of each attempt, in their order."""
    requests = (
        dataclasses.replace(command.request, before_publish=partial(_note, attempt), progress=None)
        for attempt in attempts
    )
    if not command.workers.are_needed or len(attempts) < 2:
        for attempt, request in zip(attempts, requests, strict=True):
            yield attempt, _here(attempt, request, alone=len(attempts) < MANY)
        return
    with command.workers.pool() as pool:
        yield from pool.each(_job(*pair) for pair in zip(attempts, requests, strict=True))


def _job(attempt: Attempt, request: FinalizeRequest) -> Job[Any]:
    if isinstance(attempt, RemoteAttempt):
        return remote_finalize_job(attempt, request)
    return finalize_job(attempt, request)


def _here(attempt: Attempt, request: FinalizeRequest, *, alone: bool) -> FinalizeOutcome | RollerError:
    """In this process; where there are few attempts, each has a bar of its own over its calls."""
    try:
        if not alone:
            return _finalize(attempt, request)
        with progress(f"finalize {attempt}") as bar:
            return _finalize(attempt, dataclasses.replace(request, progress=bar))
    except RollerError as error:
        return error


def _finalize(attempt: Attempt, request: FinalizeRequest) -> FinalizeOutcome:
    if isinstance(attempt, RemoteAttempt):
        return finalize_remote(attempt, request)
    return finalize_attempt(attempt, request)


def _note(attempt: Attempt, digest: str) -> None:
    with _BOOKS:
        if isinstance(attempt, RemoteAttempt):
            note_remote_publication(attempt.location, digest)
        else:
            note_publication(attempt, digest)


def _tell(attempt: Attempt, outcome: FinalizeOutcome | RollerError, command: FinalizeCommand, tally: Tally) -> int:
    """Says what came of one, and returns its exit code."""
    if isinstance(outcome, RollerError):
        return _tell_failed(attempt, outcome, tally)
    say(_outcome_line(attempt, outcome.manifest, before=outcome.already_published))
    if outcome.already_published and _says_how(command.request):
        say(f"warning: {attempt}: published is final: the options given now had no effect on it")
    status = outcome.manifest["capture_status"]
    tally.count("published before" if outcome.already_published else f"published, capture {status}")
    return int(command.strict and status != CaptureStatus.COMPLETE)


def _tell_failed(path: Attempt | Place, error: RollerError, tally: Tally) -> int:
    say(f"error: {error}")
    tally.fail("failed", path, str(error))
    return error.exit_code


def _says_how(request: FinalizeRequest) -> bool:
    """Was any option given that changes what is published?"""
    return dataclasses.replace(request, before_publish=None, progress=None) != FinalizeRequest()


def _outcome_line(attempt: Attempt, manifest: dict[str, Any], *, before: bool) -> str:
    counts = manifest["counts"]
    done = "was published before" if before else "published"
    line = (
        f"{attempt}: {done}, capture {manifest['capture_status']}: {count(counts['calls'], 'call')} "
        f"({counts['exportable_calls']:,} exportable), {count(counts['participants'], 'participant')}, "
        f"{count(sum(counts['relations'].values()), 'relation')}"
    )
    reasons = [f"{reason['code']} ({reason['count']})" for reason in manifest["status_reasons"]]
    if reasons:
        line += f"; partial because of {', '.join(reasons)}"
    codes = dict.fromkeys(error["code"] for error in manifest["errors"])
    if codes:
        line += f"; errors: {', '.join(codes)}"
    if "native_logs_missing" in codes:
        line += " (the harness's logs were not found: --native names the HOME of the run)"
    return line
