"""Files appear whole or not at all."""

import contextlib
import errno
import os
import signal
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.export.output_files import OutputFiles


def test_nothing_is_there_before_all_of_it_is(tmp_path: Path) -> None:
    """The names come at the end; no other name stays."""
    one, two = tmp_path / "one", tmp_path / "two"
    files = OutputFiles((one, two), overwrite=False)
    files.check()
    with files.writing():
        files.write(one, "1\ud800")
        with files.open(two) as stream:
            stream.write(b"2")
        assert not one.exists()
        files.publish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert one.read_bytes() == b"1\\ud800"
    assert one.stat().st_mode & 0o777 == 0o600


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Unless that was asked for."""
    path = tmp_path / "one"
    files = OutputFiles((path,), overwrite=False)

    def write() -> None:
        with files.writing():
            files.write(path, "mine")
            path.write_text("theirs")
            files.publish()

    with pytest.raises(RollerError, match="somebody else"):
        write()
    assert path.read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_without_links_gets_its_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """By a rename, and still never in the place of another file."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "one"
    files = OutputFiles((path,), overwrite=False)
    with contextlib.suppress(RollerError), files.writing():
        files.write(path, "mine")
        if taken:
            path.write_text("theirs")
        files.publish()
    assert path.read_text() == ("theirs" if taken else "mine")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "no space left"), (errno.EIO, "cannot be written")])
def test_a_disk_error_is_one_line_and_leaves_nothing(tmp_path: Path, number: int, words: str) -> None:
    """It names the file."""
    path = tmp_path / "one"
    files = OutputFiles((path,), overwrite=False)

    def write() -> None:
        with files.writing():
            files.write(path, "half")
            raise OSError(number, "Input/output error")

    with pytest.raises(RollerError, match=words):
        write()
    assert list(tmp_path.iterdir()) == []


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    """A link could lead anywhere."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RollerError, match="no regular file"):
        OutputFiles((tmp_path / "link",), overwrite=True).check()
    with pytest.raises(RollerError, match="is there already"):
        OutputFiles((tmp_path / "link",), overwrite=False).check()


def test_a_signal_waits_until_all_files_have_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a new card would lie beside old rows, or alone."""
    one, two = tmp_path / "one", tmp_path / "two"
    files = OutputFiles((one, two), overwrite=True)
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(path, target)

    def publish() -> None:
        with files.writing():
            files.write(one, "1")
            files.write(two, "2")
            files.publish()

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(SystemExit):
        publish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
