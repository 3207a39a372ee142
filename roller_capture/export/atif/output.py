"""Where trajectories go: one file, or a folder with a file for each. Either is there as a whole, or not at all."""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from roller_capture.errors import RollerError
from roller_capture.export.output_files import clear_errors, sync_path

_BUFFER: Final = 1024 * 1024
_LONGEST_NAME: Final = 120


class OutputFolder:
    """A folder that appears under its name when everything in it is written.

    One that is there already must be empty, or `overwrite` be given: then files of the same names are replaced, each as
    a whole, and what else lies there stays.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        absolute = path.absolute()
        self._staging = absolute.with_name(f".{absolute.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")

    def check(self) -> None:
        """Raises `RollerError` (exit 2) where the folder must not, or cannot, be written."""
        parent = self._staging.parent
        if not parent.is_dir():
            raise RollerError(f"{parent}: there is no such folder: make it first", exit_code=2)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RollerError(f"{parent}: nothing can be written there", exit_code=2)
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
            with clear_errors(self._path):
                self._staging.mkdir(mode=0o700)
                yield
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)

    def open(self, name: str) -> IO[bytes]:
        """A new file, private as all that holds conversations. A name is given once."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(self._staging / name, flags, 0o600), "wb", buffering=_BUFFER)

    def remove(self, name: str) -> None:
        """Takes back a file: its trajectory turned out to be none."""
        (self._staging / name).unlink(missing_ok=True)

    def publish(self) -> None:
        """Gives the folder, or where it is there already its files, their names."""
        for file in self._staging.iterdir():
            sync_path(file)
        if not os.path.lexists(self._path):
            self._staging.rename(self._path)
        else:
            for file in sorted(self._staging.iterdir()):
                file.replace(self._path / file.name)
        sync_path(self._path)


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
