"""What a `collect` that was killed has left is published by Resume."""

import os
from pathlib import Path

import pytest

from roller_capture.collect.private_folder import is_private_folder, make_private_folder, remove_private_folder
from roller_capture.collect.request import CollectRequest
from roller_capture.collect.sample_run import private_home, publish_leftover
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.runs.books import RunMode, SampleState, read_sample
from roller_capture.runs.check import check_run
from roller_capture.vocabulary import DebugRetention
from tests.runs.made_run import MadeRun
from tests.support.collecting import REAL_KEY


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """One that has just begun."""
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    return made


def test_keys_in_what_was_left_are_masked_first(run: MadeRun) -> None:
    """The watchdog would have done it, and may have been killed too; the books know the result."""
    sample = run.add("a")
    entry = run.record(sample, SampleState.INTERRUPTED)
    log = run.attempt("a") / "work" / "native" / "projects" / "p" / "root.jsonl"
    log.write_text(f'{{"line":1,"error":"bad key {REAL_KEY}"}}\n')
    request = CollectRequest("claude-code", run.directory, (), capture_debug=DebugRetention.FULL)

    def finalize(attempt: Path, wanted: FinalizeRequest) -> object:
        return finalize_attempt(attempt, wanted).manifest

    publish_leftover(sample, entry, request, finalize, (REAL_KEY,))  # type: ignore[arg-type]
    (log,) = run.attempt("a").rglob("root.jsonl")
    assert "*" * len(REAL_KEY) in log.read_text()
    assert [
        path for path in run.directory.rglob("*") if path.is_file() and REAL_KEY.encode() in path.read_bytes()
    ] == []
    (report,) = check_run(run.directory).samples
    assert list(report.problems()) == []
    assert report.attempts[0].is_settled
    assert read_sample(run.folder("a"), RunMode.CAPTURED) == sample


def test_a_manifest_that_is_not_the_intended_one_is_never_adopted(run: MadeRun) -> None:
    """Not even when it has just been published."""
    sample = run.add("a")
    entry = run.record(sample)
    manifest = run.publish(sample, entry, note=lambda _digest: None)
    entry.manifest_sha256 = "0" * 64
    with pytest.raises(RollerError, match="was changed after publication"):
        sample.settle(entry, manifest)


def test_only_a_private_folder_of_ours_is_read_as_a_home(run: MadeRun, tmp_path: Path) -> None:
    """The books can have been edited: they name no other folder."""
    sample = run.add("a")
    entry, _ = sample.begin_attempt()
    made = make_private_folder()
    try:
        entry.private_folder = str(made.root)
        assert private_home(entry) == made.home
        made.root.chmod(0o755)
        assert not is_private_folder(made.root)
        made.root.chmod(0o700)
        (tmp_path / "roller-link").symlink_to(made.root)
        (tmp_path / "other" / "home").mkdir(parents=True)
        (tmp_path / "other").chmod(0o700)
        here = os.path.relpath(made.root)
        for place in (tmp_path / "roller-link", tmp_path / "other", tmp_path / "none", Path("/"), Path(here)):
            entry.private_folder = str(place)
            assert private_home(entry) is None
    finally:
        remove_private_folder(made.root)
