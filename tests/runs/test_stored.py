"""The files of a run: written whole or not at all; what somebody has edited is refused in one line."""

import errno
import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from roller_capture.runs import stored
from roller_capture.runs.configuration import RunMode
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


class Sized(stored.Stored):
    """A document with a member of each kind."""

    word: Literal["this"]
    mode: RunMode
    number: float = Field(gt=0)
    count: int = Field(ge=0)
    known: bool
    digest: str = Field(pattern=stored.SHA256)
    items: tuple[str, ...] = Field(min_length=1)
    inner: dict[str, str]


GOOD = {
    "word": "this",
    "mode": "captured",
    "number": 1.5,
    "count": 0,
    "known": True,
    "digest": "0" * 64,
    "items": ["a"],
    "inner": {},
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"word": "that"}, "word: is not 'this'"),
        ({"mode": "half"}, "mode: is not 'captured' or 'uncaptured'"),
        ({"number": "1"}, "number: is no number"),
        ({"number": 0}, "number: is not above 0.0"),
        ({"count": -1}, "count: is below 0"),
        ({"count": 1.5}, "count: is no integer"),
        ({"known": 1}, "known: is neither true nor false"),
        ({"digest": "x"}, "digest: has not the form ^[0-9a-f]{64}$"),
        ({"digest": 1}, "digest: is no text"),
        ({"items": []}, "items: has fewer than 1 items"),
        ({"items": "a"}, "items: is no list"),
        ({"items": ["a", 1]}, "items.1: is no text"),
        ({"inner": []}, "inner: is no object"),
        ({"extra": 1}, "extra: is not known here"),
        ({"inner": None, "number": None}, "number: is no number (and 1 more)"),
    ],
)
def test_a_wrong_member_is_told_in_our_words(change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    """Which one, and what is wrong with it; never in the words of a library."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD))
    assert stored.read_stored(path, Sized).count == 0
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(stored.DamagedError) as caught:
        stored.read_stored(path, Sized)
    assert caught.value.problem == problem
    path.write_text(json.dumps({name: value for name, value in GOOD.items() if name != "mode"}))
    with pytest.raises(stored.DamagedError, match=r"mode: is missing$"):
        stored.read_stored(path, Sized)
    path.write_text("[]")
    with pytest.raises(stored.DamagedError, match="holds no such document: is no object"):
        stored.read_stored(path, Sized)
