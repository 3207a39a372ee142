"""A process of a pool: it takes one job after the other from stdin and answers on stdout, both pickled.

The two ends are one program, so nothing foreign is ever unpickled. A job is called with `ask`, by which it can put a
question to the parent in between; it waits for the answer. The process has a session of its own, so a Ctrl-C in the
terminal does not reach it; when the parent is gone, it ends at its next word.
"""

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import IO, Any

from roller_capture.errors import RollerError

Ask = Callable[[Any], Any]
"""Puts a question to the parent. Raises `RefusedError` when it could not be answered."""

Task = Callable[[Ask], Any]
"""Picklable: a function of a module, or a `partial` of one."""


class RefusedError(Exception):
    """The parent has failed at the answer, and says itself why."""


class _ParentGoneError(BaseException):
    """Nobody is there to work for: no handler of ordinary errors may keep a task alive then."""


def main() -> None:
    """Works until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    words = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    with contextlib.suppress(_ParentGoneError):
        _work(sys.stdin.buffer, words)


def _work(jobs: IO[bytes], words: IO[bytes]) -> None:
    def ask(question: Any) -> Any:
        _tell(words, ("ask", question))
        answered, value = _hear(jobs)
        if not answered:
            raise RefusedError
        return value

    while True:
        task: Task = _hear(jobs)
        _tell(words, result_of(task, ask))


def result_of(task: Task, ask: Ask) -> tuple[str, Any]:
    """`done` and what the task returned, `error` with message and exit code, or `failed` and what went wrong."""
    try:
        return "done", task(ask)
    except RollerError as error:
        return "error", (str(error), error.exit_code)
    except RefusedError:
        return "error", ("refused", 1)
    except Exception as error:  # noqa: BLE001 - the other jobs are done all the same
        return "failed", f"{type(error).__name__}: {error}"


def _hear(stream: IO[bytes]) -> Any:
    try:
        return pickle.load(stream)  # noqa: S301 - from the parent alone
    except (EOFError, pickle.UnpicklingError):
        raise _ParentGoneError from None


def _tell(stream: IO[bytes], message: tuple[str, Any]) -> None:
    try:
        stream.write(pickle.dumps(message))
        stream.flush()
    except BrokenPipeError:
        raise _ParentGoneError from None
