"""The files of a run: written whole or not at all; what somebody has edited is refused in one line."""

import errno
import json
import os
from pathlib import Path

import pytest

from roller_capture.runs import stored
from roller_capture.runs.stored import write_json


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Private, and with nothing left beside it; a link in its place is replaced and not followed."""
    target = tmp_path / "elsewhere"
    (tmp_path / "a.json").symlink_to(target)
    write_json(tmp_path / "a.json", {"a": 1})
    write_json(tmp_path / "a.json", {"a": 2})
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 2}
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "a.json").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file is whole, and there is no half of a new one."""
    write_json(tmp_path / "a.json", {"a": 1})

    def broken(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.fsync", broken)
    for new in (False, True):
        with pytest.raises(OSError, match="Input/output"):
            write_json(tmp_path / "a.json", {"a": 2}, new=new)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 1}


def test_a_full_disk_has_room_for_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the blocks of the old file; a text that is too long for them changes nothing."""

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.json"
    write_json(path, {"state": "running", "more": "x" * 200})
    os.sync()  # where a file system gives out blocks late
    monkeypatch.setattr(stored, "_replace", full)
    write_json(path, {"state": "interrupted"})
    assert json.loads(path.read_bytes()) == {"state": "interrupted"}
    for target, value in ((path, {"state": "x" * 1_000_000}), (tmp_path / "b.json", {})):
        with pytest.raises(OSError, match="No space"):
            write_json(target, value)
    assert json.loads(path.read_bytes()) == {"state": "interrupted"}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_a_new_file_must_be_new(tmp_path: Path) -> None:
    """The old one stays."""
    write_json(tmp_path / "a.json", {"a": 1}, new=True)
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "a.json", {"a": 2}, new=True)
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1
