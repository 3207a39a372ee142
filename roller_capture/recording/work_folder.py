"""Files of `ATTEMPT_DIR/work/`: opened below a directory handle, never through a link, private whatever the umask."""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.recording.disk_space import DiskSpace
from roller_capture.recording.file_closer import FileCloser
from roller_capture.recording.path_trouble import file_above, in_the_way, refusal

BODIES: Final = "bodies"
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private_directory(path: Path) -> None:
    """Makes `path` (and its parents) where missing, with mode 0700. Raises `RollerError` when that cannot be.

    A parent that others can write to would let them put another folder in the place of this one.
    """
    try:
        for folder in (*reversed(path.parents), path):
            _make_where_missing(folder)
    except OSError as error:
        raise file_above(path) or refusal(path, "cannot be made", error) from None


def _make_where_missing(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except OSError:  # it is there, in a file system that cannot be written to as well
        if folder.is_dir():
            return
        raise
    folder.chmod(0o700)


class WorkFolder:
    """The open folders `work/` and `work/bodies/`."""

    def __init__(self, path: Path) -> None:
        """Opens both, and makes them where missing. Raises `RollerError` for links and for anything but a folder."""
        self.path: Final = path
        self._work = _open_directory(path)
        try:
            self._bodies = _open_directory(path / BODIES)
        except RollerError:
            os.close(self._work)
            raise
        self.space: Final = DiskSpace(self._work, path.parent)
        self.closer: Final = FileCloser()

    def new_body(self, name: str) -> int:
        """A write handle on a body file that did not exist. Raises `OSError`."""
        if not self.space.takes_bodies():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=self._bodies)
        # Looking costs less than setting: only a umask that takes from the owner makes a difference.
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def body_names(self) -> list[str]:
        """Names of the body files that are there."""
        with os.scandir(self._bodies) as entries:
            return [entry.name for entry in entries]

    def open_events(self, name: str) -> int:
        """A handle that reads anywhere and writes only at the end. Raises `OSError`."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, 0o600, dir_fd=self._work)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{name} is no regular file")
        os.fchmod(descriptor, 0o600)
        return descriptor

    def read(self, name: str, limit: int) -> bytes | None:
        """The contents of a file, at most `limit` bytes, or `None` when there is none. Raises `OSError`."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._work)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read(limit)

    def replace(self, name: str, data: bytes) -> None:
        """Puts `data` in place of a file so that a reader sees the old or the new one whole. Raises `OSError`."""
        temporary = f"{name}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self._work)
        descriptor = os.open(temporary, _NEW_FILE, 0o600, dir_fd=self._work)
        try:
            os.fchmod(descriptor, 0o600)
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=self._work, dst_dir_fd=self._work)
        os.fsync(self._work)

    def close(self) -> None:
        """Gives the handles back. Blocks where bodies were closed a moment ago."""
        self.closer.finish()
        os.close(self._bodies)
        os.close(self._work)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`: a write can be cut short by a full disk or a signal. Raises `OSError`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _open_directory(path: Path) -> int:
    make_private_directory(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise in_the_way(path, folder=True) or refusal(path, "cannot be opened", error) from None
    try:
        os.fchmod(descriptor, 0o700)
    except OSError as error:
        os.close(descriptor)
        raise refusal(path, "cannot be made private", error) from None
    return descriptor
