"""What is not, or not any more, a published attempt: every command says the same of it, and what to do."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.published import why_no_attempts
from roller_capture.recording import lock
from roller_capture.runs.configuration import RunMode
from tests.runs.made_run import MadeRun
from tests.support.publish import family_attempt, publish_family

LIVE = ("view", "{path}", "--live")
READERS = (
    ("validate", "{path}"),
    ("view", "{path}"),
    ("view", "{path}", "--html", "{out}/page.html"),
    ("export", "calls", "{path}", "--output", "{out}/calls.jsonl"),
    ("export", "main", "{path}", "--output", "{out}/main.jsonl"),
    ("export", "atif", "{path}", "--output", "{out}/atif.json"),
    ("export", "otel", "{path}", "--output", "{out}/otel.jsonl"),
    ("export", "har", "{path}", "--output", "{out}/archive.har"),
    ("prune", "{path}"),
    ("migrate", "{path}", "--output", "{out}/migrated"),
)
each_reader = pytest.mark.parametrize("command", READERS, ids=lambda command: "-".join(command[:2]).partition("{")[0])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where files may go."""
    path = tmp_path / "out"
    path.mkdir()
    return path


def said(command: tuple[str, ...], path: Path, out: Path) -> tuple[int, str]:
    """Exit code, and everything that was said."""
    result = CliRunner().invoke(app, [word.format(path=path, out=out) for word in command])
    error = str(result.exception) if isinstance(result.exception, RollerError) else ""
    code = result.exception.exit_code if isinstance(result.exception, RollerError) else result.exit_code
    return code, result.stdout + result.stderr + error


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Path]:
    """An attempt whose recorder lives."""
    builder = family_attempt(tmp_path / "recorded")
    builder.build()
    held = lock.acquire(builder.work, "recorder")
    yield builder.directory
    held.release()


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published attempt that has lost its manifest."""
    publish_family(tmp_path / "damaged", monkeypatch)
    (tmp_path / "damaged" / "manifest.json").unlink()
    return tmp_path / "damaged"


@each_reader
def test_an_attempt_that_is_being_recorded_is_not_sent_to_finalize(
    command: tuple[str, ...], recorded: Path, out: Path
) -> None:
    """Its recorder would only refuse that."""
    code, text = said(command, recorded, out)
    assert code == 1
    assert "is still being recorded: roller-capture view --live follows it" in text
    assert "run roller-capture finalize" not in text


@each_reader
def test_an_attempt_without_its_manifest_is_damaged(command: tuple[str, ...], damaged: Path, out: Path) -> None:
    """There is nothing left that finalize could finish; what is left to do is said."""
    code, text = said(command, damaged, out)
    assert code == 1
    assert (
        "its manifest.json is missing, and there is no work/: it was damaged: restore it from a copy\n" in f"{text}\n"
    )
    assert "finalize" not in text


def test_a_damaged_attempt_of_a_run_can_be_collected_again(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another run: `--resume` refuses this one."""
    run = MadeRun(tmp_path / "run", monkeypatch)
    run.begin()
    run.done("s")
    (run.attempt("s") / "manifest.json").unlink()
    text = said(("view", "{path}"), run.directory, out)[1]
    assert text.rstrip().endswith("restore it from a copy; without one, collect its sample again in a new --run-dir")


def test_what_is_damaged_is_no_unfinished_attempt(damaged: Path, out: Path) -> None:
    """So it is never let pass."""
    code, text = said(("validate", "{path}", "--allow-unfinished"), damaged, out)
    assert (code, "invalid" in text, "unfinished" in text) == (1, True, False)


def test_an_unfinished_attempt_is_one(tmp_path: Path, out: Path) -> None:
    """As before: with its working files finalize can go on, also where it was cut off in mid-publication."""
    builder = family_attempt(tmp_path / "open")
    builder.build()
    (builder.directory / "calls.jsonl").write_text("")
    assert (
        f"is not published: run roller-capture finalize {builder.directory}\n"
        in said(("validate", "{path}"), builder.directory, out)[1]
    )
    assert said(("validate", "{path}", "--allow-unfinished"), builder.directory, out)[0] == 0


def _runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("plain", RunMode.UNCAPTURED), ("first", RunMode.CAPTURED), ("second", RunMode.CAPTURED)):
        MadeRun(folder / name, monkeypatch).begin(mode=mode)


@pytest.mark.parametrize("command", [*READERS, LIVE], ids=" ".join)
def test_a_folder_of_runs_names_them(
    command: tuple[str, ...], tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says what to do; those that were never captured come last."""
    where = tmp_path / "runs"
    _runs(where, monkeypatch)
    code, text = said(command, where, out)
    told = f"{where}/first, {where}/second, {where}/plain (uncaptured)"
    assert code == 1
    assert f"{where}: is a folder of runs: give the path of one of them instead: {told}\n" in text


@pytest.mark.parametrize("others", [5, 6, 7])
def test_of_many_runs_the_first_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """And the others counted."""
    for number in range(others):
        MadeRun(tmp_path / f"run-{number}", monkeypatch).begin()
    told = why_no_attempts(tmp_path)
    assert told is not None
    assert [f"{tmp_path}/run-{number}" in told for number in range(others)] == [number < 6 for number in range(others)]
    assert told.endswith(" and 1 more") == (others == 7)


def test_a_folder_of_uncaptured_runs_has_nothing_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them would be of any use."""
    MadeRun(tmp_path / "plain", monkeypatch).begin(mode=RunMode.UNCAPTURED)
    told = "is a folder of uncaptured runs (made without --capture-calls): there are no calls in them"
    assert why_no_attempts(tmp_path) == told


@pytest.mark.parametrize("command", [*READERS, LIVE], ids=" ".join)
def test_an_uncaptured_run_is_called_so(
    command: tuple[str, ...], tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing in it that was lost."""
    _runs(tmp_path / "runs", monkeypatch)
    code, text = said(command, tmp_path / "runs" / "plain", out)
    assert (code, "uncaptured" in text) == (1, True), text


def test_finalize_says_the_same(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a folder of runs, and of an uncaptured run."""
    _runs(tmp_path / "runs", monkeypatch)
    assert "is a folder of runs" in said(("finalize", "{path}"), tmp_path / "runs", out)[1]
    assert "is an uncaptured run" in said(("finalize", "{path}"), tmp_path / "runs" / "plain", out)[1]
    shutil.rmtree(tmp_path / "runs" / "plain")
    assert "is a run that holds no attempt yet" in said(("view", "{path}"), tmp_path / "runs" / "first", out)[1]
