"""`roller-capture export atif`: a trajectory for each attempt, and what is said of those that have none."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from roller_capture.api import Attempt
from roller_capture.errors import RollerError
from roller_capture.export.atif.document import Document
from roller_capture.export.atif.family import Family
from roller_capture.export.atif.output import FileNames, OutputFolder, file_name
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.outcome import Reasons, Runs, counted, tell
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.request import Export, check_name
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import progress
from roller_capture.view.words import count

_FILE_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class AtifExport(Export):
    """What is asked for. An output that ends in `.json` is one file, any other a folder."""

    output: Path


@dataclass(slots=True)
class _Tally:
    """What was exported, and what has no trajectory."""

    exported: int = 0
    """Trajectories: one for each attempt that has one."""
    files: int = 0
    steps: int = 0
    subagents: int = 0
    images: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    runs: Runs = field(default_factory=Runs)
    without: Reasons = field(default_factory=Reasons)
    subagents_without: Reasons = field(default_factory=Reasons)

    def lines(self) -> list[str]:
        """For people."""
        files = count(self.files, "file")
        lines = [
            f"exported {_trajectories(self.exported)}, of {count(self.attempts.read, 'attempt')} read",
            f"  {files}, {count(self.steps, 'step')}, {_trajectories(self.subagents)} of subagents inside",
            *self.runs.lines(),
        ]
        if self.images:
            lines.append(f"  {count(self.images, 'image')} beside them")
        if self.subagents_without.counts:
            lines.append(f"subagents without a trajectory: {self.subagents_without.total():,}")
            lines += self.subagents_without.lines()
        lines.append(f"without a trajectory: {count(self.without.total(), 'attempt')}")
        hints = self.runs.hints([*self.without.counts, *self.subagents_without.counts])
        return [*lines, *self.without.lines(), *hints, *self.attempts.lines()]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "trajectories": self.exported,
            "files": self.files,
            "steps": self.steps,
            "subagents": self.subagents,
            "images": self.images,
            "subagents_without": dict(self.subagents_without.counts),
            "without": dict(self.without.counts),
            "named": self.without.named,
            **self.runs.document(),
            **self.attempts.document(),
        }


def _trajectories(number: int) -> str:
    return count(number, "trajectory", "trajectories")


def export_atif(request: AtifExport) -> int:
    """Writes the trajectories, tells which attempts have none and why, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then nothing is written. Raises
    `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was read.
    """
    check_name(request.output, "export atif writes JSON: NAME.json for one attempt, or a folder", (_FILE_SUFFIX,))
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    target = _OneFile(request, sources) if request.output.suffix.lower() == _FILE_SUFFIX else _Folder(request, sources)
    with target.writing(), progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in counted(opened(sources, tally.attempts), tally):
            try:
                family = Family(attempt, steps.over(attempt.calls()))
                target.write(source, attempt, family, tally)
            except NoTrajectoryError as error:
                tally.without.add(error.reason, f"{source.path}{f': {error.call_id}' if error.call_id else ''}")
        if tally.exported:
            target.publish()
    return tell(request, tally, request.output, lambda: "ATIF", "nothing was written")


class _OneFile:
    """One trajectory, of one attempt."""

    def __init__(self, request: AtifExport, sources: Sequence[Source]) -> None:
        if len(sources) > 1:
            raise RollerError(
                f"--output {request.output}: a file holds one trajectory, and there are {len(sources)} attempts: "
                "name a folder (without .json)",
                exit_code=2,
            )
        check_place(request.output, sources)
        self._path = request.output
        self._files = OutputFiles((request.output,), overwrite=request.overwrite)
        self._files.check()
        self.writing = self._files.writing
        self.publish = self._files.publish

    def write(self, source: Source, _attempt: Attempt, family: Family, tally: _Tally) -> None:
        """The attempt's trajectory."""
        stretches = len(family.conversation(family.root).stretches)
        if stretches > 1:
            raise NoTrajectoryError(
                f"its {stretches} conversations between compactions need as many files: name a folder"
            )
        if family.images:
            raise NoTrajectoryError(f"its {count(len(family.images), 'image')} need files of their own: name a folder")
        document = Document(family, source.manifest_name, 0, None)
        _write(document, lambda: self._files.open(self._path))
        _count(family, [document], tally)


class _Folder:
    """A file for each trajectory; conversations that were cut by compactions are continued in further files.

    Images are files, too. Those of an attempt that has no trajectory are never written.
    """

    def __init__(self, request: AtifExport, sources: Sequence[Source]) -> None:
        check_place(request.output / "any", sources)
        self._folder = OutputFolder(request.output, overwrite=request.overwrite)
        self._folder.check()
        self._names = FileNames()
        self._images: set[str] = set()
        self.writing = self._folder.writing
        self.publish = self._folder.publish

    def write(self, source: Source, attempt: Attempt, family: Family, tally: _Tally) -> None:
        """All files of the attempt or none."""
        stem = self._names.stem(attempt.sample_id, source.path.absolute().name, attempt.capture_id)
        names = [file_name(stem, number) for number in range(len(family.conversation(family.root).stretches))]
        documents = []
        with contextlib.ExitStack() as undo:
            for number, name in enumerate(names):
                following = names[number + 1] if number + 1 < len(names) else None
                documents.append(Document(family, source.manifest_name, number, following))
                undo.callback(self._folder.remove, name)
                _write(documents[-1], _opener(self._folder, name))
            undo.pop_all()
        self._write_images(family, tally)
        _count(family, documents, tally)

    def _write_images(self, family: Family, tally: _Tally) -> None:
        for name, data in family.images.items():
            if name not in self._images:
                self._images.add(name)
                with self._folder.open(name) as stream:
                    stream.write(data)
                tally.images += 1


def _opener(folder: OutputFolder, name: str) -> Callable[[], IO[bytes]]:
    return lambda: folder.open(name)


def _write(document: Document, new_file: Callable[[], IO[bytes]]) -> None:
    """Raises `NoTrajectoryError`; then the file is there, but no trajectory."""
    pieces: Iterator[bytes] = document.pieces()
    with new_file() as stream:
        for piece in pieces:
            stream.write(piece)


def _count(family: Family, documents: Sequence[Document], tally: _Tally) -> None:
    tally.exported += 1
    tally.files += len(documents)
    tally.steps += sum(document.steps for document in documents)
    tally.subagents += sum(document.subagents for document in documents)
    for item in family.left_out:
        tally.subagents_without.add(item.reason)
