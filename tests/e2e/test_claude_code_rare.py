"""The real Claude Code through `collect`, in shapes that are seldom: every call with its owner, every relation true.

Truth is the scripted provider's own record.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.claude_code import PLAN
from roller_capture.scripted_provider import claude_code_rare_scenarios as scenarios
from roller_capture.scripted_provider.scenario import Scenario
from tests.support.claude_code_collect import Run, check_attribution
from tests.support.harness_install import CLAUDE_CODE_VERSIONS
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

NEWEST, OLDER = "2.1.332", "2.1.197"
each_version = pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)


def _run(scenario: Scenario, version: str, directory: Path, table: list[str], drain_timeout: float = 60) -> TruthTable:
    """One run, to its end."""
    with Run(scenario, version, directory, drain_timeout=drain_timeout) as run:
        code, err = run.finish()
    assert code == 0, err
    captured = TruthTable(run.capture(), PLAN.delegation_tools)
    table.append(f"{version} collect {scenario.name:<22} calls {len(captured.calls)}/{len(captured.truth)}")
    return captured


@pytest.mark.parametrize(
    ("version", "make", "expected"),
    [
        *(
            (
                version,
                scenarios.notifications_at_once,
                Expected((Delegation("child-a", background=True), Delegation("child-b", background=True))),
            )
            for version in CLAUDE_CODE_VERSIONS
        ),
        *(
            (version, scenarios.child_compaction, Expected((Delegation("child-c"),)))
            for version in CLAUDE_CODE_VERSIONS
        ),
    ],
)
def test_what_is_seldom_is_complete(
    version: str, make: Callable[[], Scenario], expected: Expected, tmp_path: Path, e2e_table: list[str]
) -> None:
    """All that the provider saw, and nothing else."""
    assert differences(_run(make(), version, tmp_path, e2e_table), expected) == []


def test_a_fork_s_log_begins_with_the_root_s_output(tmp_path: Path, e2e_table: list[str]) -> None:
    """So a message id stands in two logs: the copy is the root's, and is owned by the root."""
    table = _run(scenarios.fork(), NEWEST, tmp_path, e2e_table)
    assert differences(table, Expected((Delegation("child-f", background=True),))) == []
    native = table.capture.attempt / "raw" / "native" / "projects"
    logs = [path.read_text() for path in sorted(native.rglob("*.jsonl"))]
    (launch, _), *_ = table.delegations
    assert len(logs) == sum(launch.nonce in log for log in logs) == 2
    assert table.owned["root"] >= {launch.nonce}


def _proven(table: TruthTable) -> Counter[tuple[str, int, str | None]]:
    """The relations that are about a delegation itself: type, delegation, and how it was delivered."""
    return Counter(
        (relation["type"], relation["delegation"], (relation["delivery"] or {}).get("kind"))
        for relation in table.capture.relations
        if relation["context_call_id"] is None
    )


def test_a_fetched_result_is_delivered_twice(tmp_path: Path, e2e_table: list[str]) -> None:
    """By the tool that fetched it, and by the notification; the later request holds both."""
    table = _run(scenarios.fetched_result(), OLDER, tmp_path, e2e_table)
    check_attribution(table.capture)
    assert _proven(table) == {
        ("spawn", 1, None): 1,
        ("launch_acknowledged", 1, "tool_result"): 1,
        ("result_delivered", 1, "tool_result"): 1,
        ("result_delivered", 1, "notification"): 1,
        ("child_completed", 1, None): 1,
    }
    assert table.capture.manifest["capture_status"] == "complete"
    assert _holding_the_result(table) == _heard(table, "child-t")


@each_version
def test_a_resumed_child_that_does_not_end_is_pending(version: str, tmp_path: Path, e2e_table: list[str]) -> None:
    """Its first delegation was delivered, its second one never; the whole is told as what it is."""
    table = _run(scenarios.held_resumption(), version, tmp_path, e2e_table, drain_timeout=1)
    check_attribution(table.capture)
    manifest = table.capture.manifest
    assert manifest["lifecycle"]["status"] == "pending"
    assert [table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]] == ["child-re"]
    assert {"call_incomplete", "lifecycle_pending"} <= {reason["code"] for reason in manifest["status_reasons"]}
    proven = _proven(table)
    assert {kind: number for (kind, delegation, _), number in proven.items() if delegation == 2} == {
        "spawn": 1,
        "launch_acknowledged": 1,
    }
    assert proven["result_delivered", 1, "tool_result"] == 1
    assert _holding_the_result(table) == _heard(table, "child-re")


@each_version
def test_a_cut_answer_that_launched_a_child(version: str, tmp_path: Path, e2e_table: list[str]) -> None:
    """Its tool ran: the delegation is proven, and the cut is the only thing that is missing."""
    table = _run(scenarios.cut_launch(), version, tmp_path, e2e_table)
    check_attribution(table.capture)
    assert _proven(table) == {
        ("spawn", 1, None): 1,
        ("launch_acknowledged", 1, "tool_result"): 1,
        ("result_delivered", 1, "notification"): 1,
        ("child_completed", 1, None): 1,
    }
    cut = [record.nonce for record in table.capture.truth if record.delivered != "complete"]
    assert {table.calls[nonce]["call_id"] for nonce in cut} == {
        relation["parent_call_id"] for relation in table.capture.relations
    }
    reasons = {reason["code"]: reason["count"] for reason in table.capture.manifest["status_reasons"]}
    assert reasons == {"call_incomplete": len(cut)}
    assert _holding_the_result(table) == _heard(table, "child-a")


def _holding_the_result(table: TruthTable) -> set[str]:
    """The calls that are said to hold a child's result."""
    return {
        str(relation.context_call) for relation in table.relations.elements() if relation.type == "result_in_context"
    }


def _heard(table: TruthTable, child: str) -> set[str]:
    """The root's requests in which the provider saw an answer of the child."""
    own = {record.nonce for record in table.capture.truth if record.owner == child}
    return {record.nonce for record in table.capture.truth if record.owner == "root" and own & record.nonces_seen}
