"""The run directory: made, found again, and used by one `collect` at a time."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.runs.books import SAMPLES, make_private
from roller_capture.runs.configuration import RUN_FILE, RunConfiguration
from roller_capture.runs.stored import write_json
from roller_capture.terminal import say

_LOOK_EVERY: Final = 0.1
_LEFT_BEHIND_SECONDS: Final = 300.0
"""What the watchdog of a killed `collect` may take: it waits for harness and proxy to end, and copies logs."""


@dataclass(frozen=True, slots=True)
class RunLock:
    """A held run directory. `shared` is what watchdog and workers hold too, for as long as they live."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that has just begun; `undo` takes all of it away again."""

    lock: RunLock
    undo: Callable[[], None]


def check_new(run_dir: Path) -> None:
    """Refuses (exit 2) a run directory that is in use, or no directory."""
    try:
        taken = run_dir.exists() and any(run_dir.iterdir())
    except NotADirectoryError:
        raise _refused(run_dir, "is no directory") from None
    except OSError as error:
        raise _refused(run_dir, f"cannot be used ({error.strerror})") from None
    if taken and os.path.lexists(run_dir / RUN_FILE):
        problem = "holds a run already: go on with it by --resume, or name another one with --run-dir"
        raise RollerError(f"--run-dir {run_dir}: {problem}", exit_code=2)
    if taken:
        raise _refused(run_dir, "is not empty: each run has a directory of its own")


def check_old(run_dir: Path) -> None:
    """Refuses (exit 2) a directory in which there is nothing to resume: a misspelt name must not cost a whole run."""
    try:
        there = os.path.lexists(run_dir / RUN_FILE)
    except OSError:
        there = False
    if not there:
        raise RollerError(
            f"--run-dir {run_dir}: there is no run to resume (no {RUN_FILE}): leave --resume out to begin one",
            exit_code=2,
        )


@contextlib.contextmanager
def new_run(run_dir: Path, configuration: RunConfiguration, held: contextlib.ExitStack) -> Iterator["NewRun"]:
    """Makes the run directory and run.json, and holds it as long as `held`; what is done inside belongs to it.

    Raises `RollerError` (exit 2) when that cannot be, when it is not new, or when another `collect` was quicker. Then,
    and when what is done inside raises, nothing of it stays behind.
    """
    check_new(run_dir)
    missing = [folder for folder in (run_dir, *run_dir.parents) if not folder.exists()]
    ours = False

    def write() -> None:
        nonlocal ours
        _write_configuration(run_dir, configuration)
        ours = True

    def undo() -> None:
        if ours:
            _remove_contents(run_dir)
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()

    try:
        make_private(run_dir)
        yield NewRun(held.enter_context(locked(run_dir, write)), undo)
    except RollerError as error:
        undo()
        raise _refused(run_dir, str(error)) from None


def _write_configuration(run_dir: Path, configuration: RunConfiguration) -> None:
    try:
        write_json(run_dir / RUN_FILE, configuration.document(), new=True)
    except FileExistsError:
        raise RollerError("another collect has just begun a run here") from None
    except OSError as error:
        raise RollerError(f"{RUN_FILE} cannot be written ({error.strerror})") from None


def _remove_contents(run_dir: Path) -> None:
    with contextlib.suppress(OSError):
        (run_dir / RUN_FILE).unlink()
    shutil.rmtree(run_dir / SAMPLES, ignore_errors=True)


def _refused(run_dir: Path, problem: str) -> RollerError:
    told = problem.removeprefix(f"{run_dir} ")
    return RollerError(f"--run-dir {run_dir}: {told}: name another one with --run-dir", exit_code=2)


@contextlib.contextmanager
def locked(run_dir: Path, begin: Callable[[], None] = lambda: None) -> Iterator[RunLock]:
    """Holds the run directory for one `collect`; `begin` is called as soon as nobody else can have it.

    Raises `RollerError` (exit 1) when another one has it. What a killed `collect` has left at work there (watchdog,
    finalizer) is waited for: the books are not right before.
    """
    with _open(run_dir) as own:
        if not _try(own, run_dir):
            raise RollerError(f"{run_dir}: another collect is at work in this run directory: wait for its end")
        begin()
        make_private(run_dir / SAMPLES)
        with _open(run_dir / SAMPLES, os.O_NOFOLLOW) as shared:
            _wait_for(shared, run_dir)
            yield RunLock(own, shared)


def _wait_for(shared: int, run_dir: Path) -> None:
    deadline = time.monotonic() + _LEFT_BEHIND_SECONDS
    told = False
    while not _try(shared, run_dir):
        if not told:
            say(f"{run_dir}: waiting until what a killed collect left here is put in order")
            told = True
        if time.monotonic() > deadline:
            raise RollerError(f"{run_dir}: what a killed collect left here does not end: end its processes first")
        time.sleep(_LOOK_EVERY)


@contextlib.contextmanager
def _open(folder: Path, flags: int = 0) -> Iterator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    except OSError as error:
        reason = "a link is in its place" if folder.is_symlink() else error.strerror
        raise RollerError(f"{folder}: cannot be opened ({reason})") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try(descriptor: int, run_dir: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RollerError(f"{run_dir}: cannot be locked ({error.strerror}): use a file system that has flock") from None
    return True
