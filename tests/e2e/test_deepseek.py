"""The real DeepSeek Harness through `collect`, in every profile and protocol, held against the provider's own record.

One run per scenario serves all tests of it. `sdk-minimal` has no delegation tool; what delegates runs with `sdk`.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider.deepseek_scenarios import ARGUMENTS, PROFILES, SCENARIOS
from roller_capture.vocabulary import Protocol
from tests.support.capture import roller_capture
from tests.support.harness_run import HarnessRun, check_attribution
from tests.support.truth_table import Relation, TruthTable

pytestmark = pytest.mark.e2e

VERSION = "0.2.1rc2"
MORE_PROMPTS = {"cross-process-resume": ("And once more.",), "fork": ("Now delegate, please.",)}
Told = Counter[Relation]
_SESSION = "x-deepseek-harness-session-id"


class DeepSeekTruth(TruthTable):
    """A run of DeepSeek Harness beside the provider's record."""

    delegation_tools = ("subagent", "subagent_fork", "workflow")


@dataclass(frozen=True)
class Delegated:
    """What one delegating tool call must give: its children, of which a workflow can have several, and their end.

    It is number `part` of the `parts` delegations of its child. `end` is `None` where nothing was delivered.
    """

    children: tuple[str, ...]
    parent: str = "root"
    end: str | None = "child_completed"
    part: int = 1
    parts: int = 1
    is_waited_for: bool = False


@dataclass(frozen=True)
class Expected:
    """What a scenario must give beyond the provider's record; `delegations` in the order in which they were asked for.

    `side_calls` are the purposes of calls that are no agent's turn. `tools` are those that delegated.
    """

    delegations: tuple[Delegated, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = field(default_factory=dict)
    side_calls: Mapping[str, int] = field(default_factory=dict)
    execution: str = "completed"
    drain_timeout: float = 60.0
    tools: tuple[str, ...] = DeepSeekTruth.delegation_tools


def _one(child: str, **more: Any) -> Delegated:
    return Delegated((child,), **more)


_CUT = {"call_incomplete": 1}
EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(),
    "cross-process-resume": Expected(),
    "cut-stream": Expected(reasons=_CUT),
    "retries": Expected(),
    "refused": Expected(ended={"root": "failed"}, execution="failed"),
    "compaction": Expected(side_calls={"compaction": 1}),
    "title": Expected(side_calls={"title": 1}),
    "single": Expected((_one("child-a"),)),
    "background": Expected((_one("child-bg"),)),
    "parallel": Expected((_one("child-a"), _one("child-b"))),
    "identical-prompts": Expected((_one("child-1"), _one("child-2"))),
    "file-sharing": Expected((_one("writer"), _one("reader"))),
    "tool-error": Expected((_one("child-e"),)),
    "tool-configs": Expected((Delegated(("same-model", "other-model"), is_waited_for=True),)),
    "workflow": Expected((Delegated(("child-p1", "child-p2"), is_waited_for=True),)),
    "two-workflows": Expected((_one("child-w1", is_waited_for=True), _one("child-w2", is_waited_for=True))),
    # The harness itself refuses what is deeper than one level, and nobody is delegated to.
    "nested": Expected((_one("child-n"), Delegated((), parent="child-n"))),
    "nested-allowed": Expected((_one("child-n"), _one("grand-g", parent="child-n"))),
    "child-failure": Expected((_one("child-f", end="child_failed"),), ended={"child-f": "failed"}),
    "cut-child": Expected((_one("child-c"),), reasons=_CUT),
    "fork": Expected((_one("child-fork"),)),
    "messages": Expected((_one("child-s"),)),
    "resumed-child": Expected(
        (_one("child-re", parts=2), _one("child-re", part=2, parts=2)),
        tools=(*DeepSeekTruth.delegation_tools, "send_message"),
    ),
    "stopped-child": Expected((_one("child-x", end=None),), ended={"child-x": "interrupted"}),
    "wait-ceiling": Expected(
        (_one("child-w", end=None),),
        ended={"child-w": "interrupted"},
        pending=frozenset({"child-w"}),
        reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        drain_timeout=2.0,
    ),
}
Tables = Callable[[str], TruthTable]
each_run = pytest.mark.parametrize("scenario", list(EXPECTED))


def _collect(scenario: str, directory: Path, **options: Any) -> HarnessRun:
    given = {"profile": PROFILES.get(scenario), "harness_args": ARGUMENTS.get(scenario, ()), **options}
    return HarnessRun("deepseek", VERSION, SCENARIOS[scenario](), directory, *MORE_PROMPTS.get(scenario, ()), **given)


