"""What stands in a run directory, and when one is refused."""

import contextlib
import dataclasses
import errno
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.runs import books
from roller_capture.runs.books import (
    Sample,
    SampleState,
    create_sample,
    hash_problem,
    read_sample,
)
from roller_capture.runs.configuration import Arguments, RunConfiguration, RunDocument, RunMode, differences, read_run
from roller_capture.runs.directory import check_new, check_old, locked, new_run
from roller_capture.runs.outside_books import note_killed, note_publication, note_superseded, recorded_hash_problem
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.runs.stored import DamagedError, write_json
from tests.support.run_configurations import CAPTURED_RUN

CONFIGURATION = replace(CAPTURED_RUN, model="m", harness_args=("--settings", '{"token": "canary"}'))


def create_run(run_dir: Path, configuration: RunConfiguration = CONFIGURATION) -> None:
    """A run with nothing in it."""
    with contextlib.ExitStack() as held, new_run(run_dir, configuration, held):
        pass


def sample_in(run_dir: Path, sample_id: str = "s", *turns: str, mode: RunMode = RunMode.CAPTURED, **own: Any) -> Sample:
    """A new sample."""
    return create_sample(run_dir, SampleSpec(sample_id, turns or ("one",), **own), mode)


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_the_configuration_of_a_run(tmp_path: Path) -> None:
    """All that never changes is there; of extra arguments, which can hold secrets, only the hash."""
    create_run(tmp_path / "a" / "run")
    path = tmp_path / "a" / "run" / "run.json"
    document = _read(path)
    assert document["format"] == "roller.run/v1"
    assert document["harness"] == {"name": "claude-code", "version": "2.1.332"}
    assert document["mode"] == "captured"
    assert document["api_base"] == "https://api.example.com"
    assert document["harness_args"]["count"] == 2
    assert b"canary" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert {item.name for item in path.parent.iterdir()} == {"run.json", "samples"}


def test_an_empty_directory_can_be_a_run(tmp_path: Path) -> None:
    """Somebody may have made it before."""
    check_new(tmp_path)
    create_run(tmp_path)
    with pytest.raises(RollerError, match="holds a run already") as caught:
        check_new(tmp_path)
    assert caught.value.exit_code == 2


def test_what_is_not_empty_is_refused(tmp_path: Path) -> None:
    """Nothing of anybody is mixed with a run."""
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(RollerError, match="is not empty"):
        check_new(tmp_path)
    with pytest.raises(RollerError, match="is no directory"):
        check_new(tmp_path / "notes.txt")


