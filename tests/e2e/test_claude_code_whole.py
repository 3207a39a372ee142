"""The real Claude Code through `collect`, in the shapes that delegation takes beyond one child that is waited for.

Truth is the scripted provider's own record (tests/support/truth_table.py). One run per version and scenario serves all
tests of that pair.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.claude_code_collect import Run
from tests.support.claude_code_truth import ClaudeCodeTruth as TruthTable
from tests.support.harness_install import CLAUDE_CODE_VERSIONS
from tests.support.truth_table import Relation

pytestmark = pytest.mark.e2e

NEWEST = "2.1.332"


@dataclass(frozen=True)
class Delegation:
    """One delegating tool call. `end` is that of the relation, or None where nothing was delivered; `receiver` is whom
    the result reached."""

    child: str
    parent: str = "root"
    background: bool = False
    end: str | None = "child_completed"
    receiver: str = "root"


@dataclass(frozen=True)
class Expected:
    """What a scenario must give, beyond what the provider's record tells.

    `delegations` stand in the order in which the provider was asked for them. `ended` names the children that did not
    end well, with their status. `reasons` are those of a capture that is not complete. `side_calls` is the number of
    calls whose purpose nothing native tells.
    """

    delegations: tuple[Delegation, ...]
    ended: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = field(default_factory=dict)
    side_calls: int = 0
    drain_timeout: float = 60.0
    versions: tuple[str, ...] = CLAUDE_CODE_VERSIONS


def _background(child: str, **more: str | None) -> Delegation:
    return Delegation(child, background=True, **more)  # type: ignore[arg-type]


EXPECTED: Mapping[str, Expected] = {
    "mid-turn-notification": Expected((_background("child-b1"), _background("child-b2"))),
    # in the newest version, the shared acceptance has it
    "nested": Expected(
        (Delegation("child-n"), Delegation("grand-g", parent="child-n", receiver="child-n")), versions=("2.1.197",)
    ),
    "nested-background": Expected((_background("child-n"), _background("grand-g", parent="child-n"))),
    "resumed-child": Expected((Delegation("child-re"), _background("child-re"))),
    "background-failure": Expected((_background("child-f", end="child_failed"),), ended={"child-f": "failed"}),
    "stopped-child": Expected((_background("child-s", end=None),), ended={"child-s": "interrupted"}),
    "stopped-again": Expected(
        (_background("child-s", end=None), _background("child-s", end=None)),
        ended={"child-s": "interrupted"},
        pending=frozenset({"child-s"}),
        reasons={"lifecycle_pending": 1},
        drain_timeout=1.0,
    ),
    "wait-ceiling": Expected(
        (_background("child-w", end=None),),
        ended={"child-w": "interrupted"},
        pending=frozenset({"child-w"}),
        reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        drain_timeout=1.0,
    ),
    "compaction": Expected((Delegation("child-a"),), side_calls=1),
    # Nothing shows a child, so that the session alone names the root.
    "compaction-alone": Expected((), side_calls=1, versions=(NEWEST,)),
    "notified-compaction": Expected((_background("child-a"),), side_calls=1),
    "notified-child": Expected(
        (Delegation("child-n"), _background("grand-g", parent="child-n", receiver="child-n")), versions=(NEWEST,)
    ),
    "tool-configs": Expected((Delegation("reader"), Delegation("other-model"))),
    "slow-cut-child": Expected((Delegation("child-c"),), reasons={"call_incomplete": 1}, versions=(NEWEST,)),
}
RUNS = [(version, scenario) for scenario, expected in EXPECTED.items() for version in expected.versions]
Tables = Callable[[str, str], TruthTable]
each_run = pytest.mark.parametrize(("version", "scenario"), RUNS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario with a version the first time it is asked for."""
    known: dict[tuple[str, str], TruthTable] = {}

    def table(version: str, scenario: str) -> TruthTable:
        if (version, scenario) not in known:
            known[version, scenario] = _run(version, scenario, tmp_path_factory.mktemp(f"{scenario}-{version}"))
            e2e_table.append(_line(version, scenario, known[version, scenario]))
        return known[version, scenario]

    return table


