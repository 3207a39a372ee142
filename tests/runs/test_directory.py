"""The run directory itself."""

import contextlib
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.runs.directory import new_run
from tests.runs.made_run import CONFIGURATION


@pytest.mark.parametrize("place", ["/proc/no-such", "/proc/no-such/inner"])
def test_one_that_cannot_be_made_is_named_once(place: str) -> None:
    """Whether it is the directory itself or one above it."""
    with (
        pytest.raises(RollerError) as refused,
        contextlib.ExitStack() as held,
        new_run(Path(place), CONFIGURATION, held),
    ):
        pass
    message = f"--run-dir {place}: cannot be made (No such file or directory): name another one with --run-dir"
    assert (str(refused.value), refused.value.exit_code) == (message, 2)
