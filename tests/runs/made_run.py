"""A run with published samples, made without processes."""

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.runs.books import AttemptEntry, Sample, SampleState, create_sample
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.directory import new_run
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.vocabulary import DebugRetention, ExecutionStatus
from tests.support.publish import NATIVE_LOG, family_attempt, family_capture, use_capture
from tests.support.run_configurations import CAPTURED_RUN

CONFIGURATION = CAPTURED_RUN


@dataclass
class MadeRun:
    """A run directory."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch
    retention: DebugRetention = DebugRetention.OFF

    def begin(self, **configuration: Any) -> None:
        """run.json, and nothing else."""
        changed = dataclasses.replace(CONFIGURATION, **configuration)
        with contextlib.ExitStack() as held, new_run(self.directory, changed, held):
            pass

    def folder(self, sample_id: str) -> Path:
        """A sample's folder."""
        return self.directory / "samples" / sample_id

    def attempt(self, sample_id: str, number: int = 1) -> Path:
        """An attempt's folder."""
        return self.folder(sample_id) / "capture" / f"attempt-{number:04}"

    def add(self, sample_id: str, *turns: str, **own: Any) -> Sample:
        """A sample without attempts."""
        return create_sample(self.directory, SampleSpec(sample_id, turns or ("hello",), **own), RunMode.CAPTURED)

    def record(self, sample: Sample, state: SampleState = SampleState.COMPLETED) -> AttemptEntry:
        """An attempt that has been recorded and is not published yet."""
        entry, place = sample.begin_attempt()
        builder = family_attempt(place)
        log = builder.work / "native" / NATIVE_LOG
        log.parent.mkdir(parents=True)
        log.write_text('{"line":1,"tool":"toolu_1"}\n')
        builder.build()
        edit(builder.work / "attempt.json", lambda info: info.update(capture_id=f"cap_{secrets.token_hex(8)}"))
        sample.end_attempt(entry, state)
        return entry

    def publish(self, sample: Sample, entry: AttemptEntry, note: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Publishes it as `collect` does, but for the last entry in the books."""
        place = sample.place(entry)
        use_capture(self.monkeypatch, family_capture(place / "work" / "native" / NATIVE_LOG))
        request = FinalizeRequest(
            harness="claude-code",
            debug_retention=self.retention,
            execution_status=ExecutionStatus(entry.state),
            before_publish=note or (lambda digest: sample.note_intent(entry, digest)),
        )
        return finalize_attempt(place, request).manifest

    def done(self, sample_id: str, *turns: str, state: SampleState = SampleState.COMPLETED, **own: Any) -> Sample:
        """A sample whose only attempt is published, with books that know it."""
        sample = self.add(sample_id, *turns, **own)
        entry = self.record(sample, state)
        sample.settle(entry, self.publish(sample, entry))
        return sample


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Changes a JSON file by hand."""
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
