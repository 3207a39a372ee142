"""Puts a published attempt back where its working files lie: the manifest last, and only then are those removed.

So at every moment either `work/` is whole or the published attempt is; finalize run again finishes the job. Nothing
locks a bucket: what another one has done there in the meantime is looked for before anything is written.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import OF_A_RECORDER
from roller_capture.publication import MANIFEST, STAGING_PREFIX
from roller_capture.remote.location import Location
from roller_capture.remote.staging import Staged, fetch_books, is_leftover, private_folder, sample_of
from roller_capture.remote.store import Entry, Store
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE
from roller_capture.runs.outside_books import note_publication
from roller_capture.working_files import WORK_DIR

_WORK: Final = f"{WORK_DIR}/"
_MARKS: Final = frozenset(f"{_WORK}{name}" for name in OF_A_RECORDER)


def put_back(staged: Staged) -> None:
    """Makes the place what the copy has become. Raises `RollerError`: what is wrong, and that nothing is lost."""
    store = staged.store
    published = _files_of(staged.path)
    fresh = [name for name in published if name not in staged.files]
    with _said(store.location, "nothing was published"):
        there = store.listing()
        if MANIFEST in there and MANIFEST not in staged.files:
            raise RollerError("somebody else has just published it")
        _refuse_changes(staged, there)
        arrived = _send(staged, fresh, there)
    with _said(store.location, "it is published, but not tidied up"):
        if MANIFEST in fresh:
            there = store.listing()
            _refuse_others(arrived, there)
            _refuse_changes(staged, there)
            _refuse_loss(staged, MANIFEST)
        _tidy_up(store, published, there)


def _files_of(folder: Path) -> list[str]:
    """Every file that finalize has left there."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    )


def _refuse_changes(staged: Staged, there: Mapping[str, Entry]) -> None:
    """What was read must still be what is there; of what came since, only what another publication has left behind
    may go."""
    for name, entry in staged.files.items():
        if there.get(name) != entry:
            raise RollerError(f"{name} was changed while it was read")
    for name in there:
        if name not in staged.files and name != MANIFEST and not _is_litter(staged, name):
            raise RollerError(f"{name} was added while the others were read")


def _is_litter(staged: Staged, name: str) -> bool:
    return name.startswith(STAGING_PREFIX) or (MANIFEST not in staged.files and is_leftover(name))


def _send(staged: Staged, fresh: Sequence[str], there: Mapping[str, Entry]) -> dict[str, Entry]:
    """Puts what is new, the manifest when all else is known to have arrived; returns what had then."""
    store = staged.store
    others = [name for name in fresh if name != MANIFEST]
    for name in others:
        store.put(staged.path / name, name)
    for name in there:
        if name not in staged.files and name not in others:
            store.remove(name)  # of a publication that was cut off
    if MANIFEST not in fresh:
        return {}
    arrived = store.listing()
    for name in others:
        _refuse_loss(staged, name)
    store.put(staged.path / MANIFEST, MANIFEST)
    return {name: entry for name, entry in arrived.items() if name in others}


def _refuse_loss(staged: Staged, name: str) -> None:
    if not staged.store.holds(staged.path / name, name):
        raise RollerError(f"{name} did not arrive there as it was sent")


def _refuse_others(arrived: Mapping[str, Entry], there: Mapping[str, Entry]) -> None:
    for name, entry in arrived.items():
        if there.get(name) != entry:
            raise RollerError(f"{name} was written by somebody else at the same time")


def _tidy_up(store: Store, published: Collection[str], there: Collection[str]) -> None:
    working = [name for name in there if name.startswith(_WORK)]
    for name in sorted(working, key=_MARKS.__contains__):  # what is left of it is known for a recorder's to the end
        store.remove(name)
    gone = {name.partition("/")[0] for name in there if "/" in name and name not in published}
    for folder in sorted(gone.union((WORK_DIR,)).difference(name.partition("/")[0] for name in published)):
        store.remove_empty_folder(folder)


@contextlib.contextmanager
def _said(location: Location, state: str) -> Iterator[None]:
    try:
        yield
    except RollerError as error:
        reason = str(error).removeprefix(f"{location}: ")
        raise RollerError(
            f"{location}: {state}, {reason}: see to it and run roller-capture finalize {location} again"
        ) from None


def note_remote_publication(location: Location, digest: str) -> None:
    """Like `note_publication`, in the books that lie beside the attempt."""
    if (sample := sample_of(location)) is None:
        return
    with _said(location, "nothing was published"), private_folder() as folder:
        attempt = folder / sample.name / CAPTURE / location.name
        if not fetch_books(sample, attempt.parent.parent):
            return
        books = attempt.parent.parent / SAMPLE_FILE
        before = books.read_bytes()
        note_publication(attempt, digest)
        if books.read_bytes() != before:
            Store(sample).put(books, SAMPLE_FILE)
