"""A sample that was made again counts once: by its newest attempt, unless all are asked for."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roller_capture import InvalidAttemptError, iter_attempts, open_attempt
from roller_capture.cli import app
from roller_capture.errors import RollerError
from tests.runs.made_run import MadeRun, edit
from tests.support.forbidden import forbid
from tests.support.redone import redone_run

KINDS = {
    "calls": ("--purpose", "unknown", "--output", "calls.jsonl"),
    "main": ("--output", "main.jsonl"),
    "atif": ("--output", "trajectories"),
    "otel": ("--output", "spans.jsonl"),
    "har": ("--output", "archive.har"),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """A run with a sample that failed first, and one that did not."""
    made = redone_run(tmp_path / "run", monkeypatch)
    made.done("once")
    monkeypatch.chdir(tmp_path)
    return made


def export(kind: str, run: MadeRun, *arguments: str) -> tuple[str, dict[str, Any]]:
    """What was said, and the summary."""
    command = ["export", kind, str(run.directory), *KINDS[kind], "--json", *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stderr, json.loads(result.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_attempt_is_exported_and_the_older_counted(kind: str, run: MadeRun) -> None:
    """By the run's books; with the option that takes all."""
    said, summary = export(kind, run)
    assert (summary["attempts"], summary["attempts_superseded"]) == (2, 1)
    assert "left out 1 attempt of samples that were made again (--all-attempts takes all)" in said
    said, summary = export(kind, run, "--all-attempts", "--overwrite")
    assert (summary["attempts"], summary["attempts_superseded"]) == (3, 0)
    assert "made again" not in said


def test_the_rows_are_those_of_the_newest(run: MadeRun, tmp_path: Path) -> None:
    """None of the failed attempt; an attempt that is named itself is taken; the card counts what was left out."""
    export("calls", run)
    rows = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_bytes().splitlines()]
    assert {(row["sample_id"], row["attempt"]) for row in rows} == {("again", "attempt-0002"), ("once", "attempt-0001")}
    assert "- 1 attempt of samples that were made again" in (tmp_path / "calls.jsonl.card.md").read_text()
    command = ["export", "calls", str(run.attempt("again", 1)), *KINDS["calls"], "--overwrite", "--json"]
    assert json.loads(CliRunner().invoke(app, command).stdout)["attempts"] == 1


def test_the_newest_counts_whatever_came_of_it(run: MadeRun) -> None:
    """An older attempt never stands in for one that is not there to be read."""
    (run.attempt("again", 2) / "manifest.json").unlink()
    said, summary = export("calls", run)
    assert (summary["attempts"], summary["attempts_superseded"]) == (1, 1)
    assert "its manifest.json is missing" in said


