"""The real Hermes Agent through `collect`, held against the scripted provider's own record.

Here is what the shared acceptance does not hold: other protocols, further scenarios, and what is Hermes's own. One run
per scenario and protocol serves all tests of that pair.
"""

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.scripted_provider.hermes_scenarios import SCENARIOS, SETTINGS
from roller_capture.vocabulary import Protocol
from tests.support.harness_run import HarnessRun
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "0.19.0"
CHAT, RESPONSES, MESSAGES = (
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
    Protocol.ANTHROPIC_MESSAGES,
)
ALL = (CHAT, RESPONSES, MESSAGES)
OTHERS = (RESPONSES, MESSAGES)
_PROMPTS: Mapping[str, tuple[str, ...]] = dict.fromkeys(("title", "resumed-failure"), ("SECOND-TURN: go on.",))
_ID_NAMES = {CHAT: "tool_call_id", RESPONSES: "call_id", MESSAGES: "tool_use_id"}


@dataclass(frozen=True)
class Run:
    """What a scenario must give. `purposes` are those besides `agent`, `outcomes` those of ends other than
    `completed`."""

    expected: Expected = field(default_factory=Expected)
    protocols: tuple[Protocol, ...] = (CHAT,)
    purposes: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    exit_code: int = 0


def _children(*names: str, same_call: bool = False, **more: Any) -> Expected:
    first, *others = names
    delegations = (Delegation(first), *(Delegation(name, same_call=same_call) for name in others))
    return Expected(delegations, **more)


_CUT = {"call_incomplete": 1}
_FAILED_CHILD = Expected((Delegation("child-f", end="child_failed"),), ended={"child-f": "failed"})
_FAILED_ROOT = Expected(ended={"root": "failed"}, execution="failed")
RUNS: Mapping[str, Run] = {
    "ordinary": Run(protocols=OTHERS),
    "single": Run(_children("child-a"), OTHERS),
    "parallel": Run(_children("child-a", "child-b", same_call=True), OTHERS),
    "two-calls": Run(_children("child-a", "child-b")),
    "identical-prompts": Run(_children("child-1", "child-2", same_call=True), OTHERS),
    "identical-calls": Run(Expected((Delegation("child-1"), Delegation("dropped", refused=True)))),
    "too-many": Run(Expected((Delegation("none", refused=True),))),
    "tool-configs": Run(_children("leaf", "orchestrator", same_call=True)),
    "nested": Run(
        Expected((Delegation("child-n"), Delegation("grand-g", parent="child-n", receiver="child-n"))), OTHERS
    ),
    "nested-refused": Run(Expected((Delegation("child-n"), Delegation("none", parent="child-n", refused=True)))),
    "child-failure": Run(_FAILED_CHILD, OTHERS, outcomes={"child-f": "format_error"}),
    "child-failure-500": Run(_FAILED_CHILD, outcomes={"child-f": "server_error"}),
    "root-failure": Run(_FAILED_ROOT),
    "resumed-failure": Run(_FAILED_ROOT),
    "iteration-limit": Run(_children("child-l"), ALL, purposes={"summary": 1}, outcomes={"child-l": "max_iterations"}),
    "cut-root": Run(Expected(reasons=_CUT)),
    "cut-early": Run(Expected(reasons=_CUT)),
    "cut-tool": Run(_children("child-c", reasons=_CUT)),
    "error-event": Run(),
    "retries": Run(),
    "compaction": Run(_children("child-a"), OTHERS, purposes={"compaction": 1}),
    "rotation": Run(_children("child-a"), purposes={"compaction": 1}),
    "child-rotation": Run(_children("child-r"), purposes={"compaction": 1}),
    "review": Run(_children("child-v"), ALL, purposes={"review": 1}),
    "title": Run(),
    "killed": Run(
        Expected(
            (Delegation("child-k", end=None),),
            ended={"root": "interrupted", "child-k": "interrupted"},
            pending=frozenset({"child-k"}),
            reasons={"call_incomplete": 1, "lifecycle_pending": 1},
            execution="interrupted",
        ),
        exit_code=128 + signal.SIGTERM,
    ),
}
PAIRS = [(scenario, protocol) for scenario, run in RUNS.items() for protocol in run.protocols]
Tables = Callable[[str, Protocol], TruthTable]
each_run = pytest.mark.parametrize(("scenario", "protocol"), PAIRS, ids=[f"{name}-{one.value}" for name, one in PAIRS])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario in a protocol the first time it is asked for."""
    known: dict[tuple[str, Protocol], TruthTable] = {}

    def table(scenario: str, protocol: Protocol) -> TruthTable:
        if (scenario, protocol) not in known:
            known[scenario, protocol] = _run(scenario, protocol, tmp_path_factory.mktemp("hermes"))
            e2e_table.append(_line(scenario, protocol, known[scenario, protocol]))
        return known[scenario, protocol]

    return table


def _run(name: str, protocol: Protocol, directory: Path) -> TruthTable:
    scenario = SCENARIOS[name]()
    arguments = tuple(part for setting in SETTINGS.get(name, ()) for part in ("--config", setting))
    options: dict[str, Any] = {"protocol": protocol, "harness_args": arguments, "drain_timeout": 30.0}
    with HarnessRun("hermes", VERSION, scenario, directory / "run", *_PROMPTS.get(name, ()), **options) as run:
        if scenario.kill_when is not None:
            run.until_held()
            # The script around a turn, and Hermes; a tool can have left something, too.
            assert {"proxy", "keeper", "harness", "other"} == set(run.processes().values())
            run.process.send_signal(signal.SIGTERM)
        code, err = run.finish()
    assert code == RUNS[name].exit_code, err
    return TruthTable(run.capture(), ("delegate_task",))


def _line(scenario: str, protocol: Protocol, table: TruthTable) -> str:
    manifest = table.capture.manifest
    return (
        f"hermes {VERSION} {protocol.value:<24} {scenario:<20} calls {len(table.calls):>2}/{len(table.truth):<2} wrong "
        f"{len(table.wrong)} unattributed {len(table.unattributed)} relations {len(table.capture.relations):>2} "
        f"lifecycle {manifest['lifecycle']['status']} capture {manifest['capture_status']}"
    )


@each_run
def test_nothing_differs_from_the_truth(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """Calls and owners, participants and ends, relations, lifecycle, reasons, exportable calls, validity."""
    assert differences(tables(scenario, protocol), RUNS[scenario].expected) == []


@each_run
def test_how_children_ended_and_where_their_results_stand(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """In Hermes's own words; a pointer leads to the tool result of just that delegation."""
    table = tables(scenario, protocol)
    outcomes = {
        table.owners[relation["child_participant_id"]]: relation["outcome"]
        for relation in table.capture.relations
        if relation["type"] in ("child_completed", "child_failed")
    }
    assert {child: outcome for child, outcome in outcomes.items() if outcome != "completed"} == RUNS[scenario].outcomes
    for relation, item in table.context_items:
        assert item[_ID_NAMES[protocol]] == relation["tool_call_id"]


