"""Files that appear under their names when all of them are whole, and not at all otherwise."""

import contextlib
import errno
import os
import secrets
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.remote.sending import Destination, destination_of

_BUFFER: Final = 1024 * 1024
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class OutputFiles:
    """Files to be written side by side; the last one named appears last."""

    def __init__(self, paths: Sequence[Path], *, overwrite: bool) -> None:
        self._overwrite = overwrite
        self._token = secrets.token_hex(4)
        self._paths = tuple(paths)

    @property
    def _named(self) -> Path:
        """The file that the user named; the others lie beside it."""
        return self._paths[-1]

    def check(self) -> None:
        """Raises `RollerError` (exit 2) where a file must not, or cannot, be written."""
        folder = self._named.parent
        if not folder.is_dir():
            raise RollerError(f"{folder}: there is no such folder: make it first", exit_code=2)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise RollerError(f"{folder}: nothing can be written there", exit_code=2)
        for path in reversed(self._paths):
            if not os.path.lexists(path):
                continue
            if not self._overwrite:
                told = f"{self._told(path)} is there already: name another file, or give --overwrite"
                raise RollerError(told, exit_code=2)
            if path.is_symlink() or not path.is_file():
                raise RollerError(f"{self._told(path)} is no regular file: name another one", exit_code=2)
        if (destination := destination_of(folder)) is not None:
            with self._told_of(destination):
                destination.check([path.name for path in reversed(self._paths)], overwrite=self._overwrite)

    def _told(self, path: Path) -> str:
        """The subject of a sentence about one of the files: by the one that the user named."""
        return f"{path}:" if path == self._named else f"--output {self._named}: its {path.name}"

    @contextlib.contextmanager
    def _told_of(self, destination: Destination) -> Iterator[None]:
        """The same for what is said of files that lie elsewhere."""
        try:
            yield
        except RollerError as error:
            named = f"{destination.location / self._named.name}"
            if f"{error}".startswith(f"{named}: "):
                raise
            raise RollerError(f"--output {named}: {error}", exit_code=error.exit_code) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """What is opened inside gets its name when the block ends well; else nothing stays behind."""
        try:
            with stops_cleanly(), clear_errors(self._named):
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
        with _undisturbed():
            for path in written:
                self._publish(path)
        sync_path(self._named.parent)
        if (destination := destination_of(self._named.parent)) is not None:
            with self._told_of(destination):
                destination.send(self._named.parent, [path.name for path in written], overwrite=self._overwrite)

    def _publish(self, path: Path) -> None:
        if self._overwrite:
            self._temporary(path).replace(path)
            return
        try:
            _place(self._temporary(path), path)
        except FileExistsError:
            raise RollerError(f"{self._told(path)} was just written by somebody else: nothing was replaced") from None

    def _temporary(self, path: Path) -> Path:
        return path.with_name(f".{path.name[:200]}.{self._token}.tmp")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that stop a command wait for the end of the block: no card of new rows beside old ones.

    By handlers: a mask would hold for this thread alone, and any other would take the signal for it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):
            signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


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
