"""Which program is run."""

import sys
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import binaries, find_launcher
from roller_capture.launchers.binaries import find_binary

LAUNCHER = find_launcher("claude-code")


def program(path: Path, version: str, *, more: str = "") -> Path:
    """A program that says its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -I\nimport os\n{more}\nprint('{version} (Claude Code)')\n")
    path.chmod(0o700)
    return path


def installed(root: Path, version: str) -> Path:
    """A version that `make harness-claude-code` has installed."""
    folder = root / ".harnesses" / "claude-code" / version / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64"
    return program(folder / "claude", version)


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cwd").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setattr(binaries, "_CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_the_order_of_places(tmp_path: Path) -> None:
    """As given, else the newest that is installed, else the one on PATH."""
    on_path = program(tmp_path / "bin" / "claude", "1.0.0")
    assert find_binary("claude-code", LAUNCHER, None) == (on_path, "1.0.0")
    installed(tmp_path / "checkout", "2.1.99")
    newest = installed(tmp_path / "checkout", "2.1.332")
    (tmp_path / "checkout" / ".harnesses" / "claude-code" / "3.0.0").mkdir()  # a version that is not there
    assert find_binary("claude-code", LAUNCHER, None) == (newest, "2.1.332")
    newer = installed(tmp_path / "cwd", "2.1.400")
    assert find_binary("claude-code", LAUNCHER, None) == (newer, "2.1.400")
    given = program(tmp_path / "mine", "2.1.5")
    assert find_binary("claude-code", LAUNCHER, given) == (given, "2.1.5")


def test_none_anywhere(tmp_path: Path) -> None:
    """One line that says how to get it."""
    with pytest.raises(RollerError, match="is not installed: run make harness-claude-code") as caught:
        find_binary("claude-code", LAUNCHER, None)
    assert caught.value.exit_code == 2
    assert str(tmp_path) not in str(caught.value)


def test_what_is_no_harness_is_refused(tmp_path: Path) -> None:
    """A folder, a text, a program that says something else, with its words but not its escapes."""
    text = tmp_path / "text"
    text.write_text("no program")
    broken = tmp_path / "broken"
    broken.write_text("#!/nowhere/interpreter\n")
    broken.chmod(0o700)
    wrong = program(tmp_path / "wrong", "x")
    wrong.write_text(wrong.read_text().replace("(Claude Code)", "(Something Else)"))
    for path, said in (
        (tmp_path, "is no file"),
        (text, "cannot be run"),
        (broken, "cannot be run"),
        (wrong, "'x (Something Else)'"),
    ):
        with pytest.raises(RollerError) as caught:
            find_binary("claude-code", LAUNCHER, path)
        assert said in str(caught.value)
        assert caught.value.exit_code == 2


def test_asking_for_the_version_touches_no_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a version check may write settings."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    more = "open(os.path.expanduser('~/touched'), 'w').close(); assert 'ANTHROPIC_API_KEY' not in os.environ"
    given = program(tmp_path / "mine", "2.1.5", more=more)
    assert find_binary("claude-code", LAUNCHER, given).version == "2.1.5"
    assert list(home.iterdir()) == []