def _run(version: str, scenario: str, directory: Path) -> TruthTable:
    with Run(SCENARIOS[scenario](), version, directory, drain_timeout=EXPECTED[scenario].drain_timeout) as run:
        code, err = run.finish()
    assert code == 0, err
    return TruthTable(run.capture())


def _line(version: str, scenario: str, table: TruthTable) -> str:
    relations = Counter(relation["type"] for relation in table.capture.relations)
    return (
        f"{version} collect {scenario:<22} calls {len(table.calls):>2}/{len(table.truth):<2} wrong {len(table.wrong)} "
        f"unattributed {len(table.unattributed)} relations {relations.total():>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


def _true_relations(table: TruthTable, delegations: tuple[Delegation, ...]) -> Counter[Relation]:
    """The relations of the given delegations, with the calls that the provider saw hold their results."""
    found: Counter[Relation] = Counter()
    for (record, tool_id), delegation in zip(table.delegations, delegations, strict=True):
        assert record.owner == delegation.parent
        acknowledged = ["launch_acknowledged"] if delegation.background else []
        ended = ["result_delivered", delegation.end] if delegation.end else []
        held_by = [later.nonce for later in table.capture.truth if tool_id in later.results_seen]
        in_context = {"launch_ack_in_context" if delegation.background else "result_in_context": held_by}
        if delegation.background and delegation.end:
            in_context["result_in_context"] = _told(table, delegation)
        pairs = [(kind, None) for kind in ["spawn", *acknowledged, *ended]]
        pairs += [(kind, nonce) for kind, nonces in in_context.items() for nonce in nonces]
        for kind, context_call in pairs:
            found[Relation(kind, delegation.parent, delegation.child, tool_id, record.nonce, context_call)] += 1
    return found


def _told(table: TruthTable, delegation: Delegation) -> list[str]:
    """Requests of the receiver that carry an answer of the child, or its error, outside of any tool result."""
    own = {record.nonce for record in table.capture.truth if record.owner == delegation.child}
    return [
        record.nonce
        for record in table.capture.truth
        if record.owner == delegation.receiver
        and own & record.nonces_seen - frozenset().union(*record.results_seen.values())
    ]


@each_run
def test_every_call_has_its_owner(tables: Tables, version: str, scenario: str) -> None:
    """One call per request, none wrong, none unattributed, and every participant with its role, parent and end."""
    table, expected = tables(version, scenario), EXPECTED[scenario]
    assert table.calls.keys() == table.truth.keys()
    assert (table.wrong, table.unattributed) == ([], [])
    assert table.owned == table.true_owned
    children = {
        item.child: ("child", item.parent, expected.ended.get(item.child, "completed")) for item in expected.delegations
    }
    assert table.participants == {"root": ("root", None, "completed"), **children}


@each_run
def test_relations_are_the_true_ones(tables: Tables, version: str, scenario: str) -> None:
    """Those of each delegation, with the calls that made it and that hold its result; no other."""
    table = tables(version, scenario)
    assert table.relations == _true_relations(table, EXPECTED[scenario].delegations)


@each_run
def test_context_pointers_name_the_result(tables: Tables, version: str, scenario: str) -> None:
    """The pointer leads to the tool result, or the notification, of that delegation in that call's request."""
    for relation, item in tables(version, scenario).context_items:
        if relation["delivery"]["kind"] == "tool_result":
            assert (item["type"], item["tool_use_id"]) == ("tool_result", relation["tool_call_id"])
        else:
            assert f"<tool-use-id>{relation['tool_call_id']}</tool-use-id>" in json.dumps(item)


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, version: str, scenario: str) -> None:
    """Lifecycle with the pending children, the reasons for a partial capture and no other, and a valid attempt."""
    table, expected = tables(version, scenario), EXPECTED[scenario]
    manifest = table.capture.manifest
    pending = {table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]}
    assert (manifest["lifecycle"]["status"], pending) == ("pending" if pending else "complete", expected.pending)
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert manifest["capture_status"] == ("partial" if expected.reasons else "complete")
    assert (manifest["errors"], manifest["execution_status"]) == ([], "completed")
    assert manifest["harness"] == {"name": "claude-code", "version": version, "tested": True}
    assert table.capture.validation.returncode == 0, table.capture.validation.stderr