def _line(scenario: str, table: TruthTable) -> str:
    return (
        f"{VERSION} collect {scenario:<22} calls {len(table.calls):>2}/{len(table.truth):<2} wrong {len(table.wrong)} "
        f"unattributed {len(table.unattributed)} relations {len(table.capture.relations):>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario the first time it is asked for."""
    known: dict[str, TruthTable] = {}

    def table(scenario: str) -> TruthTable:
        if scenario not in known:
            expected = EXPECTED[scenario]
            directory = tmp_path_factory.mktemp(scenario)
            with _collect(scenario, directory, drain_timeout=expected.drain_timeout) as run:
                code, err = run.finish()
            assert code == 0, err
            known[scenario] = DeepSeekTruth(run.capture())
            e2e_table.append(_line(scenario, known[scenario]))
        return known[scenario]

    return table


def _true_relations(table: TruthTable, expected: Expected) -> Told:
    """The relations of the given delegations, with the calls that the provider saw hold their results."""
    found: Told = Counter()
    calls = [
        (record, tool_id)
        for record in table.capture.truth
        for name, tool_id in (record.tools if record.answered_whole else ())
        if name in expected.tools
    ]
    for (record, tool_id), delegated in zip(calls, expected.delegations, strict=True):
        assert record.owner == delegated.parent
        holders = [later.nonce for later in table.capture.truth if tool_id in later.results_seen]
        for given in delegated.children:
            # Of two with the same prompt, the first to ask need not be the one of the first tool call.
            child = _acknowledged(table, tool_id) or given
            assert child in {name for item in expected.delegations for name in item.children}
            pairs: list[tuple[str, str | None]] = [("spawn", None)]
            if not delegated.is_waited_for:
                pairs.append(("launch_acknowledged", None))
                pairs += [("launch_ack_in_context", nonce) for nonce in holders]
            if delegated.end is not None:
                told = holders if delegated.is_waited_for else _told(table, child, delegated)
                pairs += [("result_delivered", None), (delegated.end, None)]
                pairs += [("result_in_context", nonce) for nonce in told]
            for kind, context_call in pairs:
                found[Relation(kind, delegated.parent, child, tool_id, record.nonce, context_call)] += 1
    return found


def _acknowledged(table: TruthTable, tool_id: str) -> str | None:
    """The owner of the session that the harness said, in a request, to have started for that tool call."""
    for record in table.capture.truth:
        for message in table.calls[record.nonce]["context"].get("messages", ()):
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("tool_use_id") == tool_id and "started subagent " in str(block["content"]):
                    sessions = {str(other.headers.get(_SESSION)): other.owner for other in table.capture.truth}
                    return next(sessions[one] for one in sessions if f"started subagent {one}" in str(block["content"]))
    return None


def _told(table: TruthTable, child: str, delegated: Delegated) -> list[str]:
    """Requests of the parent that carry, outside of any tool result, the answer with which a delegation ended."""
    answers = [record for record in table.capture.truth if record.owner == child and record.answered_whole]
    closing = [record for record in answers if not record.tools]
    last = closing[delegated.part - 1] if delegated.parts > 1 else answers[-1]
    return [
        record.nonce
        for record in table.capture.truth
        if record.owner == delegated.parent and last.nonce in _said_to(table.calls[record.nonce]["context"])
    ]


def _said_to(context: dict[str, Any]) -> str:
    """What the conversation of a request says outside of tool results. The harness's own log, which the request also
    carries, is no part of it: it tells of notices that have come in and were not read."""
    said: list[Any] = []
    for message in context.get("messages", context.get("input", ())):
        content = message.get("content")
        if message.get("role") != "tool" and isinstance(content, list):
            said += [block for block in content if block["type"] != "tool_result"]
        elif message.get("role") == "user":
            said.append(content)
    return json.dumps(said)


@each_run
def test_every_call_has_its_owner(tables: Tables, scenario: str) -> None:
    """One call per request, none wrong, none unattributed, and every participant with its role, parent and end."""
    table, expected = tables(scenario), EXPECTED[scenario]
    check_attribution(table)
    assert table.owned == table.true_owned
    parents = {child: item.parent for item in expected.delegations for child in item.children}
    everyone: dict[str, tuple[str, str | None]] = {"root": ("root", None)}
    everyone |= {child: ("child", parent) for child, parent in parents.items()}
    assert table.participants == {
        owner: (role, parent, expected.ended.get(owner, "completed")) for owner, (role, parent) in everyone.items()
    }


@each_run
def test_relations_are_the_true_ones(tables: Tables, scenario: str) -> None:
    """Those of each delegation, with the calls that made it and that hold its result; no other."""
    table = tables(scenario)
    assert table.relations == _true_relations(table, EXPECTED[scenario])


@each_run
def test_context_pointers_name_the_result(tables: Tables, scenario: str) -> None:
    """The pointer leads to the tool result of that tool call, or to a text of the child's notice."""
    table = tables(scenario)
    ids = {item["participant_id"]: item["native_ids"]["session_id"] for item in table.capture.manifest["participants"]}
    for relation, item in table.context_items:
        if relation["delivery"]["kind"] == "tool_result":
            assert (item["type"], item["tool_use_id"]) == ("tool_result", relation["tool_call_id"])
        else:
            [child] = ids[relation["child_participant_id"]]
            position = relation["context_pointer"].rpartition("/")[0]
            message = table.by_id[relation["context_call_id"]]["context"]["messages"][int(position.split("/")[2])]
            assert item in message["content"]
            assert child in str(message["content"])


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, scenario: str) -> None:
    """Lifecycle with the pending children, what the profile can do, the reasons for a partial capture and no other."""
    table, expected = tables(scenario), EXPECTED[scenario]
    manifest = table.capture.manifest
    pending = frozenset(table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"])
    is_minimal = scenario not in PROFILES
    status = "unsupported" if is_minimal else "pending" if expected.pending else "complete"
    assert (manifest["lifecycle"]["status"], pending) == (status, expected.pending)
    support = "not_available_in_bundled_profile" if is_minimal else "supported"
    assert manifest["capabilities"]["subtasks"] == support
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert (manifest["errors"], manifest["execution_status"]) == ([], expected.execution)
    assert manifest["harness"] == {"name": "deepseek", "version": VERSION, "tested": True}


@each_run
def test_completed_assistants_are_covered(tables: Tables, scenario: str) -> None:
    """The session logs hold as many completed assistants as the provider gave whole answers to agents."""
    table = tables(scenario)
    coverage = table.capture.manifest["capabilities"]["native_output_coverage"]
    assert (coverage["strength"], coverage["status"], coverage["surplus_calls"]) == ("count", "complete", 0)
    side_calls = sum(EXPECTED[scenario].side_calls.values())
    whole = sum(record.answered_whole for record in table.capture.truth)
    assert (coverage["expected"], coverage["protocol_count"]["expected"]) == (whole, whole - side_calls)


@each_run
def test_exportable_are_the_answers_that_ended_well(tables: Tables, scenario: str) -> None:
    """Completed calls and no others; all but the harness's own side calls are an agent's."""
    table, expected = tables(scenario), EXPECTED[scenario]
    assert table.exportable == table.truly_exportable
    purposes = Counter(call["purpose"] for call in table.calls.values())
    assert purposes["agent"] == len(table.calls) - sum(expected.side_calls.values())
    assert purposes["title"] == expected.side_calls.get("title", 0)


def test_a_resumed_child_is_judged_by_each_delegation(tables: Tables) -> None:
    """The first ends by the tool call that launched it, the second by the message that set it to work again."""
    table = tables("resumed-child")
    tools = {record.tools[0][1]: record.tools[0][0] for record in table.capture.truth if record.tools}
    ended = {
        relation["delegation"]: tools[relation["tool_call_id"]]
        for relation in table.capture.relations
        if relation["type"] == "child_completed"
    }
    assert ended == {1: "subagent", 2: "send_message"}


def test_children_of_one_workflow_are_told_apart(tables: Tables) -> None:
    """By their place in the workflow, and each keeps the model that it was given."""
    table = tables("tool-configs")
    places = {
        table.owners[relation["child_participant_id"]]: relation["task_index"]
        for relation in table.capture.relations
        if relation["type"] == "spawn"
    }
    assert places == {"same-model": 0, "other-model": 1}
    models: dict[str, set[str]] = {}
    for nonce, call in table.calls.items():
        models.setdefault(str(table.truth[nonce].owner), set()).add(call["model"]["requested"])
    assert models == {"root": {"scripted-model"}, "same-model": {"scripted-model"}, "other-model": {"other-model"}}


@pytest.mark.parametrize("scenario", ["ordinary", "single", "parallel"])
def test_the_command_line_profile(scenario: str, tmp_path: Path, e2e_table: list[str]) -> None:
    """`headless` waits for its subagents by itself; each new session has a title made up, which is no agent's turn."""
    with _collect(scenario, tmp_path, profile="headless") as run:
        code, err = run.finish()
    assert code == 0, err
    table = check_attribution(DeepSeekTruth(run.capture()))
    assert table.relations == _true_relations(table, EXPECTED[scenario])
    assert Counter(call["purpose"] for call in table.calls.values())["title"] == 1
    assert table.capture.manifest["capture_status"] == "complete"
    e2e_table.append(_line(f"{scenario} (headless)", table))


@pytest.mark.parametrize("protocol", [Protocol.OPENAI_RESPONSES, Protocol.OPENAI_CHAT_COMPLETIONS])
@pytest.mark.parametrize("scenario", ["ordinary", "single", "parallel"])
def test_the_other_protocols(scenario: str, protocol: Protocol, tmp_path: Path, e2e_table: list[str]) -> None:
    """The session logs hold the provider's response ids: everything is attributed, tied and covered by them."""
    with _collect(scenario, tmp_path, profile="sdk", protocol=protocol) as run:
        code, err = run.finish()
    assert code == 0, err
    table = DeepSeekTruth(run.capture())
    assert (table.wrong, table.unattributed) == ([], [])
    assert table.owned == table.true_owned
    by_call_id = Counter(
        relation._replace(tool_call_id=relation.tool_call_id.partition("|")[0])
        for relation in table.relations.elements()
    )
    assert by_call_id == _true_relations(table, EXPECTED[scenario])
    manifest = table.capture.manifest
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["key"], coverage["strength"], coverage["status"]) == ("response_id", "per_id", "complete")
    assert (manifest["capture_status"], manifest["errors"]) == ("complete", [])
    assert {call["protocol"] for call in table.calls.values()} == {protocol}
    e2e_table.append(_line(f"{scenario} ({protocol})", table))


