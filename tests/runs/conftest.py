"""A run to play with."""

from pathlib import Path

import pytest

from tests.runs.made_run import MadeRun


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """One that has just begun."""
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    return made
