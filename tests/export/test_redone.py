"""A sample that was made again counts once: by its newest attempt, unless all are asked for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture import iter_attempts
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.runs.books import SampleState
from tests.runs.made_run import MadeRun

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
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    again = made.done("again", state=SampleState.FAILED)
    entry = made.record(again)
    again.settle(entry, made.publish(again, entry))
    made.done("once")
    monkeypatch.chdir(tmp_path)
    return made


def export(kind: str, run: MadeRun, *arguments: str) -> tuple[str, dict[str, object]]:
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


def test_damaged_books_choose_nothing(run: MadeRun) -> None:
    """One line, and nothing is written."""
    (run.folder("again") / "sample.json").write_text("damaged")
    result = CliRunner().invoke(app, ["export", "calls", str(run.directory), *KINDS["calls"]])
    assert result.exit_code == 1
    assert "sample.json" in result.stderr
    assert export("calls", run, "--all-attempts")[1]["attempts"] == 3


def test_the_api_tells_the_same(run: MadeRun) -> None:
    """With a parameter for all."""
    newest = [(attempt.sample_id, attempt.path.name) for attempt in iter_attempts(run.directory)]
    assert newest == [("again", "attempt-0002"), ("once", "attempt-0001")]
    assert len(list(iter_attempts(run.directory, all_attempts=True))) == 3
    (run.folder("again") / "sample.json").write_text("damaged")
    with pytest.raises(RollerError, match=r"sample\.json"):
        next(iter_attempts(run.directory))


@pytest.mark.parametrize("kind", ["main", "atif"])
def test_calls_of_unknown_purpose_are_no_turns_and_that_is_said(kind: str, run: MadeRun) -> None:
    """They are exportable; that they were an agent's turns is what nothing tells."""
    said, _ = export(kind, run)
    assert "nothing tells that its exportable calls were made for an agent's turn (purpose unknown)" in said
