"""The proof that a further harness is one adapter file, one launcher file and one registry row, and touches nothing
else: a made-up one, known by its row alone, is collected, finalized, validated and told about like all the others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher
from roller_capture.scripted_provider import Reply, ScriptedProvider
from tests.support.attempts import AttemptBuilder, message_body, request_body
from tests.support.capture import read_lines
from tests.support.harness_run import read_json
from tests.support.ninth_harness.launcher import LAUNCHER, PROGRAM
from tests.support.ninth_harness.row import ROW

_ROOT = Path(__file__).resolve().parents[1]
_REGISTERED = "from roller_capture.harnesses import HARNESSES\nfrom tests.support.ninth_harness.row import ROW\n"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row, and nothing else."""
    monkeypatch.setitem(HARNESSES, ROW.name, ROW)


def _roller_capture(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command in processes of its own, the proxy's among them, each of which finds the row in the registry."""
    (folder / "sitecustomize.py").write_text(f"{_REGISTERED}HARNESSES[ROW.name] = ROW\n", encoding="utf-8")
    paths = os.pathsep.join((str(folder), str(_ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "roller_capture", *arguments],
        env={**os.environ, "PYTHONPATH": paths, "NINTH_KEY": "sk-real-key-canary"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_no_shared_module_names_the_harnesses_that_were_there_before() -> None:
    """What they need is in the three pieces; so no list of names elsewhere has to be added to."""
    package = _ROOT / "roller_capture"
    own = ("adapters", "launchers", "acceptance", "scripted_provider")
    shared = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in own]
    listing = []
    for path in shared:
        text = path.read_text(encoding="utf-8")
        if sum(f'"{name}"' in text for name in HARNESSES) > 1 and path.name != "harnesses.py":
            listing.append(path)
    assert listing == []


def test_it_is_collected_published_and_valid(tmp_path: Path) -> None:
    """Through the launcher, the proxy and the adapter that the row names."""
    program, run = tmp_path / "ninth", tmp_path / "run"
    program.write_text(f"#!{sys.executable} -I\n{PROGRAM}", encoding="utf-8")
    program.chmod(0o700)
    provider = ScriptedProvider(lambda _request: Reply(text="Hello."))
    with provider:
        options = ("--harness", "ninth", "--harness-bin", str(program), "--model", "m", "--capture-calls")
        where = ("--api-base", provider.url, "--run-dir", str(run), "--prompt", "Say hello")
        done = _roller_capture(tmp_path, "collect", *options, *where)
    assert done.returncode == 0, done.stderr
    attempt = run / "samples" / "sample-0001" / "capture" / "attempt-0001"
    manifest, [call] = read_json(attempt / "manifest.json"), read_lines(attempt / "calls.jsonl")
    assert manifest["harness"] == {"name": "ninth", "version": "9.0", "tested": True}
    assert (manifest["capture_status"], manifest["execution_status"]) == ("complete", "completed")
    assert manifest["capabilities"]["native_output_coverage"]["status"] == "complete"
    [root] = manifest["participants"]
    assert (root["native_ids"], root["call_ids"]) == ({"session_id": ["ninth-session-1"]}, [call["call_id"]])
    assert [record.headers.get("x-ninth-session") for record in provider.truth.records] == ["ninth-session-1"]
    checked = _roller_capture(tmp_path, "validate", "--deep", str(attempt))
    assert checked.returncode == 0, checked.stderr


def test_its_launcher_is_found_by_the_row() -> None:
    """As `collect` looks it up, and as its help tells."""
    assert find_launcher("ninth") is LAUNCHER
    told = " ".join(CliRunner().invoke(app, ["collect", "--help"]).stdout.split())
    assert "ninth: quiet; the others have none" in told
    assert "Has to be given for opencode, hermes, openclaw, pi and ninth." in told


def test_what_was_recorded_by_hand_is_finalized(tmp_path: Path) -> None:
    """With its log beside the recorded calls."""
    builder = AttemptBuilder(tmp_path / "attempt", "ninth")
    headers = (("x-ninth-session", "s-1"),)
    builder.call(request_body(), message_body("msg_1"), session=None, headers=headers)
    home = tmp_path / "home"
    home.mkdir()
    (home / "ninth.jsonl").write_text(json.dumps({"session": "s-1", "response": "msg_1"}) + "\n")
    attempt = builder.build()
    done = CliRunner().invoke(app, ["finalize", str(attempt), "--native", str(home)])
    assert done.exit_code == 0, done.output
    [call] = read_lines(attempt / "calls.jsonl")
    assert call["participant_id"] == read_json(attempt / "manifest.json")["participants"][0]["participant_id"]


def test_the_steps_of_a_run_by_hand_are_its_own() -> None:
    """Those of its launcher, around the common ones; it needs no hook."""
    told = CliRunner().invoke(app, ["hooks", "ninth"])
    assert (told.exit_code, told.stdout) == (0, "")
    lines = told.stderr.splitlines()
    assert lines[0] == "ninth needs no hook: its own headers and logs say who made a call"
    assert lines[1:3] == ["tell it where to log:", "  export NINTH_HOME=~/.ninth"]
    assert any("--set roller_harness=ninth" in line for line in lines)
    assert lines[-1] == "  roller-capture finalize ATTEMPT --native ~/.ninth"
