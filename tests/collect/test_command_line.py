"""A wrong command line is one line on stderr and exit code 2, for every command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher

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


@pytest.mark.parametrize(
    "words",
    [
        ("--prompt", "count", "the", "files"),
        ("--prompt", "count", "the", "files", "--", "--fast"),
        ("the", "--prompt", "count"),
    ],
)
def test_a_prompt_without_quotes_is_no_prompt_of_one_word(words: tuple[str, ...], tmp_path: Path) -> None:
    """What is for the harness stands behind `--`; the first word that is left over is named."""
    options = ("collect", "--harness", "generic", "--run-dir", str(tmp_path / "run"))
    done = roller_capture(*options, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: 'the': belongs to no option: put quotes around a prompt")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_what_stands_behind_the_dashes_is_for_the_harness(tmp_path: Path) -> None:
    """Words, too: it is refused for another reason."""
    options = ("collect", "--harness", "generic", "--run-dir", str(tmp_path / "run"), "--prompt", "x")
    done = roller_capture(*options, "--capture-calls", "--", "mode", "--", "fast")
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        ["error: --capture-calls needs --api-base URL: the proxy must be told which model service to forward to"],
    )


def test_the_help_names_what_can_be_chosen() -> None:
    """Every harness, each profile of each, and who has to be told a model; as the launchers have it."""
    told = " ".join(roller_capture("collect", "--help").stdout.split())
    assert f"The harness to run: {', '.join(HARNESSES)}." in told
    traits = {name: find_launcher(name).traits for name in HARNESSES}
    for name, one in traits.items():
        assert not one.profiles or f" {name}: {', '.join(one.profiles)};" in told
    needing = {name for name, one in traits.items() if one.needs_model}
    assert "Has to be given for opencode, hermes, openclaw and pi." in told
    assert needing == {"opencode", "hermes", "openclaw", "pi"}
    rows = [
        line for line in (_ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.endswith("needed |")
    ]
    assert {row.split("`")[1] for row in rows} == needing


def test_a_call_without_anything_shows_the_help() -> None:
    """All of it."""
    done = roller_capture()
    assert done.returncode == 2
    assert "Commands:" in done.stderr + done.stdout


def test_help_and_version_are_no_errors() -> None:
    """Exit code 0."""
    for option in ("--help", "--version"):
        assert roller_capture(option).returncode == 0
