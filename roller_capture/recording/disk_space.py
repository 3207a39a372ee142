"""What is done when the disk takes no more: the user is told once, and a reserve is freed for events.

Bodies are what fills a disk. Once it is full they are left out, so that the reserve is for the events of the calls that
follow, and for attempt.json at the end.
"""

import contextlib
import errno
import os
import sys
import threading
from pathlib import Path
from typing import Final

RESERVE_FILE: Final = "reserve"
RESERVE_BYTES: Final = 256 * 1024
_LAST_BYTES: Final = 16 * 1024
"""Bytes of the reserve that only the last attempt.json gets."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DiskSpace:
    """The reserve in a working folder, and the word to the user. Nothing here raises; any thread may call."""

    def __init__(self, work: int, attempt_dir: Path) -> None:
        """`work` is the open working folder."""
        self._work: Final = work
        self._attempt_dir: Final = attempt_dir
        self._lock: Final = threading.Lock()
        self._told = False
        self._full = False

    @property
    def full(self) -> bool:
        """Whether the disk was full, and bodies are left out."""
        return self._full

    def keep_reserve(self) -> bool:
        """Makes the reserve file, or what is left of one whole again; false where there is no room for it."""
        try:
            descriptor = os.open(RESERVE_FILE, _OPEN, 0o600, dir_fd=self._work)
        except OSError:
            return False
        try:
            os.fchmod(descriptor, 0o600)
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            with contextlib.suppress(OSError):
                # A part may have been allocated: it goes back to the events.
                os.ftruncate(descriptor, min(_LAST_BYTES, os.fstat(descriptor).st_size))
            return False
        finally:
            os.close(descriptor)
        return True

    def failed(self, error: OSError) -> bool:
        """Something could not be written: tells the user the first time. Whether events may fit after all."""
        with self._lock:
            told, self._told = self._told, True
            if error.errno in _FULL and not self._full:
                self._full = True
                self._shrink_reserve()
        if not told:
            self._tell(os.strerror(error.errno) if error.errno else str(error))
        return error.errno in _FULL

    def takes_bodies(self) -> bool:
        """Whether bodies can be written: not when the disk was full, until there is room for a whole reserve again."""
        with self._lock:
            if self._full and self.keep_reserve():
                self._full = False
            return not self._full

    def drop_reserve(self) -> None:
        """Removes the reserve file."""
        with contextlib.suppress(OSError):
            os.unlink(RESERVE_FILE, dir_fd=self._work)

    def _shrink_reserve(self) -> None:
        with contextlib.suppress(OSError):
            descriptor = os.open(RESERVE_FILE, _OPEN & ~os.O_CREAT, dir_fd=self._work)
            try:
                os.ftruncate(descriptor, min(_LAST_BYTES, os.fstat(descriptor).st_size))
            finally:
                os.close(descriptor)

    def _tell(self, cause: str) -> None:
        # On stderr itself: mitmproxy's log is silent with -q.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(
                f"roller-capture: recording failed in {self._attempt_dir} ({cause}): traffic goes on, "
                "calls from now on may be recorded without bodies\n"
            )
            sys.stderr.flush()
