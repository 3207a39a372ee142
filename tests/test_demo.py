"""`roller-capture demo`: no credentials, no harness, and a published attempt at the end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def demo(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "roller_capture", "demo", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("demo") / "demo attempt"
    return path


@pytest.fixture(scope="module")
def shown(directory: Path) -> subprocess.CompletedProcess[str]:
    result = demo(directory)
    assert result.returncode == 0, result.stderr
    return result


def test_it_publishes_a_complete_attempt(directory: Path, shown: subprocess.CompletedProcess[str]) -> None:
    """Two participants, four calls with their owners, nothing left over."""
    del shown
    attempt = directory / "attempt-0001"
    manifest = json.loads((attempt / "manifest.json").read_bytes())
    calls = [json.loads(line) for line in (attempt / "calls.jsonl").read_bytes().splitlines()]
    assert (manifest["capture_status"], manifest["execution_status"]) == ("complete", "completed")
    assert manifest["counts"]["relations"] == {
        "spawn": 1,
        "result_delivered": 1,
        "child_completed": 1,
        "result_in_context": 1,
    }
    assert [call["export_status"] for call in calls] == ["exportable"] * 4
    assert not (attempt / "work").exists()


def test_it_prints_a_call_list_per_participant(shown: subprocess.CompletedProcess[str]) -> None:
    """The result is on stdout, what happened on the way on stderr."""
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert any(line.startswith("root  completed") for line in lines)
    assert [line.split()[0] for line in lines if line.startswith("#")] == ["#1", "#2", "#3", "#4"]
    assert any("#1" in line and "calls Agent" in line for line in lines)
    assert any(line.startswith("spawned by Agent") and "in #1" in line for line in lines)
    assert "$ mitmdump" in shown.stderr
    assert "$ roller-capture finalize" in shown.stderr
    assert "$ roller-capture validate" in shown.stderr


def test_a_second_run_leaves_the_first_alone(directory: Path, shown: subprocess.CompletedProcess[str]) -> None:
    """It takes the next number."""
    del shown
    before = (directory / "attempt-0001" / "manifest.json").read_bytes()
    assert demo(directory).returncode == 0
    assert (directory / "attempt-0002" / "manifest.json").exists()
    assert (directory / "attempt-0001" / "manifest.json").read_bytes() == before


def test_a_place_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    """Exit code 2, no traceback."""
    (tmp_path / "file").write_text("")
    result = demo(tmp_path / "file")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "name another directory" in result.stderr