def test_of_two_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when both have found the directory empty."""
    create_run(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    monkeypatch.setattr("roller_capture.runs.directory.check_new", lambda _run_dir: None)
    with pytest.raises(RollerError, match="another collect"):
        create_run(tmp_path)
    assert (tmp_path / "run.json").read_bytes() == before
    assert {item.name for item in tmp_path.iterdir()} == {"run.json", "samples"}


def test_a_sample_keeps_its_books(tmp_path: Path) -> None:
    """sample.json is right after each step."""
    sample = sample_in(tmp_path, "sample-0001", "one", "two", workdir=Path("/somewhere"))
    path = tmp_path / "samples" / "sample-0001" / "sample.json"
    assert (_read(path)["turns"], _read(path)["attempts"]) == (["one", "two"], [])
    entry, attempt = sample.begin_attempt()
    assert attempt == path.parent / "capture" / "attempt-0001"
    assert not attempt.exists()
    assert _read(path)["attempts"][0]["state"] == "running"
    entry.state = sample.state = SampleState.COMPLETED
    entry.manifest_sha256 = "ab"
    entry.private_folder = "/tmp/x"
    sample.write()
    assert _read(path)["state"] == "completed"
    assert _read(path)["attempts"][0]["manifest_sha256"] == "ab"
    assert _read(path)["attempts"][0]["private_folder"] == "/tmp/x"
    _, second = sample.begin_attempt()
    assert second.name == "attempt-0002"
    assert _read(path)["state"] == "running"
    assert {name.name for name in path.parent.iterdir()} == {"sample.json", "capture"}


def test_an_uncaptured_sample_has_another_folder(tmp_path: Path) -> None:
    """Nobody takes its attempts for captures."""
    sample = sample_in(tmp_path, mode=RunMode.UNCAPTURED)
    assert sample.begin_attempt()[1] == tmp_path / "samples" / "s" / "uncaptured" / "attempt-0001"


@pytest.mark.parametrize(
    "place",
    ["/proc/none", "/proc/none/run", "file/run", "file", "dangling", "dangling/run", "loop", "loop/run", "x" * 300],
)
def test_a_place_that_can_be_no_run_directory_is_one_line(place: str, tmp_path: Path) -> None:
    """Exit code 2, with the option to change; nothing is made on the way."""
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RollerError, match=r"^--run-dir .*: name another one with --run-dir$") as caught:
        create_run(tmp_path / place)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("good_writes", [0, 1, 2])
def test_a_full_disk_leaves_nothing_half_made(
    good_writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the files it is that does not fit."""
    left = [good_writes]

    def sometimes(path: Path, value: Any, *, new: bool = False) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        write_json(path, value, new=new)

    for module in ("books", "directory"):
        monkeypatch.setattr(f"roller_capture.runs.{module}.write_json", sometimes)
    (tmp_path / "made").mkdir()
    for run_dir in (tmp_path / "made", tmp_path / "deep" / "run"):
        left[0] = good_writes
        with (
            pytest.raises(RollerError, match=r"No space left on device.*--run-dir") as caught,
            contextlib.ExitStack() as held,
            new_run(run_dir, CONFIGURATION, held),
        ):
            sample_in(run_dir).begin_attempt()
        assert caught.value.exit_code == 2
    assert list(tmp_path.rglob("*")) == [tmp_path / "made"]


def test_books_of_a_run_that_was_killed(tmp_path: Path) -> None:
    """The attempt that ran is noted, and no other; what is damaged or gone is left alone."""
    sample = sample_in(tmp_path)
    first, _ = sample.begin_attempt()
    sample.end_attempt(first, SampleState.COMPLETED)
    second, attempt = sample.begin_attempt()
    second.private_folder = "/tmp/x"
    sample.write()
    note_killed(attempt.with_name("attempt-0001"), "interrupted", None)
    path = tmp_path / "samples" / "s" / "sample.json"
    assert _read(path)["state"] == "running"
    note_killed(attempt, "interrupted", Path("/tmp/y"))
    document = _read(path)
    assert document["state"] == "interrupted"
    assert [entry["state"] for entry in document["attempts"]] == ["completed", "interrupted"]
    assert document["attempts"][1]["private_folder"] == "/tmp/y"
    path.write_text('{"attempts": 5}')
    note_killed(attempt, "interrupted", None)
    assert path.read_text() == '{"attempts": 5}'
    note_killed(tmp_path / "gone" / "capture" / "attempt-0001", "interrupted", None)
    assert not (tmp_path / "gone").exists()


