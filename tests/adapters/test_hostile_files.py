"""What may stand in the place of a native log, in the home of every harness: links, pipes, devices, folders, files that
cannot be read, or not to their end, or that grow meanwhile. Each has a name, and nothing outside is ever opened."""

import errno
import io
import os
import shutil
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from roller_capture.adapters import native_files
from roller_capture.capture_protocol import NativeCapture
from roller_capture.harnesses import HARNESSES
from tests.adapters.recordings import LAUNCHER, Recording, Verdict, typical

_NOT_READ = ("stdout.jsonl", LAUNCHER)
"""Files of a run that adapters do not open; `finalize` reads the second."""

_SECRET = b"the content of a file outside\n"


def _logs() -> Iterator[Any]:
    for harness in HARNESSES:
        for name in sorted(typical(harness).files):
            if name not in _NOT_READ:
                yield pytest.param(harness, name, id=f"{harness} {Path(name).name}")


_EVERY_LOG = list(_logs())


def _read(harness: str, root: Path) -> NativeCapture:
    scratch = root.parent / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return typical(harness).read(root, scratch)


def _link(place: Path, outside: Path) -> None:
    (outside / "secret").write_bytes(_SECRET)
    place.symlink_to(outside / "secret")


def _link_to_a_good_copy(place: Path, outside: Path) -> None:
    shutil.move(outside / "good", outside / "copy")
    place.symlink_to(outside / "copy")


def _link_to_itself(place: Path, outside: Path) -> None:  # noqa: ARG001
    place.symlink_to(place.name)


def _link_upwards(place: Path, outside: Path) -> None:  # noqa: ARG001
    place.symlink_to(place.parent, target_is_directory=True)


def _pipe(place: Path, outside: Path) -> None:  # noqa: ARG001
    os.mkfifo(place)


