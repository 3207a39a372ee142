"""The real Claude Code through `collect`: published, attributed, and ended in every way, without a key on disk."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.capture import roller_capture
from tests.support.claude_code_collect import Run, check_attribution
from tests.support.collecting import REAL_KEY, until
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
def test_all_turns_are_one_session(version: str, tmp_path: Path) -> None:
    """A second process resumes the session of the first: one root, one log, all calls its own. A third answers a
    command of its own without a model, which is told."""
    with Run(SCENARIOS["ordinary"](), version, tmp_path, "-And once more.", "/help") as run:
        code, err = run.finish()
    assert code == 0, err
    assert "warning: during turn 3 no model request came; by its own output the harness has answered" in err
    capture = run.capture()
    table = check_attribution(capture)
    assert table.owned == {"root": set(table.truth)}
    assert capture.manifest["capture_status"] == "complete"
    launcher = read_json(run.attempt / "raw" / "native" / "launcher.json")
    assert launcher["exit_codes"] == [0, 0, 0]
    (root,) = capture.manifest["participants"]
    assert root["native_ids"]["session_id"] == [launcher["root_native_id"]]
    assert "And once more." in str(capture.calls[-1]["context"]["messages"])


def _kill(role: str) -> Callable[[Run], None]:
    def kill(run: Run) -> None:
        pid = run.process.pid if role == "collect" else {name: pid for pid, name in run.processes().items()}[role]
        os.kill(pid, signal.SIGKILL)

    return kill


def _kill_collect_and_watchdog(run: Run) -> None:
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    (watchdog,) = [pid for pid in children if b"collect.watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(watchdog), signal.SIGKILL)
    run.process.kill()
    until(lambda: run.processes() == {})


def _signal(number: signal.Signals) -> Callable[[Run], None]:
    return lambda run: run.process.send_signal(number)


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
@pytest.mark.parametrize(
    ("end", "exit_code"),
    [
        (_kill("harness"), 0),
        (_kill("proxy"), 0),
        (_kill("collect"), -signal.SIGKILL),
        (_kill_collect_and_watchdog, -signal.SIGKILL),
        (_signal(signal.SIGINT), 128 + signal.SIGINT),
        (_signal(signal.SIGTERM), 128 + signal.SIGTERM),
    ],
    ids=["kill-harness", "kill-proxy", "kill-collect", "kill-collect-and-watchdog", "SIGINT", "SIGTERM"],
)
def test_a_run_that_was_ended_in_the_middle(
    version: str, end: Callable[[Run], None], exit_code: int, tmp_path: Path
) -> None:
    """While a child's answer is held: whatever is killed, all calls are attributed, and only the open one is cut."""
    with Run(SCENARIOS["killed"](), version, tmp_path) as run:
        run.until_held()
        assert _holders_of_the_real_key(run) == {"proxy"}
        end(run)
        code, err = run.finish()
        assert code == exit_code, err
        if code < 0:
            _finalize(run)
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


def _holders_of_the_real_key(run: Run) -> set[str]:
    """Those of its processes that can read it in their environment."""
    processes = run.processes()
    assert set(processes.values()) >= {"proxy", "keeper", "harness"}
    needle = REAL_KEY.encode()
    return {name for pid, name in processes.items() if needle in Path(f"/proc/{pid}/environ").read_bytes()}


def _finalize(run: Run) -> None:
    """As the page says: with the private folder, where nobody was left to save the logs."""
    (entry,) = read_json(run.attempt.parent.parent / "sample.json")["attempts"]
    private = entry.get("private_folder")
    options = [] if private is None else ["--native", f"{private}/home", "--execution-status", "interrupted"]
    finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full", *options)
    assert finalized.returncode == 0, finalized.stderr


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_a_harness_that_goes_around_the_proxy_is_said_loudly(version: str, tmp_path: Path) -> None:
    """A setting of the project is in effect, and names another base URL."""
    scenario = SCENARIOS["ordinary"]()
    with ScriptedProvider(scenario.decide) as elsewhere:
        settings = json.dumps({"env": {"ANTHROPIC_BASE_URL": elsewhere.url}})
        with Run(replace(scenario, files={".claude/settings.json": settings}), version, tmp_path) as run:
            code, err = run.finish()
        assert len(elsewhere.truth.records) == 2
    assert code == 1
    assert "error: no_request_seen: the harness gave answers, but no model request reached the proxy" in err
    assert "Look for another base URL in the project's settings" in err
    assert run.capture().manifest["counts"]["calls"] == 0


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