@each_run
def test_exportable_are_the_answers_that_ended_well(tables: Tables, version: str, scenario: str) -> None:
    """Completed calls and no others; all but the listed ones are an agent's own."""
    table = tables(version, scenario)
    assert table.exportable == table.truly_exportable
    purposes = Counter(table.calls[nonce]["purpose"] for nonce in table.exportable)
    assert purposes["unknown"] == EXPECTED[scenario].side_calls
    assert purposes.keys() <= {"agent", "unknown"}


def test_a_notification_within_a_turn_is_a_system_message(tables: Tables) -> None:
    """The first child's came while the root was at work, the second's when it was idle: as `system` and as `user`."""
    table = tables(NEWEST, "mid-turn-notification")
    roles: dict[str, set[str]] = {}
    for relation in table.capture.relations:
        if relation["type"] == "result_in_context":
            messages = table.by_id[relation["context_call_id"]]["context"]["messages"]
            position = int(relation["context_pointer"].split("/")[2])
            roles.setdefault(table.owners[relation["child_participant_id"]], set()).add(messages[position]["role"])
    assert roles == {"child-b1": {"system"}, "child-b2": {"user"}}


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_a_grandchild_whose_launcher_has_ended_reports_to_the_root(tables: Tables, version: str) -> None:
    """The spawner is the child, the receiver of the result is the root."""
    table = tables(version, "nested-background")
    receivers = {
        (relation["type"], table.owners[relation["parent_participant_id"]], table.owners[receiver])
        for relation in table.capture.relations
        if (receiver := relation["receiver_participant_id"]) is not None
    }
    assert receivers == {("result_delivered", "child-n", "root"), ("result_in_context", "child-n", "root")}


def test_a_result_that_a_child_took_in_unlogged_is_unknown(tables: Tables) -> None:
    """2.1.197 writes into no log that a child at work was given the notification of its own child's end."""
    table = tables("2.1.197", "notified-child")
    manifest = table.capture.manifest
    assert (table.wrong, table.unattributed) == ([], [])
    assert manifest["lifecycle"] == {"status": "unknown", "pending_participant_ids": []}
    assert [error["code"] for error in manifest["errors"]] == ["native_relation_unproven"]
    ends = Counter(relation["type"] for relation in table.capture.relations if relation["outcome"] == "completed")
    assert (ends["child_completed"], ends["result_delivered"]) == (2, 1)
    assert table.capture.validation.returncode == 0, table.capture.validation.stderr


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_a_resumed_child_is_judged_by_each_delegation(tables: Tables, version: str) -> None:
    """The first ends by the tool call that launched it, the second by the one that resumed it."""
    table = tables(version, "resumed-child")
    completed = {
        relation["delegation"]: relation["tool_call_id"]
        for relation in table.capture.relations
        if relation["type"] == "child_completed"
    }
    assert completed == dict(enumerate((tool_id for _, tool_id in table.delegations), start=1))


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_each_child_keeps_its_own_model(tables: Tables, version: str) -> None:
    """One child asks for another model than the root and its sibling, and its calls say so."""
    table = tables(version, "tool-configs")
    models: dict[str, set[str]] = {}
    for nonce, call in table.calls.items():
        assert call["model"]["requested"] == table.truth[nonce].model
        models.setdefault(str(table.truth[nonce].owner), set()).add(call["model"]["requested"])
    assert models["root"] == models["reader"] == {"scripted-model"}
    assert len(models["other-model"]) == 1
    assert models["other-model"].isdisjoint(models["root"])
