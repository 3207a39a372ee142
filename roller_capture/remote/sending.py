"""Files that were written here and are sent elsewhere when all of them are whole."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.remote.location import Location
from roller_capture.remote.store import Store

_DESTINATIONS: Final[dict[Path, "Destination"]] = {}


class Destination:
    """The folder elsewhere that a folder of this machine stands for."""

    def __init__(self, location: Location) -> None:
        """Raises `RollerError` (exit 2) where the URL cannot be used."""
        self.location = location
        self._store = Store(location)

    def check(self, names: Sequence[str], *, overwrite: bool) -> None:
        """Raises `RollerError` (exit 2) where a file is that must not be replaced, and where there is no bucket."""
        for name in names if not overwrite else ():
            if self._store.entry(name) is not None:
                raise RollerError(
                    f"{self.location / name}: is there already: name another file, or give --overwrite", exit_code=2
                )
        self._refuse_no_bucket(names[0])

    def check_folder(self, name: str, *, overwrite: bool) -> None:
        """Raises `RollerError` (exit 2) where a folder holds anything that must not be replaced, and where there is no
        bucket."""
        if not overwrite and Store(self.location / name).listing():
            raise RollerError(
                f"{self.location / name}: is not empty: name another folder, or give --overwrite", exit_code=2
            )
        self._refuse_no_bucket(name)

    def _refuse_no_bucket(self, name: str) -> None:
        if (missing := self._store.missing_bucket()) is not None:
            raise RollerError(f"{self.location / name}: there is no bucket {missing}: make it first", exit_code=2)

    def send(self, folder: Path, names: Sequence[str], *, overwrite: bool) -> None:
        """Puts the files there in this order, the last one when all others are there.

        Raises `RollerError`: then nothing is there that was not before; what was replaced is told.
        """
        self.check(names, overwrite=overwrite)
        new = {name for name in names if not overwrite or self._is_free(name)}
        sent: list[str] = []
        try:
            for name in names:
                self._store.put(folder / name, name)
                sent.append(name)
        except BaseException as error:
            for name in names[: len(sent) + 1]:
                if name in new and (name in sent or self._arrived(folder / name, name)):
                    with contextlib.suppress(RollerError):
                        self._store.remove(name)
            if isinstance(error, RollerError):
                replaced = [name for name in sent if name not in new]
                left = f"of the files there only {', '.join(replaced)} was replaced" if replaced else None
                raise RollerError(f"{error}: {left or 'nothing was exported'}") from None
            raise

    def _is_free(self, name: str) -> bool:
        """Is it sure that no file is there which was replaced?"""
        try:
            return self._store.entry(name) is None
        except RollerError:
            return False

    def _arrived(self, file: Path, name: str) -> bool:
        """Is it there although putting it failed? What somebody else has put there is not."""
        try:
            return self._store.holds(file, name)
        except RollerError:
            return False


@contextlib.contextmanager
def sent_to(folder: Path, destination: Destination) -> Iterator[None]:
    """Inside, what gets its name in `folder` is sent to the destination."""
    _DESTINATIONS[folder] = destination
    try:
        yield
    finally:
        del _DESTINATIONS[folder]


def destination_of(folder: Path) -> Destination | None:
    """Where files of this folder are sent; `None` for an ordinary folder."""
    return _DESTINATIONS.get(folder)
