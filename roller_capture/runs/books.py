"""sample.json: what a sample is, how far it has come, and the hash of each published manifest.

The intended hash stands there before the manifest is moved into place (design section 9), so a crash between
publication and bookkeeping is seen and adopted. All files are replaced as a whole: a reader never sees half of one.
"""

import contextlib
import hashlib
import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from roller_capture.errors import RollerError
from roller_capture.publication import MANIFEST
from roller_capture.runs.configuration import Arguments, RunMode
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.runs.stored import SHA256, DamagedError, Stored, read_stored, write_json
from roller_capture.vocabulary import CaptureStatus, ExecutionStatus
from roller_capture.working_files import read_regular_file

SAMPLE_FORMAT: Final = "roller.sample/v1"
SAMPLE_FILE: Final = "sample.json"
SAMPLES: Final = "samples"
CAPTURE: Final = "capture"
UNCAPTURED: Final = "uncaptured"
_LARGEST_MANIFEST: Final = 256 * 1024 * 1024


class SampleState(StrEnum):
    """How far a sample has come; the last three are those of its newest attempt's execution."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @classmethod
    def of(cls, execution_status: str) -> "SampleState":
        """The state after an execution; one whose end nobody noted was interrupted."""
        known = (cls.COMPLETED, cls.FAILED, cls.INTERRUPTED)
        return next((state for state in known if state == execution_status), cls.INTERRUPTED)

    @property
    def execution_status(self) -> ExecutionStatus:
        """How an attempt in this state was executed; what is noted as running has been killed."""
        return ExecutionStatus.INTERRUPTED if self is SampleState.RUNNING else ExecutionStatus(self)


class AttemptDocument(Stored):
    """An attempt in sample.json."""

    attempt: str = Field(pattern=r"^attempt-[0-9]{4,}$")
    state: SampleState
    started_at: float
    ended_at: float | None
    capture_status: CaptureStatus | None
    manifest: str | None = None
    manifest_sha256: str | None = Field(pattern=SHA256)
    next_manifest_sha256: str | None = Field(default=None, pattern=SHA256)
    private_folder: str | None = None
    settings: dict[str, str | float] = Field(default_factory=dict)


class SampleDocument(Stored):
    """sample.json."""

    format: Literal["roller.sample/v1"]
    id: str
    turns: tuple[str, ...] = Field(min_length=1)
    workdir: str | None
    model: str | None = None
    profile: str | None = None
    harness_args: Arguments | None = None
    state: SampleState
    attempts: tuple[AttemptDocument, ...]


@dataclass(slots=True)
class AttemptEntry:
    """One attempt of a sample.

    `manifest_sha256` is written before the manifest is moved into place; `next_manifest_sha256` likewise, while a
    published attempt is published again (prune). `settings` are those that differ from the run's.
    """

    name: str
    started_at: float
    state: SampleState = SampleState.RUNNING
    ended_at: float | None = None
    private_folder: str | None = None
    capture_status: str | None = None
    manifest_sha256: str | None = None
    next_manifest_sha256: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Sample:
    """A sample's folder and what sample.json says."""

    folder: Path
    sample_id: str
    turns: tuple[str, ...]
    workdir: str | None
    mode: RunMode
    model: str | None = None
    profile: str | None = None
    harness_args: Arguments | None = None
    state: SampleState = SampleState.RUNNING
    attempts: list[AttemptEntry] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """sample.json."""
        return self.folder / SAMPLE_FILE

    @property
    def attempts_folder(self) -> Path:
        """Where its attempts are."""
        return self.folder / (CAPTURE if self.mode is RunMode.CAPTURED else UNCAPTURED)

    def place(self, entry: AttemptEntry) -> Path:
        """An attempt's folder."""
        return self.attempts_folder / entry.name

    def begin_attempt(self, settings: dict[str, Any] | None = None) -> tuple[AttemptEntry, Path]:
        """A new attempt and its folder, which the recorder makes. Raises `RollerError` when nothing can be written."""
        entry = AttemptEntry(f"attempt-{len(self.attempts) + 1:04}", time.time(), settings=settings or {})
        self.attempts.append(entry)
        self.state = SampleState.RUNNING
        make_private(self.attempts_folder)
        self.write()
        return entry, self.place(entry)

    def end_attempt(self, entry: AttemptEntry, state: SampleState) -> None:
        """Notes how it was executed. Raises `RollerError`."""
        entry.ended_at = time.time()
        entry.state = state
        self.state = self.attempts[-1].state
        self.write()

    def note_intent(self, entry: AttemptEntry, digest: str) -> None:
        """Writes down what is about to be published. Raises `RollerError`."""
        entry.manifest_sha256 = digest
        self.write()

    def settle(self, entry: AttemptEntry, manifest: dict[str, Any]) -> None:
        """Brings an entry into agreement with the manifest that is in place. Raises `RollerError`."""
        try:
            digest = manifest_digest(self.place(entry))
        except OSError as error:
            raise RollerError(f"{self.place(entry) / MANIFEST}: cannot be read ({error.strerror or error})") from None
        problem = hash_problem(entry, digest)
        if problem is not None:
            raise RollerError(f"{self.place(entry) / MANIFEST}: {problem}")
        entry.manifest_sha256, entry.next_manifest_sha256, entry.private_folder = digest, None, None
        entry.capture_status = manifest["capture_status"]
        entry.state = SampleState.of(manifest["execution_status"])
        entry.ended_at = entry.ended_at or time.time()
        self.state = self.attempts[-1].state
        self.write()

    def write(self) -> None:
        """Brings sample.json up to date. Raises `RollerError`."""
        document: dict[str, Any] = {
            "format": SAMPLE_FORMAT,
            "id": self.sample_id,
            "turns": list(self.turns),
            "workdir": self.workdir,
            "model": self.model,
            "profile": self.profile,
            "harness_args": None if self.harness_args is None else self.harness_args.model_dump(),
            "state": self.state,
            "attempts": [self._entry_document(entry) for entry in self.attempts],
        }
        try:
            write_json(self.file, document)
        except OSError as error:
            raise RollerError(f"{self.file}: cannot be written ({error.strerror}): make room") from None

    def _entry_document(self, entry: AttemptEntry) -> dict[str, Any]:
        published = entry.capture_status is not None
        document: dict[str, Any] = {
            "attempt": entry.name,
            "state": entry.state,
            "started_at": entry.started_at,
            "ended_at": entry.ended_at,
            "capture_status": entry.capture_status,
            "manifest": f"{CAPTURE}/{entry.name}/{MANIFEST}" if published else None,
            "manifest_sha256": entry.manifest_sha256,
        }
        # `private_folder`: where the harness's home was, for an attempt that was killed together with everything else.
        for name in ("next_manifest_sha256", "private_folder", "settings"):
            value = getattr(entry, name)
            if value:
                document[name] = value
        return document


