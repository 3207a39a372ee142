"""The lock of a working folder: one recorder or one finalizer at a time."""

import contextlib
import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Final

import orjson

from roller_capture.errors import RollerError
from roller_capture.recording.path_trouble import in_the_way, refusal

LOCK_FILE: Final = "lock"
_HELD_LOCKS: Final = Path("/proc/locks")


class Lock:
    """A held lock. The kernel frees it when the process dies; the file stays, since its age proves nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Frees the lock; a second call does nothing.

        By a word of its own: a child that another thread has just forked holds the descriptor too, until it runs its
        program.
        """
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def acquire(work_dir: Path, role: str) -> Lock:
    """Locks `work_dir` for `role` ("recorder" or "finalizer") without waiting.

    Raises `RollerError` (exit 1) naming the holder when it is taken, and when the lock file cannot be opened.
    """
    path = work_dir / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise in_the_way(path, folder=False) or refusal(path, "cannot be opened", error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise in_the_way(path, folder=False) or RollerError(f"{path}: is no regular file: move it away")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(descriptor)
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise RollerError(f"{work_dir.parent}: in use by {holder}: stop it first") from None
        raise RollerError(f"{path}: cannot be locked ({error.strerror}): use a file system that has flock") from None
    _write_holder(descriptor, role)
    return Lock(descriptor)


def is_held(path: Path) -> bool | None:
    """Does some process hold the lock of a file? Told from what the kernel lists, so that nobody who wants it meets us
    there; `None` where the kernel lists nothing."""
    try:
        inode = path.lstat().st_ino
        lines = _HELD_LOCKS.read_text().splitlines()
    except OSError:
        return None
    held = (line.split() for line in lines if " FLOCK " in line and "->" not in line)
    return any(len(parts) > 5 and parts[5].rpartition(":")[2] == str(inode) for parts in held)


def holder_of(work_dir: Path) -> str | None:
    """Who holds the lock of a working folder now, such as "a recorder (process 7)"; `None` when nobody is known to."""
    path = work_dir / LOCK_FILE
    if not is_held(path):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


def _write_holder(descriptor: int, role: str) -> None:
    """Says who holds the lock. Only messages use it, so a full disk must not stop a finalizer here."""
    text = orjson.dumps({"pid": os.getpid(), "role": role}) + b"\n"
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
    except OSError:
        return


def _holder(descriptor: int) -> str:
    try:
        text = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError, RecursionError):
        text = None
    role, pid = (text.get("role"), text.get("pid")) if isinstance(text, dict) else (None, None)
    if role in ("recorder", "finalizer") and isinstance(pid, int):
        return f"a {role} (process {pid})"
    return "another process"
