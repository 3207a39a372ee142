"""`prune` and `migrate` over single attempts and folders of them: a line each, and nobody stops the others."""

import shutil
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.integrity import validate_attempt
from roller_capture.migrate_command import migrate
from roller_capture.prune_command import NoteHash, prune
from roller_capture.runs.books import manifest_digest
from roller_capture.vocabulary import DebugRetention
from tests.support.old_attempts import by_participant
from tests.support.publish import publish_family


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory with two samples, both with raw/."""
    for name in ("one", "two"):
        attempt = tmp_path / "run" / "samples" / name / "capture" / "attempt-0001"
        publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    return tmp_path / "run"


def attempt_of(run: Path, name: str) -> Path:
    return run / "samples" / name / "capture" / "attempt-0001"


def test_a_whole_run_is_pruned(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each attempt on its line, the sum at the end."""
    assert prune([run], dry_run=False) == 0
    out, err = capsys.readouterr()
    assert [line.endswith(" freed") for line in out.splitlines()] == [True, True]
    assert "2 of 2 attempts" in err
    for name in ("one", "two"):
        assert not (attempt_of(run, name) / "raw").exists()
        assert validate_attempt(attempt_of(run, name)) == []


def test_a_dry_run_changes_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what would be."""
    assert prune([run], dry_run=True) == 0
    assert capsys.readouterr().out.count("would be freed") == 2
    assert (attempt_of(run, "one") / "raw").is_dir()


def test_one_attempt_that_fails_stops_no_other(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is the highest."""
    (attempt_of(run, "one") / "calls.jsonl").write_text("x")
    assert prune([run, run / "nowhere"], dry_run=False) == 2
    assert not (attempt_of(run, "two") / "raw").exists()
    err = capsys.readouterr().err
    assert "does not validate" in err
    assert "does not exist" in err
    assert "1 of 2 attempts" in err
    assert "; failed: 1" in err


def test_where_every_attempt_fails_no_sum_says_that_there_was_nothing_to_do(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The errors are all there is to say."""
    for name in ("one", "two"):
        (attempt_of(run, name) / "calls.jsonl").write_text("x")
    assert prune([run], dry_run=False) == 1
    assert "nothing to do" not in capsys.readouterr().err


def test_the_books_of_a_run_are_told(run: Path) -> None:
    """Each attempt by its own: what comes next before it is in place, and that it is, afterwards."""
    told: list[tuple[str, Path, str, bool]] = []

    def note(when: str) -> NoteHash:
        return lambda attempt, sha256: told.append((when, attempt, sha256, (attempt / "raw").exists()))

    prune([run], dry_run=False, before_swap=note("before"), after_swap=note("after"))
    hashes = {name: manifest_digest(attempt_of(run, name)) for name in ("one", "two")}
    assert told == [
        (when, attempt_of(run, name), hashes[name], when == "before")
        for name in ("one", "two")
        for when in ("before", "after")
    ]
    told.clear()
    prune([run], dry_run=False, after_swap=note("after"))
    assert told == []


def test_a_folder_of_old_attempts_is_migrated_to_the_same_places(run: Path, tmp_path: Path) -> None:
    """And the copies are valid."""
    for name in ("one", "two"):
        by_participant(attempt_of(run, name))
    assert migrate(run, tmp_path / "copy", from_raw=False) == 0
    for name in ("one", "two"):
        assert validate_attempt(attempt_of(tmp_path / "copy", name)) == []


def test_one_attempt_that_cannot_be_migrated_stops_no_other(run: Path, tmp_path: Path) -> None:
    """The exit code says that there was one."""
    by_participant(attempt_of(run, "two"))
    (attempt_of(run, "one") / "calls.jsonl").write_text("x")
    assert migrate(run, tmp_path / "copy", from_raw=False) == 1
    assert validate_attempt(attempt_of(tmp_path / "copy", "two")) == []


def test_an_attempt_of_todays_layout_is_no_failure(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said, and not copied."""
    by_participant(attempt_of(run, "two"))
    assert migrate(run, tmp_path / "copy", from_raw=False) == 0
    assert "one/capture/attempt-0001: has the layout compact/v2 already, nothing to do" in capsys.readouterr().out
    assert not attempt_of(tmp_path / "copy", "one").exists()


def test_a_single_attempt_is_migrated_to_the_very_place_that_was_named(run: Path, tmp_path: Path) -> None:
    """No folder of its name below it."""
    assert migrate(attempt_of(run, "one"), tmp_path / "copy", from_raw=True) == 0
    assert (tmp_path / "copy" / "manifest.json").is_file()


def test_a_copy_inside_the_original_is_refused(run: Path) -> None:
    """It would be an unlisted file there."""
    with pytest.raises(RollerError, match="copies belong elsewhere") as caught:
        migrate(run, run / "copy", from_raw=False)
    assert caught.value.exit_code == 2
    shutil.rmtree(run)
    with pytest.raises(RollerError, match="does not exist"):
        migrate(run, run.parent / "copy", from_raw=False)
