"""The run directory: run.json, and one folder per sample (design section 9).

    RUN_DIR/run.json
    RUN_DIR/samples/SAMPLE_ID/sample.json
    RUN_DIR/samples/SAMPLE_ID/capture/attempt-0001/      a captured attempt
    RUN_DIR/samples/SAMPLE_ID/uncaptured/attempt-0001/   in a run without --capture-calls

All files are replaced as a whole, so a reader never sees half of one.
"""

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from roller_capture import __version__, json_text
from roller_capture.collect.native_logs import write_json
from roller_capture.errors import RollerError

RUN_FORMAT: Final = "roller.run/v1"
SAMPLE_FORMAT: Final = "roller.sample/v1"
RUN_FILE: Final = "run.json"
SAMPLE_FILE: Final = "sample.json"
SAMPLES: Final = "samples"


class RunMode(StrEnum):
    """Whether model calls are captured; a run has one mode from its beginning to its end."""

    CAPTURED = "captured"
    UNCAPTURED = "uncaptured"


class SampleState(StrEnum):
    """How far a sample has come; the last three are those of its newest attempt's execution."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class RunConfiguration:
    """What never changes within a run. Extra harness arguments can hold secrets, so only their hash is kept."""

    harness: str
    harness_version: str
    protocol: str
    model: str | None
    api_base: str | None
    mode: RunMode
    profile: str | None
    network: str
    wire_trace: bool
    capture_debug: str
    key_via: str
    timeout: float
    drain_timeout: float
    harness_args: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As it stands in run.json."""
        arguments = {
            "count": len(self.harness_args),
            "sha256": hashlib.sha256(json_text.dumps(list(self.harness_args))).hexdigest(),
        }
        return {
            "harness": {"name": self.harness, "version": self.harness_version},
            "protocol": self.protocol,
            "model": self.model,
            "api_base": self.api_base,
            "mode": self.mode,
            "profile": self.profile,
            "network": self.network,
            "wire_trace": self.wire_trace,
            "capture_debug": self.capture_debug,
            "key_via": self.key_via,
            "timeout": self.timeout,
            "drain_timeout": self.drain_timeout,
            "harness_args": arguments,
        }


@dataclass(slots=True)
class AttemptEntry:
    """One attempt of a sample. `manifest_sha256` is written before the manifest is moved into place."""

    name: str
    started_at: float
    state: SampleState = SampleState.RUNNING
    ended_at: float | None = None
    private_folder: str | None = None
    capture_status: str | None = None
    manifest_sha256: str | None = None


@dataclass(slots=True)
class Sample:
    """A sample's folder and what sample.json says."""

    folder: Path
    sample_id: str
    turns: tuple[str, ...]
    workdir: str | None
    mode: RunMode
    state: SampleState = SampleState.RUNNING
    attempts: list[AttemptEntry] = field(default_factory=list)

    @property
    def attempts_folder(self) -> Path:
        """Where its attempts are."""
        return self.folder / ("capture" if self.mode is RunMode.CAPTURED else "uncaptured")

    def begin_attempt(self) -> tuple[AttemptEntry, Path]:
        """A new attempt and its folder, which the recorder makes. Raises `RollerError` when nothing can be written."""
        entry = AttemptEntry(f"attempt-{len(self.attempts) + 1:04}", time.time())
        self.attempts.append(entry)
        self.state = SampleState.RUNNING
        _make_private(self.attempts_folder)
        self.write()
        return entry, self.attempts_folder / entry.name

    def end_attempt(self, entry: AttemptEntry, state: SampleState) -> None:
        """Notes how it was executed. Raises `RollerError`."""
        entry.ended_at = time.time()
        entry.state = self.state = state
        self.write()

    def write(self) -> None:
        """Brings sample.json up to date. Raises `RollerError`."""
        document: dict[str, Any] = {
            "format": SAMPLE_FORMAT,
            "id": self.sample_id,
            "turns": list(self.turns),
            "workdir": self.workdir,
            "state": self.state,
            "attempts": [_entry_document(entry) for entry in self.attempts],
        }
        path = self.folder / SAMPLE_FILE
        try:
            write_json(path, document)
        except OSError as error:
            raise RollerError(f"{path}: cannot be written ({error.strerror}): make room") from None


