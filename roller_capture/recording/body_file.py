"""One body file while it grows."""

import errno
import os
from collections.abc import Callable
from typing import Any, Final

from roller_capture.recording.work_folder import BODIES, WorkFolder


class BodyFile:
    """Takes bytes and never raises, since a disk error must not reach the traffic.

    After the first error nothing more is written, so that the file is always a true beginning of the body; `error` then
    says what happened, and `failed` is told once; after `close` that may be in another thread.
    """

    def __init__(self, folder: WorkFolder, name: str, failed: Callable[[OSError], None]) -> None:
        self.name: Final = name
        self.bytes = 0
        self.error: OSError | None = None
        self._space: Final = folder.space
        self._closer: Final = folder.closer
        self._failed: Final = failed
        self._descriptor: int | None = None
        try:
            self._descriptor = folder.new_body(name)
        except OSError as error:
            self._fail(error)
        self._exists: Final = self._descriptor is not None

    def write(self, data: bytes) -> None:
        """Appends `data`, unbuffered: what `write` has returned for survives a kill."""
        if self._descriptor is None or self.error is not None or not data:
            return
        if self._space.full:
            # What room there is belongs to the events.
            self._fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            return
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._descriptor, view)
                self.bytes += written
                view = view[written:]
        except OSError as error:
            self._fail(error)

    def overwrite(self, offset: int, data: bytes) -> None:
        """Puts `data` in the place of as many bytes that were written before."""
        if self._descriptor is None or self.error is not None:
            return
        try:
            os.pwrite(self._descriptor, data, offset)
        except OSError as error:
            self._fail(error)

    def rewrite(self, data: bytes) -> None:
        """Puts `data` in the place of all that was written."""
        if self._descriptor is None or self.error is not None:
            return
        try:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        except OSError as error:
            self._fail(error)
            return
        self.bytes = 0
        self.write(data)

    def close(self) -> None:
        """Nothing more comes. Does not wait for the disk."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._closer.close(descriptor, self._fail)

    def _fail(self, error: OSError) -> None:
        if self.error is None:
            self.error = error
            self._failed(error)

    def describe(self) -> dict[str, Any] | None:
        """`body` of an event, or `None` when there is no file."""
        return {"path": f"{BODIES}/{self.name}", "bytes": self.bytes} if self._exists else None
