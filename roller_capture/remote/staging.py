"""Copies of what lies elsewhere, in private folders of this machine, as long as something works on them.

A copy lies below folders of the same names as the original, as far as a run's sample has them: what an attempt is
called, and where it finds its books, goes by that.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.paths import named, standing_for
from roller_capture.publication import FORMAL_FILES, MANIFEST, RAW, STAGING_PREFIX
from roller_capture.remote.location import Location
from roller_capture.remote.names import path_problem
from roller_capture.remote.store import Entry, Store
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, SAMPLES
from roller_capture.runs.configuration import RUN_FILE
from roller_capture.working_files import WORK_DIR

_LEVELS: Final = 4
"""samples, the sample, capture, the attempt."""

_MOST_FILES: Final = 200_000
_FREE_BYTES: Final = 256 * 1024 * 1024
"""So much room stays on the disk for others, beside what is fetched."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A copy. `files` are those that were fetched, by their names relative to the place."""

    path: Path
    store: Store
    files: Mapping[str, Entry]


@contextlib.contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder that only this user can read, removed at the end; below `parent` where that is on this machine."""
    is_here = parent is not None and parent.is_dir()
    with tempfile.TemporaryDirectory(prefix="roller-remote-", dir=parent if is_here else None) as folder:
        yield Path(folder).resolve()


@contextlib.contextmanager
def stand_in(location: Location, parent: Path | None = None) -> Iterator[Path]:
    """A path of this machine for a place: nothing is there yet, and what is said of it is said of the place."""
    with private_folder(parent) as folder:
        levels = min(_LEVELS, len(location.parts) - 1)
        above, below = location.parts[: len(location.parts) - levels], location.parts[len(location.parts) - levels :]
        bucket = above[0] if len(above) == 1 and above[0].isascii() else ""
        anchor = folder / (bucket or "at")  # a bucket may be a sample: its books know it by its name
        with standing_for(anchor, f"{location.protocol}://{'/'.join(above)}"):
            path = anchor.joinpath(*below)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield path


@contextlib.contextmanager
def staged_attempt(location: Location, scratch: Path | None = None, *, books: bool = False) -> Iterator[Staged]:
    """A copy of one attempt, with `books` that of its sample's and its run's, too. What a publication has left behind
    that was never finished is not fetched. Raises `RollerError`."""
    with stand_in(location, scratch) as path, spoken_plainly():
        yield fetch_attempt(location, path, books=books)


def fetch_attempt(location: Location, path: Path, *, books: bool = False) -> Staged:
    """Brings one attempt to `path`."""
    store = Store(location)
    files = {name: entry for name, entry in store.listing().items() if not name.startswith(STAGING_PREFIX)}
    if not files or "" in files:
        raise RollerError(f"{location}: {'is no folder' if files else 'does not exist'}: name an attempt", exit_code=2)
    if MANIFEST not in files and any(name.startswith(f"{WORK_DIR}/") for name in files):
        files = {name: entry for name, entry in files.items() if not is_leftover(name)}
    fetch_files(store, files, path)
    if books and (sample := sample_of(location)) is not None:
        fetch_books(sample, path.parent.parent)
    return Staged(path, store, files)


def is_leftover(name: str) -> bool:
    """Of a publication that was cut off, where there is no manifest?"""
    return name in FORMAL_FILES or name.startswith((f"{RAW}/", STAGING_PREFIX))


def sample_of(attempt: Location) -> Location | None:
    """The folder with the books of an attempt; `None` for one that lies in no sample."""
    return attempt.parent.parent if len(attempt.parts) > 2 and attempt.parent.name == CAPTURE else None


def fetch_books(sample: Location, folder: Path) -> bool:
    """Brings the books of a sample, and the configuration that goes with them; whether it has books."""
    fetch_configuration(sample, folder)
    return fetch_one(sample, SAMPLE_FILE, folder)


def fetch_configuration(sample: Location, folder: Path) -> None:
    """Brings that of the run in which a sample lies; only where `folder`, the sample's copy, lies in that of a run, and
    it is not there yet."""
    is_in_run = len(sample.parts) > 2 and sample.parent.name == SAMPLES
    copy_of_run = folder.parent.parent
    if is_in_run and folder.parent.name == SAMPLES and not (copy_of_run / RUN_FILE).exists():
        fetch_one(sample.parent.parent, RUN_FILE, copy_of_run)


def fetch_one(location: Location, name: str, folder: Path) -> bool:
    """Brings one file of a place; whether it is there."""
    store = Store(location)
    if (entry := store.entry(name)) is None:
        return False
    fetch_files(store, {name: entry}, folder)
    return True


def fetch_files(store: Store, files: Mapping[str, Entry], target: Path) -> None:
    """Brings files below `target`. Raises `RollerError`, before anything is fetched, for a name that would lead out of
    it, and for more than this machine has room for."""
    for name in files:
        if (problem := path_problem(name)) is not None:
            raise RollerError(f"{store.location}: the name {name!r} cannot be used: it {problem}")
    if len(files) > _MOST_FILES:
        raise RollerError(f"{store.location}: holds {len(files):,} files: an attempt has at most {_MOST_FILES:,}")
    target.mkdir(parents=True, exist_ok=True)
    needed, free = sum(entry.size for entry in files.values()), shutil.disk_usage(target).free
    if needed > free - _FREE_BYTES:
        raise RollerError(
            f"{store.location}: holds {needed:,} bytes, too many for the {free:,} free in {tempfile.gettempdir()}: "
            "free some, or set TMPDIR"
        )
    for name, entry in sorted(files.items()):
        path = target / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RollerError(f"{store.location / name}: cannot be fetched ({error.strerror})") from None
        store.fetch(name, path, entry.size)


@contextlib.contextmanager
def spoken_plainly() -> Iterator[None]:
    """Errors that leave the place where a copy lies name what it is a copy of."""
    try:
        yield
    except RollerError as error:
        raise RollerError(named(str(error)), exit_code=error.exit_code) from None
