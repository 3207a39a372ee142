"""Files of the working folder: private, never through links, replaced whole."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.recording import file_closer
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.work_folder import WorkFolder, make_private_directory
from tests.support.upstream import eventually


@pytest.fixture(params=[0, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the user's umask is."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_modes(tmp_path: Path) -> None:
    """Folders 0700, files 0600."""
    folder = WorkFolder(tmp_path / "work")
    body = BodyFile(folder, "000001.request", _never)
    body.write(b"x")
    body.close()
    folder.replace("attempt.json", b"{}")
    os.close(folder.open_events("events.jsonl"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "work", *(tmp_path / "work").rglob("*")]}
    assert modes == {
        "work": 0o700,
        "bodies": 0o700,
        "000001.request": 0o600,
        "attempt.json": 0o600,
        "events.jsonl": 0o600,
    }


def test_a_loose_folder_is_tightened(tmp_path: Path) -> None:
    """Also one that somebody made before."""
    (tmp_path / "work").mkdir(mode=0o755)
    WorkFolder(tmp_path / "work").close()
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["work", "work/bodies"])
def test_linked_folders_are_refused(tmp_path: Path, name: str) -> None:
    """Else another folder would be written to, and its mode changed."""
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(other)
    with pytest.raises(RollerError, match="is a symbolic link, not a folder: move it away"):
        WorkFolder(tmp_path / "work")
    assert other.stat().st_mode & 0o777 == 0o755


def test_linked_files_are_not_followed(tmp_path: Path) -> None:
    """Events, bodies and attempt.json alike."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = WorkFolder(tmp_path / "work")
    for name in ("events.jsonl", "attempt.json", "attempt.json.tmp", "bodies/000001.request"):
        (tmp_path / "work" / name).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        folder.open_events("events.jsonl")
    with pytest.raises(OSError, match="symbolic"):
        folder.read("attempt.json", 100)
    folder.replace("attempt.json", b"new")
    assert BodyFile(folder, "000001.request", lambda _: None).error is not None
    assert victim.read_text() == "precious"
    assert (tmp_path / "work" / "attempt.json").read_bytes() == b"new"
    assert not (tmp_path / "work" / "attempt.json").is_symlink()


def test_events_must_be_a_regular_file(tmp_path: Path) -> None:
    """A pipe would block, a folder cannot hold lines."""
    folder = WorkFolder(tmp_path / "work")
    os.mkfifo(tmp_path / "work" / "events.jsonl")
    with pytest.raises(OSError, match="no regular file"):
        folder.open_events("events.jsonl")


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the old or the new one, never a part."""
    folder = WorkFolder(tmp_path / "work")
    folder.replace("attempt.json", b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        folder.replace("attempt.json", b"new")
    monkeypatch.undo()
    assert folder.read("attempt.json", 100) == b"old"
    folder.replace("attempt.json", b"newer")
    assert folder.read("attempt.json", 100) == b"newer"
    assert folder.read("nothing", 100) is None


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_a_directory_that_cannot_be_made(tmp_path: Path, below: str) -> None:
    """One clear line that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RollerError, match=below) as refused:
        make_private_directory(tmp_path / below)
    assert refused.value.exit_code == 1


def test_a_body_stops_at_its_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later success would leave a hole."""
    folder = WorkFolder(tmp_path / "work")
    told: list[OSError] = []
    body = BodyFile(folder, "000001.response", told.append)
    body.write(b"one")
    real = os.write

    def short(descriptor: int, data: bytes) -> int:
        if len(data) > 1:
            return real(descriptor, bytes(data)[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", short)
    body.write(b"two")
    monkeypatch.undo()
    body.write(b"three")
    body.close()
    body.close()
    assert body.describe() == {"path": "bodies/000001.response", "bytes": 5}
    assert (tmp_path / "work/bodies/000001.response").read_bytes() == b"onetw"
    assert told == [body.error]


def test_a_failed_close_is_an_error_of_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network file systems say only then that a file did not fit. Told once, and the handle is gone in any case."""
    folder = WorkFolder(tmp_path / "work")
    told: list[OSError] = []
    body = BodyFile(folder, "000001.response", told.append)
    body.write(b"x")
    real = os.close

    def fails(descriptor: int) -> None:
        real(descriptor)
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", fails)
    body.close()
    body.close()
    folder.closer.finish()
    monkeypatch.undo()
    assert told == [body.error]
    assert isinstance(body.error, OSError)


@pytest.mark.parametrize(("finished", "held"), [(False, 256), (True, 0)])
def test_many_closed_files_hold_few_handles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool, held: int
) -> None:
    """However fast they end; after the end of the recording each is closed at once."""
    monkeypatch.setattr(file_closer, "_INTERVAL", 3600.0)
    folder = WorkFolder(tmp_path / "work")
    if finished:
        folder.closer.finish()
    for number in range(400):
        BodyFile(folder, f"{number:06d}.request", _never).close()
    assert _handles(folder) == held
    folder.close()
    assert _handles(folder) == 0


async def test_handles_are_given_back_soon(tmp_path: Path) -> None:
    """Also when nothing follows."""
    folder = WorkFolder(tmp_path / "work")
    for number in range(3):
        BodyFile(folder, f"{number:06d}.request", _never).close()
        await eventually(lambda: _handles(folder) == 0)


def test_without_a_thread_files_are_closed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have all the threads that it is allowed."""
    folder = WorkFolder(tmp_path / "work")

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    BodyFile(folder, "000001.request", _never).close()
    assert _handles(folder) == 0
    monkeypatch.undo()
    BodyFile(folder, "000002.request", _never).close()
    folder.close()
    assert _handles(folder) == 0


def _never(error: OSError) -> None:
    raise AssertionError(error)


def _handles(folder: WorkFolder) -> int:
    """How many body files are open."""
    count = 0
    for link in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # closed by the thread just now
            count += link.readlink().parent == folder.path / "bodies"
    return count
