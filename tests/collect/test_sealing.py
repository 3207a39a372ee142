"""Copies of a harness's files: private, and without keys."""

import base64
import json
import os
from pathlib import Path

import pytest

from roller_capture.collect import sealing
from roller_capture.collect.sealing import seal

KEY = 'sk-real"key/0123456789'


@pytest.mark.parametrize("chunk", [1, 7, 32, 1 << 20])
def test_a_key_is_masked_wherever_pieces_begin(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many `*`, so that the file keeps its length."""
    monkeypatch.setattr(sealing, "_CHUNK", chunk)
    for before in range(0, 40, 3):
        path = tmp_path / f"{before}.jsonl"
        path.write_text("x" * before + KEY + KEY + "y" * 5 + KEY)
        assert seal(tmp_path, [KEY]) == [path.name]
        stars = "*" * len(KEY)
        assert path.read_text() == "x" * before + stars * 2 + "y" * 5 + stars
        path.unlink()


def test_a_key_is_masked_in_every_spelling(tmp_path: Path) -> None:
    """A JSON log escapes it, an error can hold it as base64."""
    (tmp_path / "json").write_text(json.dumps({"error": KEY}))
    (tmp_path / "base64").write_text(base64.b64encode(KEY.encode()).decode())
    (tmp_path / "clean").write_text("nothing")
    assert sorted(seal(tmp_path, [KEY])) == ["base64", "json"]
    assert json.loads((tmp_path / "json").read_text())["error"].strip("*") == ""
    assert seal(tmp_path, [KEY]) == []


def test_only_files_that_have_one_name_are_touched(tmp_path: Path) -> None:
    """What a link or a second name leads to may be anywhere."""
    outside = tmp_path / "outside"
    outside.write_text(KEY)
    outside.chmod(0o644)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    os.link(outside, folder / "second")
    os.mkfifo(folder / "fifo")
    assert seal(folder, [KEY]) == []
    assert outside.read_text() == KEY
    assert outside.stat().st_mode & 0o777 == 0o644


def test_everything_is_made_private(tmp_path: Path) -> None:
    """Also what was more open, or less."""
    inner = tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    (inner / "log").write_text(KEY)
    (inner / "log").chmod(0o444)
    inner.chmod(0o755)
    assert seal(tmp_path / "folder", [KEY]) == ["inner/log"]
    assert [path.stat().st_mode & 0o777 for path in (inner.parent, inner, inner / "log")] == [0o700, 0o700, 0o600]
    assert seal(tmp_path / "folder", []) == []
