"""The run directory: run.json, and one folder per sample (design section 9).

    RUN_DIR/run.json
    RUN_DIR/samples/SAMPLE_ID/sample.json
    RUN_DIR/samples/SAMPLE_ID/capture/attempt-0001/      a captured attempt
    RUN_DIR/samples/SAMPLE_ID/uncaptured/attempt-0001/   in a run without --capture-calls

All files are replaced as a whole, so a reader never sees half of one.
"""

import hashlib
import os
import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from roller_capture import __version__, json_text
from roller_capture.collect.native_logs import write_json
from roller_capture.errors import RollerError
from roller_capture.recording.work_folder import make_private_directory

RUN_FORMAT: Final = "roller.run/v1"
SAMPLE_FORMAT: Final = "roller.sample/v1"
RUN_FILE: Final = "run.json"
SAMPLE_FILE: Final = "sample.json"


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
        make_private_directory(self.attempts_folder)
        self.write()
        return entry, self.attempts_folder / entry.name

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


def check_new(run_dir: Path) -> None:
    """Refuses (exit 2) a run directory that cannot be a new run's."""
    try:
        taken = run_dir.exists() and any(run_dir.iterdir())
    except NotADirectoryError:
        raise RollerError(f"{run_dir}: is no directory: name another run directory", exit_code=2) from None
    except OSError as error:
        raise RollerError(f"{run_dir}: cannot be used ({error.strerror}): name another one", exit_code=2) from None
    if taken:
        what = "holds a run already" if (run_dir / RUN_FILE).exists() else "is not empty"
        raise RollerError(f"{run_dir}: {what}: name a new run directory, each run has one of its own", exit_code=2)


def create_run(run_dir: Path, configuration: RunConfiguration) -> None:
    """Makes the run directory. Raises `RollerError` (exit 2) when it is not new, or another `collect` was quicker."""
    check_new(run_dir)
    make_private_directory(run_dir)
    document = {
        "format": RUN_FORMAT,
        "created_at": time.time(),
        "tool": {"name": "roller-capture", "version": __version__},
        **configuration.to_json(),
    }
    try:
        write_json(run_dir / RUN_FILE, document, new=True)
    except FileExistsError:
        raise RollerError(
            f"{run_dir}: another collect has just begun a run here: name a new run directory", exit_code=2
        ) from None
    except OSError as error:
        raise RollerError(
            f"{run_dir}: cannot be written ({os.strerror(error.errno or 0)}): name another run directory", exit_code=2
        ) from None


def create_sample(run_dir: Path, sample_id: str, turns: tuple[str, ...], workdir: str | None, mode: RunMode) -> Sample:
    """Makes the folder of a new sample. Raises `RollerError`."""
    folder = run_dir / "samples" / sample_id
    make_private_directory(folder.parent)
    make_private_directory(folder)
    sample = Sample(folder, sample_id, turns, workdir, mode)
    sample.write()
    return sample
