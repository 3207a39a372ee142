"""`roller-capture hooks NAME`: for people who start harness and proxy themselves."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.hook_files import HOOKS, hook_path

RUNNER = CliRunner()


@pytest.mark.parametrize("harness", HOOKS)
def test_the_path_alone_is_on_stdout(harness: str) -> None:
    """So that it can be put into a command line; what to do with it is told beside."""
    result = RUNNER.invoke(app, ["hooks", harness])
    assert result.exit_code == 0
    path = Path(result.stdout.removesuffix("\n"))
    assert path == hook_path(harness)
    assert path.exists()
    assert result.stderr.count("\n") >= len(HOOKS[harness].steps)
    assert "{path}" not in result.stderr
    assert "{{" not in result.stderr.replace('{"providers": {"recorded": {', "")


@pytest.mark.parametrize("harness", sorted(HARNESSES.keys() - HOOKS.keys()))
def test_a_harness_without_a_hook_says_so(harness: str) -> None:
    """Nothing on stdout, and no error: there is nothing to do."""
    result = RUNNER.invoke(app, ["hooks", harness])
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{harness} needs no hook" in result.stderr


@pytest.mark.parametrize("harness", HOOKS)
def test_it_is_copied_where_the_user_wants_it(harness: str, tmp_path: Path) -> None:
    """Again over an older one, too; with every file."""
    for _ in range(2):
        result = RUNNER.invoke(app, ["hooks", harness, "--install", str(tmp_path)])
        assert result.exit_code == 0
    source = hook_path(harness)
    assert source is not None
    copy = tmp_path / source.name
    assert result.stdout == f"{copy}\n"
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    for file in files:
        if "__pycache__" not in file.parts:
            assert (copy / file.relative_to(source)).read_bytes() == file.read_bytes()
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["emacs"], "'emacs' is no known harness"),
        (["pi", "--install", "{tmp}/none"], "none: is no folder"),
        (["codex", "--install", "{tmp}"], "codex needs no hook"),
    ],
)
def test_wrong_calls(arguments: list[str], text: str, tmp_path: Path) -> None:
    """One line, exit code 2."""
    result = RUNNER.invoke(app, ["hooks", *(argument.format(tmp=tmp_path) for argument in arguments)])
    assert isinstance(result.exception, RollerError)
    assert (result.exception.exit_code, text in str(result.exception)) == (2, True)
