"""The real Hermes Agent through `collect`, held against the scripted provider's own record.

One run per scenario and protocol serves all tests of that pair.
"""

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider.hermes_scenarios import SCENARIOS, SETTINGS
from roller_capture.vocabulary import Protocol
from tests.support.harness_run import HarnessRun, binary, check_attribution
from tests.support.hermes_interactive import capture_interactively
from tests.support.truth_table import Relation, TruthTable

pytestmark = pytest.mark.e2e

VERSION = "0.19.0"
CHAT, RESPONSES, MESSAGES = (
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
    Protocol.ANTHROPIC_MESSAGES,
)
_SECOND_TURNS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("cross-process-resume", "title"), ("SECOND-TURN: go on.",)
)


class HermesTruth(TruthTable):
    """What delegates is one tool."""

    delegation_tools = ("delegate_task",)


@dataclass(frozen=True)
class Expected:
    """What a scenario must give, beyond what the provider's record tells.

    `children` are (parent, execution status) by owner, in the order of the delegations and their tasks. `purposes` are
    those besides `agent`. `outcomes` are those of ends other than `completed`; `None`: no end is proven.
    """

    children: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    purposes: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, str | None] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    execution: str = "completed"
    protocols: tuple[Protocol, ...] = (CHAT,)
    exit_code: int = 0


def _child(owner: str, parent: str = "root", end: str = "completed") -> dict[str, tuple[str, str]]:
    return {owner: (parent, end)}


ALL = (CHAT, RESPONSES, MESSAGES)
_CUT = {"call_incomplete": 1}
EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(protocols=ALL),
    "single": Expected(_child("child-a"), protocols=ALL),
    "parallel": Expected({**_child("child-a"), **_child("child-b")}, protocols=ALL),
    "two-calls": Expected({**_child("child-a"), **_child("child-b")}),
    "identical-prompts": Expected({**_child("child-1"), **_child("child-2")}, protocols=ALL),
    "identical-calls": Expected(_child("child-1")),
    "too-many": Expected(),
    "file-sharing": Expected({**_child("writer"), **_child("reader")}),
    "tool-error": Expected(_child("child-e")),
    "tool-configs": Expected({**_child("leaf"), **_child("orchestrator")}),
    "background": Expected(_child("child-bg")),
    "nested": Expected({**_child("child-n"), **_child("grand-g", "child-n")}, protocols=ALL),
    "nested-refused": Expected(_child("child-n")),
    "resumed-child": Expected({**_child("child-1"), **_child("child-2")}),
    "child-failure": Expected(_child("child-f", end="failed"), outcomes={"child-f": "format_error"}, protocols=ALL),
    "child-failure-500": Expected(_child("child-f", end="failed"), outcomes={"child-f": "server_error"}),
    "iteration-limit": Expected(
        _child("child-l"), purposes={"summary": 1}, outcomes={"child-l": "max_iterations"}, protocols=ALL
    ),
    "cut-root": Expected(reasons=_CUT),
    "cut-early": Expected(reasons=_CUT),
    "cut-stream": Expected(_child("child-c"), reasons=_CUT),
    "cut-tool": Expected(_child("child-c"), reasons=_CUT),
    "error-event": Expected(),
    "retries": Expected(),
    "compaction": Expected(_child("child-a"), purposes={"compaction": 1}, protocols=ALL),
    "rotation": Expected(_child("child-a"), purposes={"compaction": 1}),
    "child-rotation": Expected(_child("child-r"), purposes={"compaction": 1}),
    "review": Expected(_child("child-v"), purposes={"review": 1}, protocols=ALL),
    "cross-process-resume": Expected({**_child("child-a"), **_child("child-b")}),
    "title": Expected(),
    "killed": Expected(
        _child("child-k", end="interrupted"),
        outcomes={"child-k": None},
        reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        execution="interrupted",
        exit_code=128 + signal.SIGTERM,
    ),
}
RUNS = [(scenario, protocol) for scenario, expected in EXPECTED.items() for protocol in expected.protocols]
Tables = Callable[[str, Protocol], HermesTruth]
each_run = pytest.mark.parametrize(("scenario", "protocol"), RUNS, ids=[f"{name}-{one.value}" for name, one in RUNS])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario in a protocol the first time it is asked for."""
    known: dict[tuple[str, Protocol], HermesTruth] = {}

    def table(scenario: str, protocol: Protocol) -> HermesTruth:
        if (scenario, protocol) not in known:
            directory = tmp_path_factory.mktemp(f"{scenario}-{protocol.value}")
            known[scenario, protocol] = _run(scenario, protocol, directory)
            e2e_table.append(_line(scenario, protocol, known[scenario, protocol]))
        return known[scenario, protocol]

    return table


def _run(name: str, protocol: Protocol, directory: Path) -> HermesTruth:
    scenario = SCENARIOS[name]()
    arguments = tuple(part for setting in SETTINGS.get(name, ()) for part in ("--config", setting))
    prompts = _SECOND_TURNS.get(name, ())
    folder = directory / "run"
    with HarnessRun(
        "hermes", VERSION, scenario, folder, *prompts, protocol=protocol, harness_args=arguments, drain_timeout=30.0
    ) as run:
        if scenario.kill_when is not None:
            run.until_held()
            run.process.send_signal(signal.SIGTERM)
        code, err = run.finish()
    assert code == EXPECTED[name].exit_code, err
    return HermesTruth(run.capture())


def _line(scenario: str, protocol: Protocol, table: HermesTruth) -> str:
    manifest = table.capture.manifest
    return (
        f"hermes {VERSION} {protocol.value:<24} {scenario:<20} calls {len(table.calls):>2}/{len(table.truth):<2} wrong "
        f"{len(table.wrong)} unattributed {len(table.unattributed)} relations {len(table.capture.relations):>2} "
        f"lifecycle {manifest['lifecycle']['status']} capture {manifest['capture_status']}"
    )


def _true_relations(table: HermesTruth, expected: Expected) -> Counter[Relation]:
    """Those of each child, with the call whose output delegated and the calls that the provider saw hold the result."""
    found: Counter[Relation] = Counter()
    by_parent: dict[str, list[str]] = {}
    for child, (parent, _) in expected.children.items():
        by_parent.setdefault(parent, []).append(child)
    for record, tool_id in table.delegations:
        holders = [later.nonce for later in table.capture.truth if tool_id in later.results_seen]
        for child in _made_by(table, record.owner, tool_id, by_parent):
            kinds: list[tuple[str, str | None]] = [("spawn", None)]
            kinds += [("result_delivered", None)] if holders else []
            if child not in expected.outcomes or expected.outcomes[child] is not None:
                failed = expected.children[child][1] == "failed"
                kinds.append(("child_failed" if failed else "child_completed", None))
            kinds += [("result_in_context", nonce) for nonce in holders]
            for kind, context_call in kinds:
                found[Relation(kind, str(record.owner), child, tool_id, record.nonce, context_call)] += 1
    return found


def _made_by(table: HermesTruth, parent: str | None, tool_id: str, by_parent: Mapping[str, list[str]]) -> list[str]:
    """The children of one delegating call: those whose answers stand in its result, else all of that parent's."""
    children = by_parent.get(str(parent), [])
    seen = [later.results_seen[tool_id] for later in table.capture.truth if tool_id in later.results_seen]
    if not seen:
        return children if len(children) == 1 and table.delegations[0][1] == tool_id else []
    told = {str(table.truth[nonce].owner) for nonce in seen[0]}
    return [child for child in children if child in told]


