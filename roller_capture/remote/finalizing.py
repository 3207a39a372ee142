"""Finalizing an attempt that lies elsewhere: its working files are fetched, published here, and put back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest, finalize_attempt
from roller_capture.finalizer_job import leave_of
from roller_capture.pool import Ask, Job
from roller_capture.remote.location import Location
from roller_capture.remote.publishing import put_back
from roller_capture.remote.staging import staged_attempt


@dataclass(frozen=True, slots=True)
class RemoteAttempt:
    """One attempt, and where its copy may lie if the process that works on it is on this machine."""

    location: Location
    scratch: Path

    def __str__(self) -> str:
        return str(self.location)


def finalize_remote(attempt: RemoteAttempt, request: FinalizeRequest) -> FinalizeOutcome:
    """Like `finalize_attempt`, which it calls. When something fails, nothing has been taken from the place."""
    with staged_attempt(attempt.location, attempt.scratch) as staged:
        outcome = finalize_attempt(staged.path, request)
        put_back(staged)
        return outcome


def remote_finalize_job(attempt: RemoteAttempt, request: FinalizeRequest) -> Job[RemoteAttempt]:
    """Like `finalizer_job.finalize_job`."""
    note: Callable[[str], None] | None = request.before_publish
    plain = replace(request, progress=None, before_publish=None)
    return Job(str(attempt), partial(_finalize, attempt, plain, note is not None), attempt, answer=note)


def _finalize(attempt: RemoteAttempt, request: FinalizeRequest, has_books: bool, ask: Ask) -> FinalizeOutcome:
    """Runs in the process."""
    return finalize_remote(attempt, replace(request, before_publish=leave_of(ask) if has_books else None))
