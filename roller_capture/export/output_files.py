"""Files that appear under their names when all of them are whole, and not at all otherwise."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError

_BUFFER: Final = 1024 * 1024
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class OutputFiles:
    """Files to be written side by side; the last one named appears last."""

    def __init__(self, paths: Sequence[Path], *, overwrite: bool) -> None:
        self._overwrite = overwrite
        self._token = secrets.token_hex(4)
        self._paths = tuple(paths)

    def check(self) -> None:
        """Raises `RollerError` (exit 2) where a file must not, or cannot, be written."""
        folder = self._paths[-1].parent
        if not folder.is_dir():
            raise RollerError(f"{folder}: there is no such folder: make it first", exit_code=2)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise RollerError(f"{folder}: nothing can be written there", exit_code=2)
        for path in self._paths:
            if not os.path.lexists(path):
                continue
            if not self._overwrite:
                raise RollerError(f"{path}: is there already: name another file, or give --overwrite", exit_code=2)
            if path.is_symlink() or not path.is_file():
                raise RollerError(f"{path}: is no regular file: name another one", exit_code=2)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """What is opened inside gets its name when the block ends well; else nothing stays behind."""
        try:
            with stops_cleanly(), clear_errors(self._paths[-1]):
                yield
        finally:
            for path in self._paths:
                with contextlib.suppress(OSError):
                    self._temporary(path).unlink()

    def open(self, path: Path) -> IO[bytes]:
        """A new file, private as all that holds conversations."""
        descriptor = os.open(self._temporary(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        return os.fdopen(descriptor, "wb", buffering=_BUFFER)

    def write(self, path: Path, text: str) -> None:
        """A whole small file."""
        with self.open(path) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))

    def publish(self) -> None:
        """Gives the files their names: now they are whole."""
        written = [path for path in self._paths if self._temporary(path).exists()]
        for path in written:
            sync_path(self._temporary(path))
        for path in written:
            if self._overwrite:
                self._temporary(path).replace(path)
                continue
            try:
                _place(self._temporary(path), path)
            except FileExistsError:
                raise RollerError(f"{path}: somebody else has just written it: nothing was replaced") from None
        sync_path(self._paths[-1].parent)

    def _temporary(self, path: Path) -> Path:
        return path.with_name(f".{path.name[:200]}.{self._token}.tmp")


def _place(temporary: Path, path: Path) -> None:
    """Gives a file its name, but never in the place of another: unlike a rename, a link does not.

    Where the file system has no links (FAT, some that are mounted over a network) looking first has to do.
    """
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        temporary.rename(path)


def sync_path(path: Path) -> None:
    """On the disk before anybody is told that it is there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Trouble with the disk as one line for people."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = "no space left on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or error
        raise RollerError(f"{path}: cannot be written ({reason}): nothing was exported") from None
