"""What a command reads from or writes to elsewhere, as paths of this machine as long as the command runs."""

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.remote.attempts import find_remote_attempts
from roller_capture.remote.location import Location, Place
from roller_capture.remote.sending import Destination, sent_to
from roller_capture.remote.staging import (
    fetch_attempt,
    fetch_books,
    fetch_one,
    private_folder,
    sample_of,
    spoken_plainly,
    stand_in,
)
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE
from roller_capture.runs.configuration import RUN_FILE


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A place with attempts; `path` stands for it, and what is fetched lies below. Picklable."""

    location: Location
    path: Path

    def attempts(self) -> list[Path]:
        """The paths that stand for its attempts, in order: nothing is there yet but the configuration of a run, and the
        books of samples with several.

        Raises `RollerError` like `find_attempts`.
        """
        found = find_remote_attempts(self.location)
        by_sample = Counter(item.parent.parent for item in found if self._is_in_sample(item))
        if by_sample:
            fetch_one(self.location, RUN_FILE, self.path)
        for sample, attempts in by_sample.items():
            if attempts > 1:
                fetch_books(sample, self._path_of(sample))
        return [self._path_of(item) for item in found]

    def _path_of(self, location: Location) -> Path:
        return self.path.joinpath(*location.parts[len(self.location.parts) :])

    def _is_in_sample(self, attempt: Location) -> bool:
        """Of a sample that lies in this place, or is it."""
        above = len(attempt.parts) - len(self.location.parts)
        return above >= 2 and attempt.parent.name == CAPTURE

    def location_of(self, path: Path) -> Location:
        """What a path below stands for."""
        return Location("/".join((self.location.url, *path.relative_to(self.path).parts)))

    def fetch(self, attempt: Path) -> bool:
        """Brings an attempt to the path that stands for it; `False` where this is not the machine of the command."""
        if not self.path.parent.is_dir():
            return False
        shutil.rmtree(attempt, ignore_errors=True)  # what a process has left that died at it
        with spoken_plainly():
            location = self.location_of(attempt)
            fetch_attempt(location, attempt)
            sample = sample_of(location)
            if sample is not None and not (attempt.parent.parent / SAMPLE_FILE).exists():
                fetch_books(sample, attempt.parent.parent)
        return True


Input = Path | RemoteFolder
"""Where attempts are looked for."""


class Elsewhere(contextlib.AbstractContextManager["Elsewhere"]):
    """Holds the private folders of one command, and removes them at its end."""

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._root: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told = named(str(error))  # while it is known what the paths stand for
        self._held.close()
        if isinstance(error, RollerError) and told != str(error):
            raise RollerError(told, exit_code=error.exit_code) from None

    def inputs(self, places: Sequence[Place]) -> tuple[Input, ...]:
        """Paths as they are; for each URL what stands for it."""
        return tuple(
            RemoteFolder(place, self._stand_in(place)) if isinstance(place, Location) else place for place in places
        )

    def output(self, place: Place) -> Path:
        """The path to write; what appears there under its name is then sent to the place that it stands for."""
        if isinstance(place, Path):
            return place
        if len(place.parts) < 2 or not place.name:
            raise RollerError(f"--output {place}: is a bucket: name what to write in it", exit_code=2)
        path = self._stand_in(place)
        self._held.enter_context(sent_to(path.parent, Destination(place.parent)))
        return path

    def whole(self, place: Place) -> Path:
        """The path of a copy of all attempts there. Raises `RollerError`."""
        if isinstance(place, Path):
            return place
        folder = RemoteFolder(place, self._stand_in(place))
        for attempt in folder.attempts():
            folder.fetch(attempt)
        return folder.path

    def _stand_in(self, location: Location) -> Path:
        if self._root is None:
            self._held.enter_context(stops_cleanly())
            self._root = self._held.enter_context(private_folder())
        return self._held.enter_context(stand_in(location, self._root))


@contextlib.contextmanager
def fetched(folder: RemoteFolder, attempt: Path) -> Iterator[None]:
    """The attempt lies at its path inside; nothing of it does afterwards."""
    try:
        folder.fetch(attempt)
        yield
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
