"""The real Claude Code through `collect`: published, attributed, and ended in every way, without a key on disk."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.capture import roller_capture
from tests.support.claude_code_collect import Run, check_attribution
from tests.support.harness_install import CLAUDE_CODE_VERSIONS
from tests.support.harness_run import read_json

pytestmark = pytest.mark.e2e

NEWEST = "2.1.332"


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
@pytest.mark.parametrize(("name", "background"), [("single", None), ("background", "child-bg")])
def test_a_whole_run(version: str, name: str, background: str | None, tmp_path: Path, e2e_table: list[str]) -> None:
    """In one command: everything attributed, every relation, complete."""
    with Run(SCENARIOS[name](), version, tmp_path) as run:
        code, err = run.finish()
    assert code == 0, err
    capture = run.capture()
    table = check_attribution(capture)
    assert table.relations == table.true_relations(frozenset(), background)
    assert capture.manifest["capture_status"] == "complete"
    assert capture.manifest["execution_status"] == "completed"
    assert capture.manifest["harness"] == {"name": "claude-code", "version": version, "tested": True}
    assert "participants: 1 root, 1 child\n" in err
    e2e_table.append(f"{version} collect {name:<18} calls {len(table.calls)}/{len(table.truth)} wrong 0 unattributed 0")


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_two_turns_are_one_session(version: str, tmp_path: Path) -> None:
    """A second process resumes the session of the first: one root, one log, all calls its own."""
    with Run(SCENARIOS["ordinary"](), version, tmp_path, "-And once more.") as run:
        code, err = run.finish()
    assert code == 0, err
    capture = run.capture()
    table = check_attribution(capture)
    assert table.owned == {"root": set(table.truth)}
    assert capture.manifest["capture_status"] == "complete"
    launcher = read_json(run.attempt / "raw" / "native" / "launcher.json")
    assert launcher["exit_codes"] == [0, 0]
    (root,) = capture.manifest["participants"]
    assert root["native_ids"]["session_id"] == [launcher["root_native_id"]]
    assert "And once more." in str(capture.calls[-1]["context"]["messages"])


def _kill(role: str) -> Callable[[Run], None]:
    def kill(run: Run) -> None:
        pid = run.process.pid if role == "collect" else {name: pid for pid, name in run.processes().items()}[role]
        os.kill(pid, signal.SIGKILL)

    return kill


def _interrupt(run: Run) -> None:
    run.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("version", "end", "exit_code"),
    [
        (NEWEST, _kill("harness"), 0),
        (NEWEST, _kill("proxy"), 0),
        (NEWEST, _kill("collect"), -signal.SIGKILL),
        (NEWEST, _interrupt, 128 + signal.SIGINT),
        ("2.1.197", _interrupt, 128 + signal.SIGINT),
    ],
    ids=["kill-harness", "kill-proxy", "kill-collect", "interrupt", "interrupt-2.1.197"],
)
def test_a_run_that_was_ended_in_the_middle(
    version: str, end: Callable[[Run], None], exit_code: int, tmp_path: Path
) -> None:
    """While a child's answer is held: whatever is killed, all calls are attributed, and only the open one is cut."""
    with Run(SCENARIOS["killed"](), version, tmp_path) as run:
        run.until_held()
        end(run)
        code, err = run.finish()
    assert code == exit_code, err
    if code < 0:
        finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full")
        assert finalized.returncode == 0, finalized.stderr
    capture = run.capture()
    assert capture.validation.returncode == 0, capture.validation.stderr
    assert capture.manifest["execution_status"] == "interrupted"
    assert capture.manifest["capture_status"] == "partial"
    statuses = [call["execution_status"] for call in capture.calls]
    assert statuses == ["completed"] * (len(statuses) - 1) + ["interrupted"]
    assert {call["identity_status"] for call in capture.calls} == {"resolved"}
    assert [participant["role"] for participant in capture.manifest["participants"]] == ["root", "child"]
    if version == NEWEST:  # 2.1.197, told to stop, writes "interrupted" into its log as the child's result
        assert capture.manifest["lifecycle"]["status"] == "pending"


def test_two_side_by_side_do_not_meet(tmp_path: Path) -> None:
    """Each captures its own calls and nothing of the other."""
    with (
        Run(SCENARIOS["single"](), NEWEST, tmp_path / "one") as one,
        Run(SCENARIOS["single"](), NEWEST, tmp_path / "two") as two,
    ):
        for run in (one, two):
            code, err = run.finish()
            assert code == 0, err
    for run in (one, two):
        assert run.capture().manifest["capture_status"] == "complete"
        check_attribution(run.capture())
