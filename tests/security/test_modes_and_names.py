"""All that is written is for the user alone, whatever the umask, and under no name that others could foresee."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.collect.private_folder import make_private_folder
from roller_capture.collect.sealing import seal
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.migrate import migrate_attempt
from roller_capture.prune import prune_attempt
from roller_capture.publication import Staging
from roller_capture.recording.work_folder import WorkFolder
from roller_capture.vocabulary import DebugRetention
from tests.collect.rig import Rig
from tests.support.proxy import reverse, running_proxy
from tests.support.publish import publish_family
from tests.support.upstream import Exchange, call, upstream

REQUEST = b'{"model": "m", "messages": []}'


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """From a shell that shares everything to one that takes from the owner too."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """What is not 0700 or 0600, with its mode."""
    modes = {path: path.lstat().st_mode for path in [folder, *folder.rglob("*")]}
    return {
        str(path): oct(stat.S_IMODE(mode))
        for path, mode in modes.items()
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    }


@pytest.mark.usefixtures("umask")
async def test_what_is_recorded_and_published(tmp_path: Path) -> None:
    """Working files, then the attempt with its debug material."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    attempt = tmp_path / "a"
    async with upstream(answer) as service, running_proxy(attempt, reverse(service.port)) as proxy:
        await call(proxy.port, REQUEST)
    assert open_to_others(attempt) == {}
    finalize_attempt(attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert (attempt / "raw" / "responses").is_dir()
    assert open_to_others(attempt) == {}


@pytest.mark.usefixtures("umask")
def test_the_folders_above_an_attempt(tmp_path: Path) -> None:
    """Those that the recorder makes: who can write there can put another attempt in its place."""
    WorkFolder(tmp_path / "above" / "it" / "attempt" / "work").close()
    assert open_to_others(tmp_path / "above") == {}


def _loose(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("mask", [0o000, 0o777], ids=oct)
def test_a_whole_attempt_made_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int) -> None:
    """Migrated and pruned: both are new folders, however open the old one was."""
    publish_family(tmp_path / "a", monkeypatch, debug_retention=DebugRetention.FULL)
    _loose(tmp_path / "a")
    before = os.umask(mask)
    try:
        migrate_attempt(tmp_path / "a", tmp_path / "b", from_raw=True)
        prune_attempt(tmp_path / "a")
        staging = Staging(tmp_path)
        staging.write("raw/deep/er/file", b"x")
    finally:
        os.umask(before)
    for name in ("a", "b", staging.directory.name):
        assert open_to_others(tmp_path / name) == {}
    assert validate_attempt(tmp_path / "b", deep=True) == []


def test_a_run_is_private_also_while_it_runs(rig: Rig) -> None:
    """The run's books and the attempt; the harness keeps the umask of the user."""
    before = os.umask(0)
    try:
        result = rig.collect("hello")
    finally:
        os.umask(before)
    assert result.exit_code == 0
    assert open_to_others(result.run_dir) == {}
    assert rig.started()[0]["umask"] == 0


def test_private_folders_have_no_foreseeable_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can make them first."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = {make_private_folder().root for _ in range(20)}
    assert len(made) == 20
    assert {stat.S_IMODE(root.stat().st_mode) for root in made} == {0o700}


async def test_a_planted_name_is_not_written_through(tmp_path: Path) -> None:
    """The one fixed temporary name lies in the private folder; a link there is replaced, and its target untouched."""
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "a" / "work").mkdir(parents=True)
    (tmp_path / "a" / "work" / "attempt.json.tmp").symlink_to(target)
    async with running_proxy(tmp_path / "a", reverse(9)) as proxy:
        assert proxy.info()["recorders"] == 1
    assert target.read_text() == "mine"


def test_a_second_name_of_a_copy_is_left_alone(tmp_path: Path) -> None:
    """A file with a second name may be anybody's: its mode and bytes stay."""
    outside = tmp_path / "outside"
    outside.write_text("a-secret-0123456789")
    outside.chmod(0o644)
    (tmp_path / "copy").mkdir()
    os.link(outside, tmp_path / "copy" / "log")
    assert seal(tmp_path / "copy", ["a-secret-0123456789"]) == []
    assert (stat.S_IMODE(outside.stat().st_mode), outside.read_text()) == (0o644, "a-secret-0123456789")
