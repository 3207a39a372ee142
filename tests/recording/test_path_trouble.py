"""Refusals over paths: each names what stands in the way, and its advice is true."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.path_trouble import refusal
from tests.support.recording import VERSIONS


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "on a disk that can be written to"),
        (errno.EACCES, "permissions"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "name another attempt directory"),
    ],
)
def test_advice_fits_the_cause(number: int, advice: str) -> None:
    """Permissions are no help on a read-only or a full disk."""
    message = str(refusal(Path("/a"), "cannot be opened", OSError(number, "text")))
    assert message.startswith(f"/a: cannot be opened ({os.strerror(number)}): ")
    assert advice in message
    assert ("permissions" in message) is (number == errno.EACCES)


def _file(path: Path) -> None:
    path.write_text("precious")


def _link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("inside", "make", "attempt", "said"),
    [
        ("x", _file, "x", "x: is a file, not a folder: move it away"),
        ("x", _file, "x/a", "x: is a file, not a folder, so {root}/x/a cannot be made in it"),
        ("x", _file, "x/a/b", "x: is a file, not a folder, so {root}/x/a/b cannot be made in it"),
        ("x", _link, "x", "x: is a link that leads to no folder: move it away"),
        ("x", os.mkfifo, "x", "x: is a pipe, socket or device, not a folder"),
        ("a/work", _file, "a", "a/work: is a file, not a folder"),
        ("a/work", _link, "a", "a/work: is a link that leads to no folder"),
        ("a/work/bodies", _file, "a", "a/work/bodies: is a file, not a folder"),
        ("a/work/lock", os.mkdir, "a", "a/work/lock: is a folder, not a regular file: move it away"),
        ("a/work/lock", _link, "a", "a/work/lock: is a symbolic link, not a regular file: move it away"),
        ("a/work/lock", os.mkfifo, "a", "a/work/lock: is a pipe, socket or device, not a regular file"),
        ("a/work/events.jsonl", os.mkdir, "a", "a/work/events.jsonl: is a folder, not a regular file"),
        ("a/work/events.jsonl", _link, "a", "a/work/events.jsonl: is a symbolic link, not a regular file"),
        ("a/work/attempt.json", _link, "a", "a/work/attempt.json: is a symbolic link, not a regular file"),
        ("a/work/attempt.json", os.mkdir, "a", "a/work/attempt.json: is a folder, not a regular file"),
    ],
)
def test_what_stands_in_the_way_is_named(
    tmp_path: Path, inside: str, make: Callable[[Path], None], attempt: str, said: str
) -> None:
    """The path that is wrong, what it is, and nothing about permissions; it is left as it was."""
    (tmp_path / inside).parent.mkdir(parents=True, exist_ok=True)
    make(tmp_path / inside)
    before = (tmp_path / inside).lstat()
    with pytest.raises(RollerError) as refused:
        AttemptRecorder(tmp_path / attempt, HARNESSES["pi"], {}, VERSIONS)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path}/{said.format(root=tmp_path)}")
    assert "\n" not in message
    assert (tmp_path / inside).lstat().st_mode == before.st_mode
