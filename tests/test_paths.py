"""Paths that people have typed."""

from pathlib import Path

import pytest

from roller_capture.paths import full_path


def test_dots_go_where_the_place_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages and books tell the plain path; also of what is not there yet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert full_path(Path("a/../b/./c")) == tmp_path / "b" / "c"
    assert full_path(Path("b")) == tmp_path / "b"
    assert full_path(Path("/x/y")) == Path("/x/y")


def test_dots_behind_a_link_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`link/..` is the folder above what the link leads to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    assert full_path(Path("link/../b")).resolve() == tmp_path / "far" / "b"


def test_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of nobody there is none: the text stays, and no traceback comes of it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert full_path(Path("~/x")) == tmp_path / "x"
    monkeypatch.chdir(tmp_path)
    assert full_path(Path("~no-such-user/x")) == tmp_path / "~no-such-user" / "x"