@each_run
def test_every_answer_is_covered_and_has_its_purpose(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """Full coverage by Hermes's own call id; the purpose that Hermes gave a call; nothing of the plugin's goes out."""
    table = tables(scenario, protocol)
    manifest = table.capture.manifest
    assert manifest["harness"] == {"name": "hermes", "version": VERSION, "tested": True}
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["strength"], coverage["status"]) == ("per_id", "complete")
    assert coverage["protocol_count"]["expected"] == coverage["expected"]
    purposes = Counter(call["purpose"] for call in table.calls.values())
    del purposes["agent"]
    assert purposes == RUNS[scenario].purposes
    for record in table.capture.truth:
        assert not [name for name in record.headers if name.startswith("x-roller-")]


@pytest.mark.parametrize("protocol", OTHERS)
def test_children_of_one_call_are_numbered_by_their_tasks(tables: Tables, protocol: Protocol) -> None:
    """Two children of one batched call share its id and have an index each."""
    table = tables("parallel", protocol)
    found = {
        table.owners[relation["child_participant_id"]]: (relation["task_index"], relation["tool_call_id"])
        for relation in table.capture.relations
        if relation["type"] == "spawn"
    }
    [(_, tool_id)] = table.delegations
    assert found == {"child-a": (0, tool_id), "child-b": (1, tool_id)}


def test_attempts_at_one_request_share_their_logical_call(tables: Tables) -> None:
    """Two overloaded answers and a good one are one logical call; the next turn is another."""
    table = tables("retries", CHAT)
    logical = Counter(call["native_identity"]["logical_call_id"] for call in table.calls.values())
    assert sorted(logical.values()) == [1, 3]


def test_a_rotated_session_is_one_participant(tables: Tables) -> None:
    """The root has two native ids, and calls under both."""
    table = tables("rotation", CHAT)
    [root] = [item for item in table.capture.manifest["participants"] if item["role"] == "root"]
    made = [call for call in table.calls.values() if call["participant_id"] == root["participant_id"]]
    assert {call["native_identity"]["session_id"] for call in made} == set(root["native_ids"]["session_id"])
    assert len(root["native_ids"]["session_id"]) == 2


def test_leaf_orchestrator_and_root_keep_their_own_tools(tables: Tables) -> None:
    """Nobody's tools are written over another's."""
    table = tables("tool-configs", CHAT)
    tools: dict[str, set[frozenset[str]]] = {}
    for nonce, call in table.calls.items():
        names: list[dict[str, Any]] = call["context"]["tools"]
        tools.setdefault(str(table.truth[nonce].owner), set()).add(
            frozenset(item["function"]["name"] for item in names)
        )
    assert [len(found) for found in tools.values()] == [1, 1, 1]
    leaf, orchestrator, root = (next(iter(tools[owner])) for owner in ("leaf", "orchestrator", "root"))
    assert "delegate_task" not in leaf
    assert "delegate_task" in orchestrator
    assert leaf < orchestrator < root
