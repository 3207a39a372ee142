"""A run with a sample that was made again."""

from pathlib import Path

import pytest

from roller_capture.runs.books import SampleState
from tests.runs.made_run import MadeRun


def redone_run(directory: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """The sample `again`, whose first attempt failed and whose second completed; nothing else."""
    made = MadeRun(directory, monkeypatch)
    made.begin()
    again = made.done("again", state=SampleState.FAILED)
    entry = made.record(again)
    again.settle(entry, made.publish(again, entry))
    return made
