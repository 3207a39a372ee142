"""The real Codex through `collect`, beyond the shared acceptance: the first generation of its multi-agent tools, and
shapes of its own.

Truth is the scripted provider's own record (tests/support/truth_table.py) and the requests themselves. The acceptance
(test_acceptance.py) plays its fifteen scenarios with the second generation, one of them with the first. One run of each
pair of scenario and generation serves all tests of it.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider import TruthRecord
from roller_capture.scripted_provider.codex_scenarios import ARGUMENTS, DELEGATION_TOOLS, ROOT, SCENARIOS
from tests.support.harness_run import HarnessRun
from tests.support.truth_table import Relation, TruthTable

pytestmark = pytest.mark.e2e

VERSION = "0.171.0"
V2 = ("--enable", "multi_agent_v2")
CODE_MODE = "gpt-6-sol"
"""A model that Codex knows: its tools stand in an item of `input`, and children may delegate (v2)."""
SEARCHING = "gpt-5.5"
"""Another one: it has to search for its delegating tools (v1)."""


class CodexTruth(TruthTable):
    """What the provider knows of a run of Codex."""

    delegation_tools = DELEGATION_TOOLS

    @property
    def delegations(self) -> list[tuple[TruthRecord, str]]:
        """The tool calls that delegated: those whose outputs came back, also of an answer that was cut."""
        came_back = {(one.owner, tool_id) for one in self.capture.truth for tool_id in one.results_seen}
        return [
            (record, tool_id)
            for record in self.capture.truth
            for name, tool_id in record.tools
            if name in self.delegation_tools and (record.owner, tool_id) in came_back
        ]

    def carriers(self, receiver: str, mark: str) -> Mapping[str, list[str]]:
        """The items that hold a mark in requests of the receiver, by item id, with the answers to these requests."""
        found: dict[str, list[str]] = {}
        for record in self.capture.truth:
            if record.owner == receiver:
                for item in self.calls[record.nonce]["context"]["input"]:
                    is_told = (
                        item.get("type") in ("function_call_output", "agent_message") or item.get("role") == "user"
                    )
                    if is_told and mark in json.dumps(item):
                        found.setdefault(item["id"], []).append(record.nonce)
        return found


@dataclass(frozen=True)
class Delegation:
    """One delegating tool call. `end` is that of the relation, or None where nothing came of it."""

    child: str
    parent: str = "root"
    end: str | None = "child_completed"


@dataclass(frozen=True)
class Expected:
    """What a scenario must give beyond what the provider's record tells."""

    delegations: tuple[Delegation, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = field(default_factory=dict)
    execution: str = "completed"
    unexportable: frozenset[str] = frozenset()
    """Owners whose last answer went out whole and may not be exported."""
    generations: tuple[str, ...] = ()


_CUT = {"call_incomplete": 1}
_A, _B = Delegation("child-a"), Delegation("child-b")
FIRST, SECOND, BOTH = ("v1",), ("v2",), ("v1", "v2")
_STOPPED_AGAIN = (Delegation("child-s", end=None), Delegation("child-s", end=None))
_CUT_AGAIN: Mapping[str, Any] = {
    "ended": {"child-s": "interrupted"},
    "pending": frozenset({"child-s"}),
    "reasons": {"call_incomplete": 2, "lifecycle_pending": 1},
}
EXPECTED: Mapping[str, Expected] = {
    "single": Expected((_A,), generations=FIRST),
    "parallel": Expected((_A, _B), generations=FIRST),
    "identical-prompts": Expected((Delegation("child-1"), Delegation("child-2")), generations=FIRST),
    "one-wait-for-two": Expected((_A, _B), generations=FIRST),
    "file-sharing": Expected((Delegation("writer"), Delegation("reader")), generations=FIRST),
    "tool-error": Expected((Delegation("child-e"),), generations=FIRST),
    "tool-configs": Expected((Delegation("reader"), Delegation("other-model")), generations=BOTH),
    "child-failure-400": Expected(
        (Delegation("child-f", end="child_failed"),), ended={"child-f": "failed"}, generations=FIRST
    ),
    "cut-root": Expected(reasons=_CUT, generations=FIRST),
    "cut-tool": Expected(reasons=_CUT, generations=SECOND),
    "cut-spawn": Expected((_A,), reasons=_CUT, generations=BOTH),
    "cut-child": Expected((Delegation("child-c"),), reasons=_CUT, generations=FIRST),
    "error-event": Expected(generations=SECOND),
    "incomplete": Expected(
        ended={"root": "failed"}, execution="failed", unexportable=frozenset({"root"}), generations=FIRST
    ),
    "thinking": Expected(generations=FIRST),
    "background": Expected((Delegation("child-bg"),), generations=FIRST),
    "abandoned": Expected(
        (Delegation("child-w", end=None),),
        ended={"child-w": "interrupted"},
        pending=frozenset({"child-w"}),
        reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        generations=BOTH,
    ),
    # v2 offers no delegating tools to the children of a model that it does not know.
    "nested": Expected((Delegation("child-n"), Delegation("grand-g", parent="child-n")), generations=("v1", CODE_MODE)),
    "nested-notified": Expected(
        (Delegation("child-n"), Delegation("grand-g", parent="child-n")), generations=(CODE_MODE,)
    ),
    "resumed-child": Expected((Delegation("child-re"), Delegation("child-re")), generations=FIRST),
    "stopped-child": Expected(
        (Delegation("child-s", end=None),), ended={"child-s": "interrupted"}, reasons=_CUT, generations=BOTH
    ),
    "stopped-again": Expected(_STOPPED_AGAIN, **_CUT_AGAIN, generations=SECOND),
    # A closed child of v1 takes no further task before it is opened again.
    "reopened-child": Expected(_STOPPED_AGAIN, **_CUT_AGAIN, generations=FIRST),
    "forked-late": Expected((_A, _B), generations=BOTH),
    "compaction": Expected((_A,), generations=BOTH),
    "cross-process-resume": Expected((_A,), generations=FIRST),
    "searched-tools": Expected((_A,), generations=(SEARCHING,)),
    "code-mode": Expected(generations=(CODE_MODE,)),
}
RUNS = [(name, generation) for name, expected in EXPECTED.items() for generation in expected.generations]
Tables = Callable[[str, str], CodexTruth]


def _of(*runs: tuple[str, str]) -> pytest.MarkDecorator:
    """A test of these runs, one at a time."""
    return pytest.mark.parametrize(("scenario", "generation"), runs)


each_run = _of(*RUNS)


class Run(HarnessRun):
    """One run; `model` is the one to ask for."""

    def __init__(self, scenario: str, directory: Path, *arguments: str, model: str | None = None, **more: Any) -> None:
        prompts = (f"{ROOT}: go on.",) if scenario == "cross-process-resume" else ()
        every = (*ARGUMENTS.get(scenario, ()), *arguments)
        user_files = {".codex/config.toml": 'model_provider = "nowhere"', ".codex/auth.json": "{}"}
        super().__init__(
            "codex",
            VERSION,
            SCENARIOS[scenario](),
            directory,
            *prompts,
            user_files=user_files,
            harness_args=every,
            timeout=120.0,
            **more,
        )
        if model is not None:
            self.request = dataclasses.replace(self.request, model=model)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario with a generation of tools the first time it is asked for."""
    known: dict[tuple[str, str], CodexTruth] = {}

    def table(scenario: str, generation: str) -> CodexTruth:
        if (scenario, generation) not in known:
            directory = tmp_path_factory.mktemp(f"{scenario}-{generation}")
            known[scenario, generation] = _run(scenario, generation, directory)
            e2e_table.append(_line(scenario, generation, known[scenario, generation]))
        return known[scenario, generation]

    return table


def _run(scenario: str, generation: str, directory: Path) -> CodexTruth:
    model = generation if generation in (CODE_MODE, SEARCHING) else None
    with Run(scenario, directory, *(V2 if generation == "v2" else ()), model=model) as run:
        code, err = run.finish()
    assert code == 0, err
    return CodexTruth(run.capture())


def _line(scenario: str, generation: str, table: CodexTruth) -> str:
    relations = Counter(relation["type"] for relation in table.capture.relations)
    return (
        f"codex {VERSION} {generation:<9} {scenario:<20} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"participants {len(table.owners)} wrong {len(table.wrong)} unattributed {len(table.unattributed)} "
        f"relations {relations.total():>2} lifecycle {table.capture.manifest['lifecycle']['status']} "
        f"capture {table.capture.manifest['capture_status']}"
    )


def _true_relations(table: CodexTruth, delegations: tuple[Delegation, ...]) -> Counter[Relation]:
    found: Counter[Relation] = Counter()
    rounds: Counter[str] = Counter()
    for (record, tool_id), delegation in zip(table.delegations, delegations, strict=True):
        assert record.owner == delegation.parent
        pairs: list[tuple[str, str | None]] = [("spawn", None), ("launch_acknowledged", None)]
        pairs += [
            ("launch_ack_in_context", later.nonce)
            for later in table.capture.truth
            if later.owner == delegation.parent and tool_id in later.results_seen
        ]
        if delegation.end is not None:
            own = [one for one in table.capture.truth if one.owner == delegation.child and not one.tools]
            last = [one for one in own if one.answered_whole or one.status != 200][rounds[delegation.child]]
            rounds[delegation.child] += 1
            carriers = table.carriers(delegation.parent, last.nonce)
            pairs += [(delegation.end, None), *[("result_delivered", None)] * len(carriers)]
            pairs += [("result_in_context", nonce) for nonces in carriers.values() for nonce in nonces]
        for kind, context_call in pairs:
            found[Relation(kind, delegation.parent, delegation.child, tool_id, record.nonce, context_call)] += 1
    return found


@each_run
def test_every_call_has_its_owner(tables: Tables, scenario: str, generation: str) -> None:
    """One call per request, none wrong, none unattributed, and every participant with its role, parent and end."""
    table, expected = tables(scenario, generation), EXPECTED[scenario]
    assert table.calls.keys() == table.truth.keys()
    assert (table.wrong, table.unattributed) == ([], [])
    assert table.owned == table.true_owned
    everyone = {"root": ("root", None), **{item.child: ("child", item.parent) for item in expected.delegations}}
    assert table.participants == {
        owner: (role, parent, expected.ended.get(owner, "completed")) for owner, (role, parent) in everyone.items()
    }


@each_run
def test_relations_are_the_true_ones(tables: Tables, scenario: str, generation: str) -> None:
    """Those of each delegation, with the calls that made it and that hold what came of it; no other."""
    table = tables(scenario, generation)
    assert table.relations == _true_relations(table, EXPECTED[scenario].delegations)


@each_run
def test_context_pointers_name_the_item(tables: Tables, scenario: str, generation: str) -> None:
    """The pointer leads to the tool output with that id, or into the message with that item id."""
    table = tables(scenario, generation)
    for relation, item in table.context_items:
        bound = relation["delivery"]["bound_id"]
        if relation["delivery"]["kind"] == "tool_result":
            assert (item["type"], item["call_id"]) == ("function_call_output", bound)
        else:
            context = table.by_id[relation["context_call_id"]]["context"]
            assert context["input"][int(relation["context_pointer"].split("/")[2])]["id"] == bound


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, scenario: str, generation: str) -> None:
    """Lifecycle with the pending children, the reasons for a partial capture and no other, and a valid attempt."""
    table, expected = tables(scenario, generation), EXPECTED[scenario]
    manifest = table.capture.manifest
    pending = {table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]}
    assert pending == expected.pending
    assert manifest["lifecycle"]["status"] == ("pending" if expected.pending else "complete")
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert (manifest["errors"], manifest["execution_status"]) == ([], expected.execution)
    assert manifest["harness"] == {"name": "codex", "version": VERSION, "tested": True}
    assert table.capture.validation.returncode == 0, table.capture.validation.stderr


@each_run
def test_every_response_id_of_the_rollouts_has_its_call(tables: Tables, scenario: str, generation: str) -> None:
    """Coverage is per id; the protocol's own count stands beside it and is the same where nothing was cut."""
    coverage = tables(scenario, generation).capture.manifest["capabilities"]["native_output_coverage"]
    assert (coverage["key"], coverage["strength"], coverage["status"]) == ("response_id", "per_id", "complete")
    assert (coverage["missing"], coverage["surplus_calls"]) == ([], 0)
    count = {"name": "token_usage_updates", "expected": coverage["expected"], "observed": coverage["observed"]}
    assert coverage["protocol_count"] == count


@each_run
def test_exportable_are_the_answers_that_ended_well(tables: Tables, scenario: str, generation: str) -> None:
    """Completed calls and no others; all of them are an agent's own but the one that sums the thread up."""
    table, expected = tables(scenario, generation), EXPECTED[scenario]
    barred = {record.nonce for record in table.capture.truth if record.owner in expected.unexportable and record.finish}
    assert table.exportable == table.truly_exportable - barred
    purposes = Counter(call["purpose"] for call in table.calls.values())
    assert purposes == Counter(agent=len(table.calls) - (scenario == "compaction"), compaction=scenario == "compaction")


@_of(("tool-configs", "v1"), ("tool-configs", "v2"))
def test_each_child_keeps_its_own_model_and_tools(tables: Tables, scenario: str, generation: str) -> None:
    """One child asks for another model, which is offered other tools than the root and its sibling."""
    table = tables(scenario, generation)
    models: dict[str, set[str]] = {}
    tools: dict[str, set[str]] = {}
    for nonce, call in table.calls.items():
        owner = str(table.truth[nonce].owner)
        models.setdefault(owner, set()).add(call["model"]["requested"])
        tools.setdefault(owner, set()).add(json.dumps(call["context"].get("tools")))
    assert (models["root"], models["reader"], models["other-model"]) == ({"scripted-model"},) * 2 + ({"gpt-5.5"},)
    assert tools["other-model"].isdisjoint(tools["root"] | tools["reader"])


@_of(("thinking", "v1"))
def test_encrypted_reasoning_is_kept(tables: Tables, scenario: str, generation: str) -> None:
    """In the output as the provider sent it, and in the next request as the harness sent it back."""
    table = tables(scenario, generation)
    first, second = (table.calls[record.nonce] for record in table.capture.truth)
    [sent] = [item for item in first["output"]["output"] if item["type"] == "reasoning"]
    [returned] = [item for item in second["context"]["input"] if item["type"] == "reasoning"]
    assert sent["encrypted_content"]
    assert (returned["id"], returned["encrypted_content"]) == (sent["id"], sent["encrypted_content"])


@_of(("nested", CODE_MODE))
def test_tools_that_stand_in_the_input_are_kept_there(tables: Tables, scenario: str, generation: str) -> None:
    """A model in code mode has no `tools` at all: they are an item of the conversation."""
    table = tables(scenario, generation)
    for call in table.calls.values():
        assert "tools" not in call["context"]
        assert call["context"]["input"][0]["type"] == "additional_tools"


def _holding(table: CodexTruth, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The item of that type in the first answer, and what the next request of the same agent has under its call id."""
    first, second = (table.calls[record.nonce] for record in table.capture.truth[:2])
    [made] = [item for item in first["output"]["output"] if item["type"] == kind]
    refs = [{"tool_call_id": made["call_id"], "item_id": made["id"], "name": made.get("name")}]
    assert first["tool_refs"] == refs
    return made, [item for item in second["context"]["input"] if item.get("call_id") == made["call_id"]]


@_of(("searched-tools", SEARCHING))
def test_tools_that_are_loaded_later_stand_in_the_request_that_has_them(
    tables: Tables, scenario: str, generation: str
) -> None:
    """The search is a tool call without a name; what it found is an item of the next request, not of its `tools`."""
    made, [call, found] = _holding(tables(scenario, generation), "tool_search_call")
    assert (call["id"], found["type"]) == (made["id"], "tool_search_output")
    assert "spawn_agent" in json.dumps(found["tools"])
    for one in tables(scenario, generation).calls.values():
        assert "spawn_agent" not in json.dumps(one["context"]["tools"])


@_of(("code-mode", CODE_MODE))
def test_a_custom_tool_is_a_tool_call_like_others(tables: Tables, scenario: str, generation: str) -> None:
    """Its input is no JSON; it runs, and its output comes back under its id."""
    made, [call, output] = _holding(tables(scenario, generation), "custom_tool_call")
    assert (call["input"], output["type"]) == (made["input"], "custom_tool_call_output")
    assert "from-code" in json.dumps(output["output"])


def test_retries_of_a_child_belong_to_it(tmp_path: Path) -> None:
    """All six requests of the failing answer, none of which has a native record."""
    with Run("child-failure-500", tmp_path) as run:
        code, err = run.finish()
    assert code == 0, err
    table = CodexTruth(run.capture())
    failed = [call for call in table.calls.values() if call["execution_status"] == "failed"]
    assert len(failed) == 6
    assert {table.owners[call["participant_id"]] for call in failed} == {"child-f"}
    assert {call["purpose"] for call in failed} == {"agent"}
    assert [relation.type for relation in table.relations if relation.type.startswith("child_")] == ["child_failed"]


@pytest.mark.parametrize(
    ("scenario", "owner", "profile"), [("review", "reviewer", "review"), ("guardian", "guardian", None)]
)
def test_a_thread_that_nobody_delegated_to_is_a_participant(
    tmp_path: Path, scenario: str, owner: str, profile: str | None
) -> None:
    """A child of the root without a spawn, its calls marked by the harness as a review."""
    with Run(scenario, tmp_path, profile=profile) as run:
        code, err = run.finish()
    assert code == 0, err
    table = CodexTruth(run.capture())
    assert (table.wrong, table.unattributed, table.capture.relations) == ([], [], ())
    participants = table.capture.manifest["participants"]
    assert {item["role"]: item["parent_participant_id"] for item in participants} == {
        "root": None,
        "child": next(item["participant_id"] for item in participants if item["role"] == "root"),
    }
    assert {table.truth[nonce].owner for nonce, call in table.calls.items() if call["purpose"] == "review"} == {owner}
    assert table.capture.manifest["capture_status"] == "complete"


def test_a_killed_run_is_published_with_what_it_had(tmp_path: Path) -> None:
    """The child that was cut is pending, its last call is incomplete and still its own."""
    with Run("killed", tmp_path) as run:
        run.until_held()
        run.process.terminate()
        code, _ = run.finish()
    assert code == 128 + 15
    table = CodexTruth(run.capture())
    assert (table.wrong, table.unattributed) == ([], [])
    assert table.participants["child-k"] == ("child", "root", "interrupted")
    manifest = table.capture.manifest
    assert (manifest["execution_status"], manifest["lifecycle"]["status"]) == ("interrupted", "pending")
    assert table.capture.validation.returncode == 0, table.capture.validation.stderr


@_of(("single", "v1"))
def test_nothing_but_rollouts_is_kept(tables: Tables, scenario: str, generation: str) -> None:
    """Databases, credentials and configuration of the home stay there."""
    attempt = tables(scenario, generation).capture.attempt
    kept = {path.relative_to(attempt / "raw" / "native").parts[0] for path in (attempt / "raw" / "native").iterdir()}
    assert kept == {"sessions", "stdout.jsonl", "launcher.json"}