@pytest.mark.parametrize("all_attempts", [(), ("--all-attempts",)], ids=["newest", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_samples_whose_books_are_damaged_are_left_out(kind: str, all_attempts: tuple[str, ...], run: MadeRun) -> None:
    """Each of their attempts is named, and the other samples go on."""
    (run.folder("again") / "sample.json").write_text("damaged")
    said, summary = export(kind, run, *all_attempts)
    assert (summary["attempts"], len(summary["attempts_refused"])) == (1, 2)
    assert said.count("sample.json: is no JSON") == 2


def _foreign(run: MadeRun) -> None:
    """In the place of a sample's attempt lies a valid one of another capture."""
    shutil.rmtree(run.attempt("once"))
    other = MadeRun(run.directory.with_name("other"), run.monkeypatch)
    other.begin()
    other.done("once")
    shutil.copytree(other.attempt("once"), run.attempt("once"))


def _unknown(run: MadeRun) -> None:
    """A valid attempt that was put beside the known ones."""
    _foreign(run)
    run.attempt("once").rename(run.attempt("once", 2))


def _other_state(run: MadeRun) -> None:
    def change(document: dict[str, Any]) -> None:
        document["state"] = document["attempts"][0]["state"] = "failed"

    edit(run.folder("once") / "sample.json", change)


def _other_harness(run: MadeRun) -> None:
    edit(run.directory / "run.json", lambda document: document["harness"].update(name="codex"))


CONTRADICTIONS = {
    _foreign: "was changed after publication",
    _unknown: "knows of no attempt-0002",
    _other_state: "sample.json says failed",
    _other_harness: "harness is claude-code, the run's is codex",
}


@pytest.mark.parametrize(("change", "why"), CONTRADICTIONS.items(), ids=[one.__name__ for one in CONTRADICTIONS])
def test_what_the_books_do_not_know_as_it_is_is_never_exported(
    change: Callable[[MadeRun], None], why: str, run: MadeRun
) -> None:
    """An attempt that is valid by itself; `export` as the API and `validate` of the attempt."""
    change(run)
    said, summary = export("calls", run)
    assert why in said
    refused: list[RollerError] = []
    opened = [attempt.path for attempt in iter_attempts(run.directory, on_error=refused.append)]
    assert why in str(refused[-1])
    assert not {path for path in opened if why in str(validated(path))}
    assert len(opened) == summary["attempts"]
    place = run.attempt("once", 2 if change is _unknown else 1)
    assert why in validated(place)
    with pytest.raises(InvalidAttemptError, match=why):
        open_attempt(place)
    assert open_attempt(place, validate=False).path == place


def validated(attempt: Path) -> str:
    """What `validate` says of one attempt."""
    return CliRunner().invoke(app, ["validate", str(attempt)]).stderr


def test_a_linked_attempt_is_held_against_the_books_of_its_run(run: MadeRun, tmp_path: Path) -> None:
    """A folder of links is another way to the same attempts."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to(run.attempt("once"))
    assert [attempt.path.name for attempt in iter_attempts(tmp_path / "links")] == ["one"]
    _other_state(run)
    with pytest.raises(InvalidAttemptError, match=r"sample\.json says failed"):
        next(iter_attempts(tmp_path / "links"))


def test_the_api_tells_the_same(run: MadeRun) -> None:
    """With a parameter for all, and one that is told of what cannot be opened."""
    newest = [(attempt.sample_id, attempt.path.name) for attempt in iter_attempts(run.directory)]
    assert newest == [("again", "attempt-0002"), ("once", "attempt-0001")]
    assert len(list(iter_attempts(run.directory, all_attempts=True))) == 3
    (run.folder("again") / "sample.json").write_text("damaged")
    with pytest.raises(RollerError, match=r"sample\.json"):
        next(iter_attempts(run.directory))
    refused: list[RollerError] = []
    assert [attempt.sample_id for attempt in iter_attempts(run.directory, on_error=refused.append)] == ["once"]
    assert len(refused) == 2


@pytest.mark.parametrize("kind", ["main", "atif"])
def test_calls_of_unknown_purpose_are_no_turns_and_that_is_said(kind: str, run: MadeRun) -> None:
    """They are exportable; that they were an agent's turns is what nothing tells."""
    said, _ = export(kind, run)
    assert "nothing tells that its exportable calls were made for an agent's turn (purpose unknown)" in said


def test_a_link_in_the_place_of_an_attempt_is_held_against_the_books_there(run: MadeRun, tmp_path: Path) -> None:
    """What it leads to belongs to no run."""
    place = run.attempt("once")
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    manifest = tmp_path / "elsewhere" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"recorder_version": ', b'"recorder_version":  '))
    assert "was changed after publication" in validated(place)
    with pytest.raises(InvalidAttemptError, match="was changed after publication"):
        open_attempt(place)


def test_without_validation_damaged_books_are_said(run: MadeRun) -> None:
    """Nobody else would find that they cannot tell the newest attempt."""
    (run.folder("again") / "sample.json").write_text("damaged")
    with pytest.raises(RollerError, match=r"sample\.json: is no JSON"):
        next(iter_attempts(run.directory, validate=False))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_that_cannot_be_looked_into_is_named_and_the_others_go_on(
    kind: str, run: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every export, and by the API where it is to go on."""
    forbid(run.folder("again"), monkeypatch)
    said, summary = export(kind, run)
    assert (summary["attempts"], len(summary["attempts_refused"])) == (1, 1)
    assert "cannot be looked into" in said
    refused: list[RollerError] = []
    assert [attempt.sample_id for attempt in iter_attempts(run.directory, on_error=refused.append)] == ["once"]
    assert len(refused) == 1
    with pytest.raises(RollerError, match="cannot be looked into"):
        next(iter_attempts(run.directory))


def test_an_older_attempt_never_stands_in_for_one_that_cannot_be_looked_into(
    run: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest counts, whatever came of it."""
    forbid(run.attempt("again", 2), monkeypatch)
    _, summary = export("calls", run)
    assert (summary["attempts"], summary["attempts_superseded"], len(summary["attempts_refused"])) == (1, 1, 1)
    opened = [attempt.sample_id for attempt in iter_attempts(run.directory, on_error=lambda _: None)]
    assert opened == ["once"]