@each_run
def test_every_call_has_its_owner(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """One call per request, none wrong, none unattributed, and every participant with its role, parent and end."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    check_attribution(table)
    assert table.owned == table.true_owned
    children = {owner: ("child", parent, end) for owner, (parent, end) in expected.children.items()}
    assert table.participants == {"root": ("root", None, expected.execution), **children}


@each_run
def test_relations_are_the_true_ones(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """Those of each child, with the call that made it and the calls that hold its result; no other."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    assert table.relations == _true_relations(table, expected)
    outcomes = {
        table.owners[relation["child_participant_id"]]: relation["outcome"]
        for relation in table.capture.relations
        if relation["type"] in ("child_completed", "child_failed")
    }
    named = {child: outcome for child, outcome in expected.outcomes.items() if outcome is not None}
    assert {child: outcome for child, outcome in outcomes.items() if outcome != "completed"} == named


@each_run
def test_context_pointers_name_the_result(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """The pointer leads to the tool result of that delegation in that call's request."""
    id_of = {CHAT: "tool_call_id", RESPONSES: "call_id", MESSAGES: "tool_use_id"}[protocol]
    for relation, item in tables(scenario, protocol).context_items:
        assert item[id_of] == relation["tool_call_id"]


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """The reasons for a partial capture and no other; full coverage by Hermes's own call id."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    manifest = table.capture.manifest
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert (manifest["errors"], manifest["execution_status"]) == ([], expected.execution)
    assert manifest["harness"] == {"name": "hermes", "version": VERSION, "tested": True}
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["strength"], coverage["status"]) == ("per_id", "complete")
    assert coverage["protocol_count"]["expected"] == coverage["expected"]


@each_run
def test_exportable_are_the_answers_that_ended_well(tables: Tables, scenario: str, protocol: Protocol) -> None:
    """Completed calls and no others, each with the purpose that Hermes gave it."""
    table = tables(scenario, protocol)
    assert table.exportable == table.truly_exportable
    purposes = Counter(call["purpose"] for call in table.calls.values())
    del purposes["agent"]
    assert purposes == Counter(EXPECTED[scenario].purposes)


def test_children_of_one_call_are_numbered_by_their_tasks(tables: Tables) -> None:
    """Two children of one batched call share its id and have an index each."""
    table = tables("parallel", CHAT)
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


def test_the_headers_of_the_plugin_never_reach_the_provider(tables: Tables) -> None:
    """They are taken off by the proxy, of calls beside the turns too."""
    for scenario in ("single", "review", "compaction", "iteration-limit"):
        for record in tables(scenario, CHAT).capture.truth:
            assert not [name for name in record.headers if name.startswith("x-roller-")]


def test_an_interactive_session_by_hand(tmp_path: Path, e2e_table: list[str]) -> None:
    """What `collect` never runs: a child in the background, whose end begins a turn of the root, and a title."""
    scenario = SCENARIOS["interactive-background"]()
    program = binary("hermes", VERSION)
    capture = capture_interactively(program, scenario, tmp_path / "run", *SETTINGS["interactive-background"])
    table = HermesTruth(capture)
    e2e_table.append(_line("interactive-background", CHAT, table))
    check_attribution(table)
    assert Counter(call["purpose"] for call in table.calls.values()) == {"agent": 5, "title": 1}
    assert table.relations == table.true_relations(frozenset(), "child-bg")
    [(_, notification)] = [pair for pair in table.context_items if pair[0]["type"] == "result_in_context"]
    [bound] = {item["delivery"]["bound_id"] for item, _ in table.context_items if item["type"] == "result_in_context"}
    assert f"{bound}]" in str(notification)
    assert (capture.manifest["capture_status"], capture.manifest["lifecycle"]["status"]) == ("complete", "complete")
