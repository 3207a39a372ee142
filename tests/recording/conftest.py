"""An attempt that is recorded without any proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.file_closer import FileCloser
from tests.support.recording import VERSIONS


@pytest.fixture(autouse=True)
def _no_closer_outlives_its_test() -> Iterator[None]:
    """Its thread would run into what the next test puts in the place of `os.close`.

    Without `monkeypatch`, so that this ends after what a test has replaced is back.
    """
    closers: list[FileCloser] = []

    class Kept(FileCloser):
        def __init__(self) -> None:
            super().__init__()
            closers.append(self)

    with pytest.MonkeyPatch.context() as replaced:
        replaced.setattr("roller_capture.recording.work_folder.FileCloser", Kept)
        yield
    for closer in closers:
        closer.finish()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[AttemptRecorder]:
    """A recorder for Codex on `tmp_path`/attempt."""
    made = AttemptRecorder(tmp_path / "attempt", HARNESSES["codex"], {"mode": []}, VERSIONS)
    yield made
    if made.exchanges:
        made.stop()
