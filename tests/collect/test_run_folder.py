"""What stands in a run directory, and when one is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.run_folder import (
    RunConfiguration,
    RunMode,
    SampleState,
    check_new,
    create_run,
    create_sample,
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


def test_an_unwritable_place_is_one_line() -> None:
    """No traceback; /proc takes no folders from anybody."""
    with pytest.raises(RollerError, match="cannot be made"):
        create_run(Path("/proc/none/run"), CONFIGURATION)
