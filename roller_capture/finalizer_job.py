"""Finalizing as a job of a process pool: what is asked of a process, and what runs in it.

Before it publishes, it tells the intended hash and waits for leave: the books come first (design section 9), and they
are written by the parent alone. When the parent is killed, the leave never comes and nothing is published.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest, finalize_attempt
from roller_capture.pool import Ask, Job, RefusedError


def finalize_job(attempt: Path, request: FinalizeRequest) -> Job[Path]:
    """The job that publishes an attempt; its result is a `FinalizeOutcome`. `before_publish` is called here."""
    note = request.before_publish
    plain = dataclasses.replace(request, progress=None, before_publish=None)
    return Job(str(attempt), partial(_finalize, attempt, plain, note is not None), attempt, answer=note)


def _finalize(attempt: Path, request: FinalizeRequest, has_books: bool, ask: Ask) -> FinalizeOutcome:
    """Runs in the process."""
    return finalize_attempt(attempt, dataclasses.replace(request, before_publish=leave_of(ask) if has_books else None))


def leave_of(ask: Ask) -> Callable[[str], None]:
    """What waits in a process until the parent has written the hash of a manifest into the books."""

    def wait(digest: str) -> None:
        try:
            ask(digest)
        except RefusedError:
            raise RollerError("not published, since the books of the run could not be written") from None

    return wait