def test_a_sample_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With all that is its own; of arguments, which can hold secrets, only the hash."""
    own = {"model": "m2", "profile": "p", "harness_args": ("--key", "canary"), "workdir": tmp_path}
    sample = sample_in(tmp_path, "s", "one", "two", **own)
    entry, _ = sample.begin_attempt({"timeout": 5.0})
    entry.private_folder = "/tmp/x"
    sample.note_intent(entry, "a" * 64)
    again = read_sample(sample.folder, RunMode.CAPTURED)
    assert again == sample
    assert again.harness_args == Arguments.of(("--key", "canary"))
    assert b"canary" not in sample.file.read_bytes()


ENTRY = {
    "attempt": "attempt-0001",
    "state": "completed",
    "started_at": 1.0,
    "ended_at": 2.0,
    "capture_status": "complete",
    "manifest": "capture/attempt-0001/manifest.json",
    "manifest_sha256": "a" * 64,
}
BOOKS = {
    "format": "roller.sample/v1",
    "id": "s",
    "turns": ["one"],
    "workdir": None,
    "model": None,
    "profile": None,
    "harness_args": None,
    "state": "completed",
    "attempts": [ENTRY],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "roller.sample/v2"}, "format"),
        ({"id": "t"}, "id is 't', the folder is 's'"),
        ({"id": 5}, "id: "),
        ({"turns": []}, "turns: "),
        ({"turns": "one"}, "turns: "),
        ({"turns": [1]}, "turns.0: "),
        ({"state": "done"}, "state: "),
        ({"state": "failed"}, "state is failed, its newest attempt's is completed"),
        ({"more": 1}, "more: "),
        ({"attempts": {}}, "attempts: "),
        ({"attempts": [ENTRY | {"attempt": "../x"}]}, "attempts.0.attempt: "),
        ({"attempts": [ENTRY | {"attempt": "attempt-0002"}]}, "attempt 1 is called 'attempt-0002'"),
        ({"attempts": [ENTRY | {"manifest_sha256": "A" * 64}]}, "manifest_sha256: "),
        ({"attempts": [ENTRY | {"manifest_sha256": None}]}, "no manifest_sha256"),
        ({"attempts": [ENTRY | {"manifest": "../manifest.json"}]}, "manifest is not where"),
        ({"attempts": [ENTRY | {"started_at": "1"}]}, "started_at: "),
        ({"attempts": [ENTRY | {"capture_status": "whole"}]}, "capture_status: "),
        ({"harness_args": {"count": -1, "sha256": "a" * 64}}, "harness_args.count: "),
    ],
)
def test_books_that_somebody_has_edited_are_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    """In one line, which names file and member."""
    folder = tmp_path / "samples" / "s"
    folder.mkdir(parents=True)
    (folder / "sample.json").write_text(json.dumps(BOOKS))
    assert read_sample(folder, RunMode.CAPTURED).attempts[0].capture_status == "complete"
    (folder / "sample.json").write_text(json.dumps(BOOKS | changes))
    with pytest.raises(DamagedError) as caught:
        read_sample(folder, RunMode.CAPTURED)
    assert said in str(caught.value)
    assert str(folder / "sample.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sample_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    """Also where what it leads to would do."""
    sample = sample_in(tmp_path)
    (tmp_path / "link").symlink_to(sample.folder)
    (tmp_path / "file").write_text("")
    for name in ("link", "file", "none"):
        with pytest.raises(DamagedError, match="is no folder of a sample"):
            read_sample(tmp_path / name, RunMode.CAPTURED)


@pytest.mark.parametrize(
    ("member", "value"),
    [("model", "other"), ("api_base", None), ("profile", "p"), ("protocol", "openai-responses"), ("harness", "codex")],
)
def test_what_never_changes_within_a_run(member: str, value: Any, tmp_path: Path) -> None:
    """One sentence that names it; limits may change."""
    create_run(tmp_path)
    run = read_run(tmp_path)
    assert list(differences(run, CONFIGURATION)) == []
    changed = dataclasses.replace(CONFIGURATION, **{member: value, "timeout": 5})
    (said,) = differences(run, changed)
    assert said.startswith(f"{member} is ")
    assert changed.changed_settings(run) == {"timeout": 5.0}


def test_a_run_whose_protocol_nobody_has_named(tmp_path: Path) -> None:
    """It goes on without one, and not with one."""
    create_run(tmp_path)
    document = json.loads((tmp_path / "run.json").read_bytes())
    (tmp_path / "run.json").write_text(json.dumps(document | {"protocol": None}))
    run = read_run(tmp_path)
    assert list(differences(run, dataclasses.replace(CONFIGURATION, protocol=None))) == []
    assert list(differences(run, CONFIGURATION)) == [
        "protocol is none, this call has anthropic-messages: it never changes within a run"
    ]


def test_captured_and_uncaptured_do_not_mix(tmp_path: Path) -> None:
    """Nor are other arguments the same run; a version is told with its name."""
    create_run(tmp_path)
    run = read_run(tmp_path)
    other = dataclasses.replace(
        CONFIGURATION, mode=RunMode.UNCAPTURED, harness_args=("--x",), harness_version="2.1.333"
    )
    mode, version, arguments = differences(run, other)
    assert "cannot be mixed" in mode
    assert version.startswith("harness version is 2.1.332, this call has 2.1.333")
    assert "arguments" in arguments


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    """A misspelt name begins nothing."""
    for place in (tmp_path, tmp_path / "none", Path("/proc/none/at/all")):
        with pytest.raises(RollerError, match="no run to resume") as caught:
            check_old(place)
        assert caught.value.exit_code == 2
    create_run(tmp_path)
    check_old(tmp_path)


HOLDER = """
import sys, pathlib
from roller_capture.runs.directory import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_directory_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    """The other one says so in one line, and can have it afterwards."""
    create_run(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RollerError, match="another collect is at work") as caught, locked(tmp_path):
            pass
        assert caught.value.exit_code == 1
        holder.stdin.close()
        holder.wait()
    with locked(tmp_path):
        pass


