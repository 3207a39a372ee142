"""Whatever stands in native logs, the attempt is published and validates: odd values reach no file in a form that
breaks it."""

import json
import random
from pathlib import Path

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.harnesses import HARNESSES
from roller_capture.integrity import validate_attempt
from roller_capture.vocabulary import DebugRetention
from tests.adapters.mutations import value_mutations
from tests.adapters.recordings import recordings, typical

_DAMAGES = 12
_SPELLINGS = ("'\\ud800'", "'nul\\x00'", "'../../../../etc/passwd'", "of another", "'@@deep@@'", "'@@long-number@@'")
"""Values that could break a path, a locator or a line of what is published, by the names of their mutations."""


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_is_published_of_every_recorded_run_validates(harness: str, tmp_path: Path) -> None:
    """Resume and every export ask `validate` first, which holds a published attempt to more rules than `finalize` does
    what it has just written."""
    for number, recording in enumerate(recordings(harness)):
        attempt = recording.attempt(tmp_path / str(number))
        recording.write(attempt / "work" / "native")
        finalize_attempt(attempt, FinalizeRequest())
        assert [finding.message for finding in validate_attempt(attempt)] == [], recording.name


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_is_published_of_damaged_logs_validates(harness: str, tmp_path: Path) -> None:
    """With all evidence kept, and every locator and pointer followed."""
    recording = typical(harness)
    chance = random.Random(harness)
    odd = [item for item in value_mutations(recording.files, chance) if item.name.endswith(_SPELLINGS)]
    for number, mutation in enumerate(chance.sample(odd, min(len(odd), _DAMAGES))):
        folder = tmp_path / str(number)
        attempt = recording.attempt(folder)
        native = attempt / "work" / "native"
        assert mutation.change is not None
        for name, content in recording.files.items():
            (native / name).parent.mkdir(parents=True, exist_ok=True)
            (native / name).write_bytes(mutation.change(content) if name == mutation.file else content)
        outcome = finalize_attempt(attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))
        errors = json.dumps(outcome.manifest["errors"])
        assert "adapter_failed" not in errors, mutation.name
        assert validate_attempt(attempt, deep=True) == [], mutation.name