def create_sample(run_dir: Path, spec: SampleSpec, mode: RunMode) -> Sample:
    """Makes the folder of a new sample. Raises `RollerError`."""
    folder = run_dir / SAMPLES / spec.sample_id
    make_private(folder)
    sample = Sample(
        folder,
        spec.sample_id,
        spec.turns,
        None if spec.workdir is None else str(spec.workdir),
        mode,
        spec.model,
        spec.profile,
        Arguments.of(spec.harness_args) if spec.harness_args else None,
    )
    sample.write()
    return sample


def read_sample(folder: Path, mode: RunMode) -> Sample:
    """A sample of the run. Raises `DamagedError` when its books are missing, damaged, or contradict themselves."""
    if folder.is_symlink() or not folder.is_dir():
        raise DamagedError(folder, "is no folder of a sample, but a link or a file")
    path = folder / SAMPLE_FILE
    document = read_stored(path, SampleDocument)
    problem = _contradiction(folder, document)
    if problem is not None:
        raise DamagedError(path, problem)
    entries = [
        AttemptEntry(
            name=entry.attempt,
            started_at=entry.started_at,
            state=entry.state,
            ended_at=entry.ended_at,
            private_folder=entry.private_folder,
            capture_status=entry.capture_status,
            manifest_sha256=entry.manifest_sha256,
            next_manifest_sha256=entry.next_manifest_sha256,
            settings=dict(entry.settings),
        )
        for entry in document.attempts
    ]
    return Sample(
        folder,
        document.id,
        document.turns,
        document.workdir,
        mode,
        document.model,
        document.profile,
        document.harness_args,
        document.state,
        entries,
    )


def _contradiction(folder: Path, document: SampleDocument) -> str | None:
    if document.id != folder.name:
        return f"id is {document.id!r}, the folder is {folder.name!r}"
    for number, entry in enumerate(document.attempts, 1):
        if entry.attempt != f"attempt-{number:04}":
            return f"attempt {number} is called {entry.attempt!r}"
        if entry.capture_status is not None and entry.manifest_sha256 is None:
            return f"{entry.attempt} has a capture_status, but no manifest_sha256"
        if entry.manifest is not None and entry.manifest != f"{CAPTURE}/{entry.attempt}/{MANIFEST}":
            return f"{entry.attempt}: manifest is not where its manifest is"
    newest = document.attempts[-1].state if document.attempts else SampleState.RUNNING
    if document.state is not newest:
        return f"state is {document.state}, its newest attempt's is {newest}"
    return None


def manifest_digest(attempt: Path) -> str:
    """The sha256 of a published attempt's manifest. Raises `OSError`."""
    return hashlib.sha256(read_regular_file(attempt / MANIFEST, limit=_LARGEST_MANIFEST)).hexdigest()


def hash_problem(entry: AttemptEntry, digest: str) -> str | None:
    """Whether a manifest with this sha256 is the one that the books know; those that know none say nothing."""
    known = (entry.manifest_sha256, entry.next_manifest_sha256)
    if digest in known or known == (None, None):
        return None
    return f"was changed after publication: its sha256 is not the one that {SAMPLE_FILE} has recorded"


def make_private(folder: Path) -> None:
    """Makes it, and its parents, where missing, with mode 0700. Raises `RollerError`."""
    try:
        if not folder.is_dir():
            _make_parents(folder.parent)
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
    except OSError as error:
        reason = "a link is in its place" if folder.is_symlink() else error.strerror
        raise RollerError(f"{folder} cannot be made ({reason})") from None


def _make_parents(folder: Path) -> None:
    if not folder.is_dir():
        _make_parents(folder.parent)
        with contextlib.suppress(FileExistsError):  # another sample of the run was quicker
            folder.mkdir(mode=0o700)