def test_what_a_killed_collect_left_at_work_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its watchdog holds the run, too, until the books are right."""
    create_run(tmp_path)
    with locked(tmp_path) as lock:
        left = subprocess.Popen(["sleep", "0.5"], pass_fds=(lock.shared,))
    with locked(tmp_path):
        assert left.poll() is not None
    assert "waiting until what a killed collect left" in capsys.readouterr().err
    with locked(tmp_path) as lock:
        left = subprocess.Popen(["sleep", "60"], pass_fds=(lock.shared,))
    monkeypatch.setattr("roller_capture.runs.directory._LEFT_BEHIND_SECONDS", 0.2)
    with pytest.raises(RollerError, match="does not end"), locked(tmp_path):
        pass
    left.kill()
    left.wait()


def test_a_publication_by_another_command_is_noted(tmp_path: Path) -> None:
    """The first one as what is intended, a further one as what comes next; an attempt of no run has no books."""
    sample = sample_in(tmp_path)
    entry, attempt = sample.begin_attempt()
    note_publication(attempt, "a" * 64)
    entry = read_sample(sample.folder, RunMode.CAPTURED).attempts[0]
    assert (entry.manifest_sha256, entry.next_manifest_sha256) == ("a" * 64, None)
    entry.capture_status = "complete"
    sample.attempts = [entry]
    sample.write()
    note_publication(attempt, "b" * 64)
    entry = read_sample(sample.folder, RunMode.CAPTURED).attempts[0]
    assert (entry.manifest_sha256, entry.next_manifest_sha256) == ("a" * 64, "b" * 64)
    assert [hash_problem(entry, letter * 64) is None for letter in "abc"] == [True, True, False]
    note_superseded(attempt, "c" * 64)
    assert read_sample(sample.folder, RunMode.CAPTURED).attempts[0].next_manifest_sha256 == "b" * 64
    note_superseded(attempt, "b" * 64)
    entry = read_sample(sample.folder, RunMode.CAPTURED).attempts[0]
    assert (entry.manifest_sha256, entry.next_manifest_sha256) == ("b" * 64, None)
    for note in (note_publication, note_superseded):
        note(tmp_path / "elsewhere" / "attempt-0001", "c" * 64)
    assert recorded_hash_problem(attempt, "b" * 64) is None
    assert "was changed" in str(recorded_hash_problem(attempt, "c" * 64))
    assert "knows of no" in str(recorded_hash_problem(attempt.with_name("attempt-0002"), "a" * 64))
    assert recorded_hash_problem(tmp_path / "attempt-0001", "c" * 64) is None


def test_every_member_is_explained() -> None:
    """In docs/runs.md, so that a reader of the files finds it."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
    documents = (RunDocument, books.SampleDocument, books.AttemptDocument)
    fields = {name for document in documents for name in document.model_fields}
    assert fields - set(re.findall(r"`([a-z_0-9]+)`", text)) == set()
