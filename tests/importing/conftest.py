"""An import into a folder of the test, and what is read back of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.importing.command import ImportRequest, import_attempt
from roller_capture.working_files import WorkingAttempt, read_working_files

Import = Callable[..., WorkingAttempt]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Imports files as generic's and reads the working files back."""

    def run(*sources: Path, harness: str = "generic") -> WorkingAttempt:
        import_attempt(ImportRequest(sources, tmp_path / "attempt", harness))
        return read_working_files(tmp_path / "attempt")

    return run