def _entry_document(entry: AttemptEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "attempt": entry.name,
        "state": entry.state,
        "started_at": entry.started_at,
        "ended_at": entry.ended_at,
        "capture_status": entry.capture_status,
        "manifest_sha256": entry.manifest_sha256,
    }
    # Where the harness's home was, for an attempt that was killed together with everything else.
    return document if entry.private_folder is None else {**document, "private_folder": entry.private_folder}


def note_killed(attempt: Path, state: str, private_folder: Path | None) -> None:
    """Brings sample.json up to date for a `collect` that was killed while `attempt` ran.

    What is there already stays; where it cannot be written, it stays as a whole.
    """
    path = attempt.parent.parent / SAMPLE_FILE
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        document = json_text.parse(path.read_bytes())
        for entry in document["attempts"]:
            if entry["attempt"] == attempt.name and entry["state"] == SampleState.RUNNING:
                entry |= {"state": state, "ended_at": time.time()}
                document["state"] = document["attempts"][-1]["state"]
                entry.pop("private_folder", None)
                if private_folder is not None:
                    entry["private_folder"] = str(private_folder)
                write_json(path, document)


def check_new(run_dir: Path) -> None:
    """Refuses (exit 2) a run directory that is in use, or no directory."""
    try:
        taken = run_dir.exists() and any(run_dir.iterdir())
    except NotADirectoryError:
        raise _refused(run_dir, "is no directory") from None
    except OSError as error:
        raise _refused(run_dir, f"cannot be used ({error.strerror})") from None
    if taken:
        what = "holds a run already" if (run_dir / RUN_FILE).exists() else "is not empty"
        raise _refused(run_dir, f"{what}: each run has a directory of its own")


@contextlib.contextmanager
def new_run(run_dir: Path, configuration: RunConfiguration) -> Iterator[Callable[[], None]]:
    """Makes the run directory and run.json; what is done inside belongs to it. What it gives undoes all of it.

    Raises `RollerError` (exit 2) when that cannot be, when it is not new, or when another `collect` was quicker. Then,
    and when what is done inside raises, nothing of it stays behind.
    """
    check_new(run_dir)
    missing = [folder for folder in (run_dir, *run_dir.parents) if not folder.exists()]
    ours = False

    def undo() -> None:
        if ours:
            _remove_contents(run_dir)
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()

    try:
        _make_private(run_dir)
        _write_configuration(run_dir, configuration)
        ours = True
        yield undo
    except RollerError as error:
        undo()
        raise _refused(run_dir, str(error)) from None


def _make_private(folder: Path) -> None:
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
        folder.mkdir(mode=0o700)


def _write_configuration(run_dir: Path, configuration: RunConfiguration) -> None:
    document = {
        "format": RUN_FORMAT,
        "created_at": time.time(),
        "tool": {"name": "roller-capture", "version": __version__},
        **configuration.to_json(),
    }
    try:
        write_json(run_dir / RUN_FILE, document, new=True)
    except FileExistsError:
        raise RollerError("another collect has just begun a run here") from None
    except OSError as error:
        raise RollerError(f"{RUN_FILE} cannot be written ({error.strerror})") from None


def _remove_contents(run_dir: Path) -> None:
    with contextlib.suppress(OSError):
        (run_dir / RUN_FILE).unlink()
    shutil.rmtree(run_dir / SAMPLES, ignore_errors=True)


def _refused(run_dir: Path, problem: str) -> RollerError:
    return RollerError(f"--run-dir {run_dir}: {problem}: name another one with --run-dir", exit_code=2)


def create_sample(run_dir: Path, sample_id: str, turns: tuple[str, ...], workdir: str | None, mode: RunMode) -> Sample:
    """Makes the folder of a new sample. Raises `RollerError`."""
    folder = run_dir / SAMPLES / sample_id
    _make_private(folder)
    sample = Sample(folder, sample_id, turns, workdir, mode)
    sample.write()
    return sample
