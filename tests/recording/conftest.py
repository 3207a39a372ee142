"""An attempt that is recorded without any proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.recording.attempt_recorder import AttemptRecorder
from tests.support.recording import VERSIONS


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[AttemptRecorder]:
    """A recorder for Codex on `tmp_path`/attempt."""
    made = AttemptRecorder(tmp_path / "attempt", HARNESSES["codex"], {"mode": []}, VERSIONS)
    yield made
    if made.exchanges:
        made.stop()
