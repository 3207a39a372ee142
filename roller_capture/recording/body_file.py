"""One body file while it grows."""

import errno
import os
from typing import Any, Final

from roller_capture.recording.work_folder import BODIES, WorkFolder


class BodyFile:
    """Takes bytes and never raises, since a disk error must not reach the traffic.

    After the first error nothing more is written, so that the file is always a true beginning of the body; `error` then
    says what happened and `where`.
    """

    def __init__(self, folder: WorkFolder, name: str) -> None:
        self.name: Final = name
        self.bytes = 0
        self.error: OSError | None = None
        self._space: Final = folder.space
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

    def close(self) -> None:
        """Waits for the disk and closes. Blocks: not for the event loop."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            self._fail(error)
        finally:
            os.close(descriptor)

    def _fail(self, error: OSError) -> None:
        self.error = self.error or error
        self._space.failed(error)

    def describe(self) -> dict[str, Any] | None:
        """`body` of an event, or `None` when there is no file."""
        return {"path": f"{BODIES}/{self.name}", "bytes": self.bytes} if self._exists else None
