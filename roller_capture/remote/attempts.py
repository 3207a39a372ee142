"""Which of the files that lie elsewhere make attempts."""

from collections.abc import Iterable
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.publication import FORMAL_FILES, MANIFEST
from roller_capture.remote.location import Location
from roller_capture.remote.names import name_problem
from roller_capture.remote.store import Store
from roller_capture.runs.books import SAMPLE_FILE
from roller_capture.runs.configuration import RUN_FILE
from roller_capture.working_files import WORK_DIR

_MARKS: Final = frozenset({MANIFEST, *FORMAL_FILES})

Folder = tuple[str, ...]
"""The names on the way from a place to a folder in it."""


def find_remote_attempts(location: Location) -> list[Location]:
    """The attempts of a place: itself, those of a run directory, or those directly below it.

    Raises `RollerError`: exit 2 for a place where nothing is, exit 1 when it holds no attempt.
    """
    return attempts_among(location, Store(location).listing())


def attempts_among(location: Location, files: Iterable[str]) -> list[Location]:
    """The same, of a place where these files lie."""
    files = list(files)
    if not files:
        raise RollerError(f"{location}: does not exist", exit_code=2)
    if files == [""]:
        raise RollerError(f"{location}: is no folder, name an attempt or a run directory", exit_code=2)
    folders = attempt_folders(files)
    if not folders and RUN_FILE in files:
        raise RollerError(f"{location}: is a run that holds no attempt")
    if not folders:
        raise RollerError(f"{location}: holds no attempt (no {MANIFEST}, no {WORK_DIR}/), nor a folder that does")
    for folder in folders:
        for name in folder:
            if (problem := name_problem(name)) is not None:
                raise RollerError(f"{location}: the name {name!r} cannot be used: it {problem}")
    return [Location("/".join((location.url, *folder))) for folder in folders]


def attempt_folders(files: Iterable[str]) -> list[Folder]:
    """The attempts among these files, by the rules of `published.find_attempts`: the place itself, those of a run
    directory, or those directly below it. Empty where there is none. A sample, and a folder of native logs, may also
    be called `work`: where attempts lie decides, and no working files have books beside them."""
    found: set[Folder] = set()
    files = list(files)
    books = {file for file in files if file.endswith(f"{WORK_DIR}/{SAMPLE_FILE}")}
    for file in files:
        *folders, name = file.split("/")
        if name in _MARKS:
            found.add(tuple(folders))
        for place, folder in enumerate(folders):
            if folder == WORK_DIR and "/".join((*folders[: place + 1], SAMPLE_FILE)) not in books:
                found.add(tuple(folders[:place]))
    if () in found:
        return [()]
    for level in (_in_sample, _in_capture, _directly):
        if of_level := sorted(folder for folder in found if level(folder)):
            return of_level
    return []


def _in_sample(folder: Folder) -> bool:
    return len(folder) == 4 and folder[0] == "samples" and _in_capture(folder[2:])


def _in_capture(folder: Folder) -> bool:
    return len(folder) == 2 and folder[0] == "capture" and folder[1].startswith("attempt-")


def _directly(folder: Folder) -> bool:
    return len(folder) == 1
