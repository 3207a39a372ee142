"""One recorder or finalizer at a time."""

import json
import os
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.recording import lock


def test_the_second_is_refused_by_name(tmp_path: Path) -> None:
    """The message says who holds it; release frees it, twice if one likes."""
    held = lock.acquire(tmp_path, "recorder")
    assert json.loads((tmp_path / "lock").read_bytes()) == {"pid": os.getpid(), "role": "recorder"}
    with pytest.raises(RollerError, match=rf"in use by a recorder \(process {os.getpid()}\)") as refused:
        lock.acquire(tmp_path, "finalizer")
    assert refused.value.exit_code == 1
    held.release()
    held.release()
    lock.acquire(tmp_path, "finalizer").release()


@pytest.mark.parametrize("text", [b"", b"[]", b'{"pid": "x", "role": {}}', b"\xff", b"[" * 4000])
def test_a_holder_that_left_no_name(tmp_path: Path, text: bytes) -> None:
    """Whatever stands in the file, the lock itself counts."""
    held = lock.acquire(tmp_path, "recorder")
    (tmp_path / "lock").write_bytes(text)
    with pytest.raises(RollerError, match="in use by another process"):
        lock.acquire(tmp_path, "recorder")
    held.release()


def test_a_stale_file_is_no_lock(tmp_path: Path) -> None:
    """A killed process left its text and no lock."""
    (tmp_path / "lock").write_text('{"pid": 1, "role": "recorder", "more": "than before"}')
    held = lock.acquire(tmp_path, "recorder")
    assert json.loads((tmp_path / "lock").read_bytes())["pid"] == os.getpid()
    held.release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Else somebody else's file would be overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    work = tmp_path / "work"
    work.mkdir()
    (work / "lock").symlink_to(victim)
    with pytest.raises(RollerError, match="lock: is a symbolic link, not a regular file: move it away"):
        lock.acquire(work, "recorder")
    assert victim.read_text() == "precious"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """One clear line, naming the file."""
    with pytest.raises(RollerError, match=r"none/lock: cannot be opened"):
        lock.acquire(tmp_path / "none", "finalizer")


def test_a_child_that_was_forked_meanwhile_keeps_no_lock(tmp_path: Path) -> None:
    """It has the descriptor too, until it runs its program."""
    held = lock.acquire(tmp_path, "finalizer")
    assert held._descriptor is not None
    copy = os.dup(held._descriptor)
    held.release()
    lock.acquire(tmp_path, "finalizer").release()
    os.close(copy)
