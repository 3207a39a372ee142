"""A wrong command line is one line on stderr and exit code 2, for every command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def roller_capture(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command, as a process."""
    return subprocess.run(
        [sys.executable, "-m", "roller_capture", *arguments],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collect",), "--run-dir"),
        (("collect", "--run-dir", "x", "--no-such-option"), "--no-such-option"),
        (("collect", "--run-dir", "x", "--timeout", "soon"), "--timeout"),
        (("collect", "--run-dir", "x", "--protocol", "soap"), "--protocol"),
        (("collect", "--run-dir"), "--run-dir"),
        (("no-such-command",), "no-such-command"),
        (("view",), "PATH"),
        (("validate", "--json=yes", "x"), "--json"),
        (("decode", "x"), "--protocol"),
        (("finalize", "x", "--execution-status", "fine"), "--execution-status"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    """Nothing on stdout, no frame, and where the options are explained."""
    done = roller_capture(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert done.stderr.endswith("--help\n")
    assert done.stderr.count("\n") == 1


def test_a_call_without_anything_shows_the_help() -> None:
    """All of it."""
    done = roller_capture()
    assert done.returncode == 2
    assert "Commands:" in done.stderr + done.stdout


def test_help_and_version_are_no_errors() -> None:
    """Exit code 0."""
    for option in ("--help", "--version"):
        assert roller_capture(option).returncode == 0
