"""What a command reads from or writes to elsewhere, as paths of this machine as long as the command runs."""

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.published import UnreadableError
from roller_capture.remote.attempts import find_remote_attempts
from roller_capture.remote.location import Location, Place
from roller_capture.remote.sending import Destination, sent_to
from roller_capture.remote.staging import (
    fetch_attempt,
    fetch_books,
    fetch_configuration,
    private_folder,
    sample_of,
    spoken_plainly,
    stand_in,
)
from roller_capture.runs.books import SAMPLE_FILE


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A place with attempts; `path` stands for it, and what is fetched lies below. Picklable."""

    location: Location
    path: Path

    def attempts(self) -> list[Path]:
        """The paths that stand for its attempts, in order: nothing is there yet but the configuration of their run, and
        the books of samples with several, which tell what was made again. Both may lie above the place.

        Raises `RollerError` like `find_attempts`.
        """
        found = find_remote_attempts(self.location)
        in_samples = [(sample, self.path_of(item)) for item in found if (sample := sample_of(item)) is not None]
        for sample, attempt in in_samples[:1]:  # no place holds attempts of two runs
            fetch_configuration(sample, attempt.parent.parent)
        several = Counter(sample for sample, _ in in_samples)
        for sample, attempt in dict(in_samples).items():
            if several[sample] > 1:
                fetch_books(sample, attempt.parent.parent)
        return [self.path_of(item) for item in found]

    def path_of(self, attempt: Location) -> Path:
        """What stands for an attempt of this place."""
        return self.path.joinpath(*attempt.parts[len(self.location.parts) :])

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


class UnfetchedError(UnreadableError):
    """An attempt that cannot be brought here."""

    def __init__(self, path: Path, error: RollerError) -> None:
        RollerError.__init__(self, str(error), exit_code=error.exit_code)
        self.path = path


class Copy(NamedTuple):
    """All attempts of a place: `path` holds them but those of `unfetched`."""

    path: Path
    unfetched: tuple[UnfetchedError, ...] = ()


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

    def whole(self, place: Place) -> Copy:
        """A copy of all attempts there. Raises `RollerError`, also for a single attempt that cannot be fetched."""
        if isinstance(place, Path):
            return Copy(place)
        folder = RemoteFolder(place, self._stand_in(place))
        unfetched: list[UnfetchedError] = []
        for attempt in map(folder.path_of, find_remote_attempts(place)):
            try:
                folder.fetch(attempt)
            except RollerError as error:
                if attempt == folder.path:
                    raise
                shutil.rmtree(attempt, ignore_errors=True)  # half of it is no attempt
                unfetched.append(UnfetchedError(attempt, error))
        return Copy(folder.path, tuple(unfetched))

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
