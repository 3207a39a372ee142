"""What stands in a run directory, and when one is refused."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.native_logs import write_json
from roller_capture.collect.run_folder import (
    RunConfiguration,
    RunMode,
    SampleState,
    check_new,
    create_sample,
    new_run,
    note_killed,
)
from roller_capture.errors import RollerError

CONFIGURATION = RunConfiguration(
    harness="claude-code",
    harness_version="2.1.332",
    protocol="anthropic-messages",
    model="m",
    api_base="https://api.example.com",
    mode=RunMode.CAPTURED,
    profile=None,
    network="host",
    wire_trace=True,
    capture_debug="on-error",
    key_via="proxy",
    timeout=60,
    drain_timeout=30,
    harness_args=("--settings", '{"token": "canary"}'),
)


def create_run(run_dir: Path, configuration: RunConfiguration) -> None:
    """A run with nothing in it."""
    with new_run(run_dir, configuration):
        pass


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_the_configuration_of_a_run(tmp_path: Path) -> None:
    """All that never changes is there; of extra arguments, which can hold secrets, only the hash."""
    create_run(tmp_path / "a" / "run", CONFIGURATION)
    path = tmp_path / "a" / "run" / "run.json"
    document = _read(path)
    assert document["format"] == "roller.run/v1"
    assert document["harness"] == {"name": "claude-code", "version": "2.1.332"}
    assert document["mode"] == "captured"
    assert document["api_base"] == "https://api.example.com"
    assert document["harness_args"]["count"] == 2
    assert b"canary" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["run.json"]


def test_an_empty_directory_can_be_a_run(tmp_path: Path) -> None:
    """Somebody may have made it before."""
    check_new(tmp_path)
    create_run(tmp_path, CONFIGURATION)
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
    create_run(tmp_path, CONFIGURATION)
    before = (tmp_path / "run.json").read_bytes()
    monkeypatch.setattr("roller_capture.collect.run_folder.check_new", lambda _run_dir: None)
    with pytest.raises(RollerError, match="another collect"):
        create_run(tmp_path, CONFIGURATION)
    assert (tmp_path / "run.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_sample_keeps_its_books(tmp_path: Path) -> None:
    """sample.json is right after each step."""
    sample = create_sample(tmp_path, "sample-0001", ("one", "two"), "/somewhere", RunMode.CAPTURED)
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
    sample = create_sample(tmp_path, "s", ("one",), None, RunMode.UNCAPTURED)
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
        create_run(tmp_path / place, CONFIGURATION)
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

    monkeypatch.setattr("roller_capture.collect.run_folder.write_json", sometimes)
    (tmp_path / "made").mkdir()
    for run_dir in (tmp_path / "made", tmp_path / "deep" / "run"):
        left[0] = good_writes
        with (
            pytest.raises(RollerError, match=r"No space left on device.*--run-dir") as caught,
            new_run(run_dir, CONFIGURATION),
        ):
            create_sample(run_dir, "sample-0001", ("one",), None, RunMode.CAPTURED).begin_attempt()
        assert caught.value.exit_code == 2
    assert list(tmp_path.rglob("*")) == [tmp_path / "made"]


def test_books_of_a_run_that_was_killed(tmp_path: Path) -> None:
    """The attempt that ran is noted, and no other; what is damaged or gone is left alone."""
    sample = create_sample(tmp_path, "s", ("one",), None, RunMode.CAPTURED)
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