@pytest.mark.parametrize(
    ("protocol", "unattributed"), [(Protocol.OPENAI_RESPONSES, 0), (Protocol.OPENAI_CHAT_COMPLETIONS, 1)]
)
def test_a_cut_answer_in_the_other_protocols(protocol: Protocol, unattributed: int, tmp_path: Path) -> None:
    """It leaves no response id in the log. Responses requests name the session all the same, Chat Completions' do not,
    and then the call belongs to nobody."""
    with _collect("cut-stream", tmp_path, profile="sdk", protocol=protocol) as run:
        code, err = run.finish()
    assert code == 0, err
    table = check_attribution(DeepSeekTruth(run.capture()), unattributed=unattributed)
    cut = [record.nonce for record in table.capture.truth if not record.answered_whole]
    assert table.unattributed == cut[:unattributed]


def _driver(run: HarnessRun) -> int:
    """The process that runs the turn."""
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if entry.name.isdigit() and "deepseek_driver" in text and run.prompt in text:
            return int(entry.name)
    raise AssertionError("the driver is not running")


def _kill_harness(run: HarnessRun) -> None:
    os.kill(_driver(run), signal.SIGKILL)


def _kill_collect(run: HarnessRun) -> None:
    run.process.kill()


def _interrupt(run: HarnessRun) -> None:
    run.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("scenario", "end", "exit_code"),
    [
        ("killed", _kill_harness, 0),
        ("killed", _kill_collect, -signal.SIGKILL),
        ("killed", _interrupt, 128 + signal.SIGINT),
        ("killed-root", _kill_harness, 0),
    ],
    ids=["kill-harness", "kill-collect", "interrupt", "kill-in-the-root"],
)
def test_a_run_that_was_ended_in_the_middle(
    scenario: str, end: Callable[[HarnessRun], None], exit_code: int, tmp_path: Path, e2e_table: list[str]
) -> None:
    """While an answer is held: all calls are attributed, and only the open one is cut."""
    with _collect(scenario, tmp_path) as run:
        run.until_held()
        end(run)
        code, err = run.finish()
    assert code == exit_code, err
    if code < 0:
        finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full")
        assert finalized.returncode == 0, finalized.stderr
    table = check_attribution(DeepSeekTruth(run.capture()))
    manifest = table.capture.manifest
    assert (manifest["execution_status"], manifest["capture_status"]) == ("interrupted", "partial")
    cut = [nonce for nonce, call in table.calls.items() if call["execution_status"] == "interrupted"]
    assert cut == [record.nonce for record in table.capture.truth if not record.answered_whole]
    assert len(cut) == 1
    if scenario == "killed":
        assert table.participants["child-k"][2] == "interrupted"
        assert manifest["lifecycle"]["status"] == "pending"
    e2e_table.append(_line(f"{scenario} ({end.__name__.strip('_')})", table))
