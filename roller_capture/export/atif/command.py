"""`roller-capture export atif`: a trajectory for each attempt, and what is said of those that have none."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.api import Attempt
from roller_capture.errors import RollerError
from roller_capture.export.atif.document import Document
from roller_capture.export.atif.family import Family
from roller_capture.export.atif.output import FileNames, OutputFolder, file_name
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.output_files import OutputFiles
from roller_capture.export.sources import AttemptTally, Source, Steps, check_place, find_sources, opened
from roller_capture.terminal import answer, progress, say
from roller_capture.view.words import count

_MOST_NAMED: Final = 5
_FILE_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class AtifExport:
    """What is asked for. An output that ends in `.json` is one file, any other a folder."""

    paths: Sequence[Path]
    output: Path
    overwrite: bool = False
    as_json: bool = False
    all_attempts: bool = False


@dataclass(slots=True)
class _Tally:
    """What was exported, and what has no trajectory."""

    trajectories: int = 0
    files: int = 0
    steps: int = 0
    subagents: int = 0
    attempts: AttemptTally = field(default_factory=AttemptTally)
    without: Counter[str] = field(default_factory=Counter)
    subagents_without: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, place: str, error: NoTrajectoryError) -> None:
        """An attempt without one: it is counted and, a few of each kind, named."""
        self.without[error.reason] += 1
        names = self.named.setdefault(error.reason, [])
        if len(names) < _MOST_NAMED:
            names.append(f"{place}{f': {error.call_id}' if error.call_id else ''}")

    def lines(self) -> list[str]:
        """For people."""
        files = count(self.files, "file")
        lines = [
            f"exported {_trajectories(self.trajectories)}, of {count(self.attempts.read, 'attempt')} read",
            f"  {files}, {count(self.steps, 'step')}, {_trajectories(self.subagents)} of subagents inside",
        ]
        if self.subagents_without:
            lines.append(f"subagents without a trajectory: {sum(self.subagents_without.values()):,}")
            lines += [f"  {number:>7,}  {reason}" for reason, number in self.subagents_without.most_common()]
        lines.append(f"without a trajectory: {count(sum(self.without.values()), 'attempt')}")
        for reason, number in self.without.most_common():
            lines += [f"  {number:>7,}  {reason}", *(f"           {name}" for name in self.named[reason])]
        return lines + self.attempts.lines()

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "trajectories": self.trajectories,
            "files": self.files,
            "steps": self.steps,
            "subagents": self.subagents,
            "subagents_without": dict(self.subagents_without),
            "without": dict(self.without),
            "named": self.named,
            **self.attempts.document(),
        }


def _trajectories(number: int) -> str:
    return count(number, "trajectory", "trajectories")


def export_atif(request: AtifExport) -> int:
    """Writes the trajectories, tells which attempts have none and why, and returns the exit code.

    1 means that an attempt could not be trusted, or that there was nothing to export; then nothing is written. Raises
    `RollerError`: exit 2 for what cannot be done as asked, exit 1 when an attempt changed while it was read.
    """
    tally = _Tally()
    sources = find_sources(request.paths, tally.attempts, all_attempts=request.all_attempts)
    target = _OneFile(request, sources) if request.output.suffix == _FILE_SUFFIX else _Folder(request, sources)
    with target.writing(), progress("export") as bar:
        steps = Steps(bar, sources)
        for source, attempt in opened(sources, tally.attempts):
            try:
                family = Family(attempt, steps.over(attempt.calls()))
                target.write(source, attempt, family, tally)
            except NoTrajectoryError as error:
                tally.leave_out(str(source.path), error)
        if tally.trajectories:
            target.publish()
    for line in tally.lines():
        say(line)
    say(f"{request.output}: ATIF" if tally.trajectories else "error: there is nothing to export: nothing was written")
    if request.as_json:
        output = str(request.output) if tally.trajectories else None
        answer(json_text.dumps_ascii({"output": output, **tally.document()}))
    return int(bool(tally.attempts.refused) or not tally.trajectories)


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
        document = Document(family, source.manifest_name, 0, None)
        _write(document, lambda: self._files.open(self._path))
        _count(family, [document], tally)


class _Folder:
    """A file for each trajectory; conversations that were cut by compactions are continued in further files."""

    def __init__(self, request: AtifExport, sources: Sequence[Source]) -> None:
        check_place(request.output / "any", sources)
        self._folder = OutputFolder(request.output, overwrite=request.overwrite)
        self._folder.check()
        self._names = FileNames()
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
        _count(family, documents, tally)


def _opener(folder: OutputFolder, name: str) -> Callable[[], IO[bytes]]:
    return lambda: folder.open(name)


def _write(document: Document, new_file: Callable[[], IO[bytes]]) -> None:
    """Raises `NoTrajectoryError`; then the file is there, but no trajectory."""
    pieces: Iterator[bytes] = document.pieces()
    with new_file() as stream:
        for piece in pieces:
            stream.write(piece)


def _count(family: Family, documents: Sequence[Document], tally: _Tally) -> None:
    tally.trajectories += 1
    tally.files += len(documents)
    tally.steps += sum(document.steps for document in documents)
    tally.subagents += sum(document.subagents for document in documents)
    tally.subagents_without.update(item.reason for item in family.left_out)
