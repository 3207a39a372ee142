"""Where trajectories go: one file, or a folder with a file for each. Either is there as a whole, or not at all."""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.export.output_files import clear_errors, sync_path
from roller_capture.publication import exchange
from roller_capture.remote.sending import destination_of

_BUFFER: Final = 1024 * 1024
_LONGEST_NAME: Final = 120


class OutputFolder:
    """A folder that appears under its name when everything in it is written.

    One that is there already must be empty, or `overwrite` be given: then files of the same names are replaced, and
    what else lies there stays. All are replaced in one step, by an exchange of the two folders: an interruption leaves
    no mixture of old and new. Where that cannot be done (another folder lies in it, a file system without links or
    exchanges, a mount point), they are replaced one by one, each as a whole.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        absolute = path.absolute()
        self._staging = absolute.with_name(f".{absolute.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")
        self._old: frozenset[str] | None = None
        """From the exchange of the folders on: what of the old one is in the new one, under the same name."""

    def check(self) -> None:
        """Raises `RollerError` (exit 2) where the folder must not, or cannot, be written."""
        parent = self._staging.parent
        if not parent.is_dir():
            raise RollerError(f"{parent}: there is no such folder: make it first", exit_code=2)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RollerError(f"{parent}: nothing can be written there", exit_code=2)
        if (destination := destination_of(parent)) is not None:
            destination.check_folder(self._path.name, overwrite=self._overwrite)
        if not os.path.lexists(self._path):
            return
        if self._path.is_symlink() or not self._path.is_dir():
            raise RollerError(f"{self._path}: is no folder: several trajectories need one", exit_code=2)
        if not self._overwrite and any(self._path.iterdir()):
            raise RollerError(f"{self._path}: is not empty: name another folder, or give --overwrite", exit_code=2)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Nothing stays behind of what was not published."""
        try:
            with stops_cleanly(), clear_errors(self._path):
                self._staging.mkdir(mode=0o700)
                yield
        finally:
            if self._old is None:
                shutil.rmtree(self._staging, ignore_errors=True)
            else:
                self._remove_old(self._old)

    def open(self, name: str) -> IO[bytes]:
        """A new file, private as all that holds conversations. A name is given once."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(self._staging / name, flags, 0o600), "wb", buffering=_BUFFER)

    def remove(self, name: str) -> None:
        """Takes back a file: its trajectory turned out to be none."""
        (self._staging / name).unlink(missing_ok=True)

    def publish(self) -> None:
        """Gives the folder its name, and keeps what else lies there."""
        for file in self._staging.iterdir():
            sync_path(file)
        if not os.path.lexists(self._path):
            self._staging.rename(self._path)
        elif not self._overwrite and any(self._path.iterdir()):
            raise RollerError(f"{self._path}: somebody else has just written there: nothing was replaced")
        elif not self._exchange():
            for file in sorted(self._staging.iterdir()):
                file.replace(self._path / file.name)
        sync_path(self._path)
        if (destination := destination_of(self._path.parent)) is not None:
            names = sorted(f"{self._path.name}/{file.name}" for file in self._path.iterdir())
            destination.send(self._path.parent, names, overwrite=self._overwrite)

    def _exchange(self) -> bool:
        """Whether the new folder stands in the place of the old one, with what else lay there. If not, nothing was
        changed."""
        names = {file.name for file in self._staging.iterdir()}
        kept = [file for file in self._path.iterdir() if file.name not in names]
        try:
            for file in kept:
                if file.is_symlink() or not file.is_file():
                    raise IsADirectoryError(file)
                os.link(file, self._staging / file.name)
            shutil.copymode(self._path, self._staging)
            sync_path(self._staging)
            self._old = frozenset(names | {file.name for file in kept})
            exchange(self._staging, self._path.absolute())
        except (OSError, AttributeError):  # the latter: a C library without that call
            self._old = None
            for file in kept:
                (self._staging / file.name).unlink(missing_ok=True)
            return False
        sync_path(self._path.absolute().parent)
        return True

    def _remove_old(self, replaced: frozenset[str]) -> None:
        """Removes the old folder. What somebody put there at the last moment goes to the new one."""
        with contextlib.suppress(OSError):
            for file in self._staging.iterdir():
                if file.name in replaced:
                    file.unlink()
                else:
                    file.rename(self._path / file.name)
            self._staging.rmdir()


class FileNames:
    """A file name for each attempt: readable, harmless, and given once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def stem(self, sample_id: str | None, attempt: str, capture_id: str) -> str:
        """The sample and the attempt; where two are called the same, the capture too."""
        stem = _harmless(attempt if sample_id is None else f"{sample_id}.{attempt}")
        if stem.casefold() in self._given:
            stem = _harmless(f"{stem[: _LONGEST_NAME // 2]}.{capture_id}")
        while stem.casefold() in self._given:
            stem = f"{stem[: _LONGEST_NAME // 2]}.{secrets.token_hex(4)}"
        self._given.add(stem.casefold())
        return stem


def file_name(stem: str, number: int) -> str:
    """The file of a root's conversation; `number` counts from 0. Later ones are named as Harbor's own agents do."""
    return f"{stem}.json" if number == 0 else f"{stem}.cont-{number}.json"


def _harmless(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:_LONGEST_NAME].lstrip(".") or "attempt"