def _socket(place: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:  # an address may be no longer than some hundred bytes
        bound.bind(str(outside / "s"))
    (outside / "s").rename(place)


def _folder(place: Path, outside: Path) -> None:  # noqa: ARG001
    place.mkdir()
    (place / "inside").write_bytes(b"{}\n")


def _nothing(place: Path, outside: Path) -> None:
    """Only takes the file away."""


_IN_ITS_PLACE = (_link, _link_to_a_good_copy, _link_to_itself, _link_upwards, _pipe, _socket, _folder, _nothing)


@pytest.mark.parametrize("put", _IN_ITS_PLACE, ids=lambda put: put.__name__.strip("_"))
@pytest.mark.parametrize(("harness", "name"), _EVERY_LOG)
def test_something_else_stands_in_the_place_of_a_log(
    harness: str, name: str, put: Callable[[Path, Path], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is not followed, not opened and not waited for; the calls go to nobody else, and what is lost has a name."""
    folder = tmp_path_factory.mktemp("f")
    root, outside = folder / "native", folder / "outside"
    recording = typical(harness)
    recording.write(root)
    outside.mkdir()
    base = Verdict.of(recording, _read(harness, root))
    shutil.move(root / name, outside / "good")
    put(root / name, outside)
    native = _read(harness, root)
    verdict = Verdict.of(recording, native)
    assert all(key in (None, known) for key, known in zip(verdict.owners, base.owners, strict=True))
    nothing_lost = (verdict.owners, verdict.relations) == (base.owners, base.relations)  # metadata that others repeat
    assert verdict.reasons - base.reasons or nothing_lost
    assert all(source.path.is_file() and not source.path.is_symlink() for source in native.sources)
    assert all(not source.path.resolve().is_relative_to(outside) for source in native.sources)


@pytest.mark.parametrize(("harness", "name"), _EVERY_LOG)
def test_a_log_that_may_not_be_read_is_named(
    harness: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode 000, as everybody but root meets it."""
    recording = typical(harness)
    root = tmp_path / "native"
    recording.write(root)
    base = Verdict.of(recording, _read(harness, root))
    really = os.open

    def refused(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path) == str(root / name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really(path, *arguments, **more)

    monkeypatch.setattr(native_files.os, "open", refused)
    native = _read(harness, root)
    verdict = Verdict.of(recording, native)
    assert all(key in (None, known) for key, known in zip(verdict.owners, base.owners, strict=True))
    reason = "cannot be read: Permission denied"
    assert any(gap.message.startswith(reason) and gap.source == name for gap in native.gaps)


class _Failing(io.RawIOBase):
    """A file of which a disk gives the first half only."""

    def __init__(self, content: bytes) -> None:
        self._good = io.BytesIO(content[: len(content) // 2])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._good.readinto(buffer)
        if read == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read


@pytest.mark.parametrize(("harness", "name"), _EVERY_LOG)
def test_a_log_that_cannot_be_read_on_is_named_and_its_beginning_is_read(
    harness: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing disk: an input/output error in the middle."""
    recording = typical(harness)
    root = tmp_path / "native"
    recording.write(root)
    base = Verdict.of(recording, _read(harness, root))
    content = recording.files[name]
    really_fdopen, really_open = os.fdopen, Path.open

    def fdopen(descriptor: int, *arguments: Any, **more: Any) -> Any:
        stream: IO[Any] = really_fdopen(descriptor, *arguments, **more)
        return _failing(stream, str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    def path_open(path: Path, *arguments: Any, **more: Any) -> Any:
        stream: IO[Any] = really_open(path, *arguments, **more)
        return _failing(stream, str(path))

    def _failing(stream: IO[Any], path: str) -> Any:
        if path != str(root / name):
            return stream
        stream.close()
        return io.BufferedReader(_Failing(content))

    monkeypatch.setattr(native_files.os, "fdopen", fdopen)
    monkeypatch.setattr(Path, "open", path_open)
    native = _read(harness, root)
    monkeypatch.undo()
    verdict = Verdict.of(recording, native)
    assert all(key in (None, known) for key, known in zip(verdict.owners, base.owners, strict=True))
    assert verdict.reasons - base.reasons
    if not name.endswith(".meta.json"):  # read in one go
        assert any(gap.message.startswith(("cannot be read", "holds no")) for gap in native.gaps)


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_log_may_hold_a_line_of_twelve_megabytes(harness: str, tmp_path: Path) -> None:
    """A screenshot, or a file that a tool printed. It is read like any other line, or is of no known type."""
    recording = typical(harness)
    root = tmp_path / "native"
    recording.write(root)
    base = Verdict.of(recording, _read(harness, root))
    name = max((name for name in recording.files if name not in _NOT_READ), key=lambda one: len(recording.files[one]))
    line = b'{"type":"custom","table":"session_model_usage","event":"log","data":"' + b"x" * (12 << 20) + b'"}\n'
    with (root / name).open("ab") as stream:
        stream.write(line)
    verdict = Verdict.of(recording, _read(harness, root))
    assert verdict.owners == base.owners
    assert verdict.relations == base.relations


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_log_may_have_two_hundred_megabytes(harness: str, tmp_path: Path) -> None:
    """A session of weeks, with what its tools printed. It is read line by line, and the rest is what it was."""
    recording = typical(harness)
    root = tmp_path / "native"
    recording.write(root)
    base = Verdict.of(recording, _read(harness, root))
    name = max((name for name in recording.files if name not in _NOT_READ), key=lambda one: len(recording.files[one]))
    line = b'{"type":"custom","table":"session_model_usage","event":"log","data":"' + b"x" * 60_000 + b'"}\n'
    with (root / name).open("ab") as stream:
        while stream.tell() < 200 << 20:
            stream.write(line * 64)
    tracemalloc.start()
    try:
        verdict = Verdict.of(recording, _read(harness, root))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert verdict.owners == base.owners
    assert verdict.relations == base.relations


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_log_may_grow_while_it_is_read(harness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there at first is read; a line that is half written has a name."""
    recording = typical(harness)
    root = tmp_path / "native"
    recording.write(root)
    base = Verdict.of(recording, _read(harness, root))
    logs = [name for name in recording.files if name not in _NOT_READ and not name.endswith(".meta.json")]
    really = os.open

    def grown(path: Any, *arguments: Any, **more: Any) -> int:
        descriptor = really(path, *arguments, **more)
        if any(str(path) == str(root / name) for name in logs):
            with open(path, "ab") as stream:  # noqa: PTH123 - `Path.open` is not what is watched
                stream.write(b'{"type": "custom", "half a l')
        return descriptor

    monkeypatch.setattr(native_files.os, "open", grown)
    native = _read(harness, root)
    verdict = Verdict.of(recording, native)
    assert verdict.owners == base.owners
    assert verdict.relations == base.relations
    assert "native_line_unreadable" in {gap.code for gap in native.gaps}


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("identifier", ["../../outside", "/etc/passwd", "..", ".", "a/b", "nul\0", "x" * 300, "\udcff"])
def test_an_id_of_a_request_leads_to_no_file(harness: str, identifier: str, tmp_path: Path) -> None:
    """Ids come from headers, which anybody can send, and some are the names of files."""
    recording = typical(harness)
    root = tmp_path / "home" / "native"
    recording.write(root)
    recording.write(tmp_path / "outside")
    call = recording.calls[0]
    strange = Recording(
        harness,
        recording.name,
        tuple(
            type(call)(
                item.owner, dict.fromkeys(item.headers, identifier), item.response_id, item.tools, item.completed
            )
            for item in recording.calls
        ),
        recording.files,
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    native = strange.read(root, scratch)
    allowed = (root, scratch)
    assert all(any(source.path.is_relative_to(folder) for folder in allowed) for source in native.sources)


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_home_that_is_a_file_or_is_gone_is_told(harness: str, tmp_path: Path) -> None:
    """There is nothing to read then, and nobody owns anything by a log."""
    recording = typical(harness)
    file = tmp_path / "file"
    file.write_bytes(b"")
    for root in (file, tmp_path / "gone", tmp_path / ("x" * 300)):
        native = _read(harness, root)
        verdict = Verdict.of(recording, native)
        assert not native.sources
        if harness != "generic":  # whose headers alone are enough
            assert native.gaps
            assert set(verdict.owners) == {None}
