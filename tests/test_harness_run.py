"""How a test of a real harness sees that something of it was left running."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.harness_run import processes_of

WAIT = "import time; print('up', flush=True); time.sleep(600)"


@contextmanager
def _running(*command: str, home: Path) -> Iterator[int]:
    process = subprocess.Popen(command, env={"HOME": str(home)}, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # before it, the process may still be a copy of this one
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def _found(tmp_path: Path, program: Path) -> dict[int, str]:
    return processes_of(tmp_path / "temporary", tmp_path / "attempt", program, "hermes")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home that `collect` would have made in the run's own temporary folder."""
    return tmp_path / "temporary" / "roller-1" / "home"


def test_a_program_that_an_interpreter_runs_is_found(tmp_path: Path, home: Path) -> None:
    """Of a harness that pip has installed, the process is Python's."""
    program = tmp_path / "hermes"
    program.write_text(WAIT)
    with _running(sys.executable, str(program), home=home) as pid:
        assert _found(tmp_path, program) == {pid: "harness"}
    assert _found(tmp_path, program) == {}


def test_what_a_harness_has_started_is_found(tmp_path: Path, home: Path) -> None:
    """Whatever it is called."""
    with _running(sys.executable, "-c", WAIT, "--of", str(tmp_path / "hermes"), home=home) as pid:
        assert _found(tmp_path, tmp_path / "hermes") == {pid: "other"}


def test_the_proxy_is_found_by_its_attempt(tmp_path: Path) -> None:
    """It has a home of its own."""
    with _running(sys.executable, "-c", WAIT, "mitmdump", str(tmp_path / "attempt"), home=tmp_path / "other") as pid:
        assert _found(tmp_path, tmp_path / "hermes") == {pid: "proxy"}


def test_the_processes_of_another_run_are_not(tmp_path: Path) -> None:
    """The same program, in another run's home."""
    program = tmp_path / "hermes"
    program.write_text(WAIT)
    with _running(sys.executable, str(program), home=tmp_path / "temporary-2" / "home"):
        assert _found(tmp_path, program) == {}
