"""The real OpenCode through `collect`, in every shape of the shared acceptance that it can do, and some of its own.

Truth is the scripted provider's own record. One run per scenario and protocol serves all tests of that pair.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider.opencode_scenarios import OTHER_MODEL, SCENARIOS
from tests.support.harness_run import HarnessRun, check_attribution
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "1.18.33"
CHAT, MESSAGES, RESPONSES = "openai-chat-completions", "anthropic-messages", "openai-responses"


class OpenCodeTruth(TruthTable):
    """OpenCode delegates with one tool, also where it resumes a child."""

    delegation_tools = ("task",)


@dataclass(frozen=True)
class Expected:
    """What a scenario must give, beyond what the provider's record tells.

    `ended` names the participants that did not end well, `refused` the number of delegations that gave no child,
    `reasons` those of a partial capture, `purposes` the calls that are no agent's turn beside the one title.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    more_prompts: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    background: str | None = None
    refused: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    purposes: Mapping[str, int] = field(default_factory=dict)
    truth_tells: bool = True
    """Whether the provider's record tells all relations."""


BACKGROUND = {"profile": "background"}
EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(),
    "single": Expected(),
    "parallel": Expected(),
    "identical-prompts": Expected(),
    "file-sharing": Expected(),
    "tool-error": Expected(),
    "tool-configs": Expected(),
    "nested": Expected({"profile": "nested"}),
    "depth-limit": Expected(refused=1, truth_tells=False),
    "child-failure": Expected(ended={"child-f": "failed"}, truth_tells=False),
    "resumed-child": Expected(),
    "compaction": Expected(purposes={"compaction": 1}),
    "cross-process-resume": Expected(more_prompts=("Go on, please.",)),
    "cut-stream": Expected(reasons={"call_incomplete": 1}),
    "cut-child": Expected(reasons={"call_incomplete": 1}),
    "retries": Expected(),
    "subtask-command": Expected({"harness_args": ("--command", "look")}, truth_tells=False),
    "background": Expected(BACKGROUND, background="child-bg"),
    "background-failure": Expected(BACKGROUND, ended={"child-f": "failed"}, truth_tells=False),
    "two-notifications": Expected(BACKGROUND, truth_tells=False),
    "background-refused": Expected(refused=1, truth_tells=False),
    "background-cut": Expected(
        {**BACKGROUND, "drain_timeout": 3.0},
        ended={"child-w": "interrupted"},
        reasons={"call_incomplete": 1, "lifecycle_pending": 1, "errors": 1},
        pending=frozenset({"child-w"}),
        truth_tells=False,
    ),
    "killed": Expected(
        ended={"root": "interrupted", "child-k": "interrupted"},
        reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        pending=frozenset({"child-k"}),
        truth_tells=False,
    ),
}
RUNS = [(name, CHAT) for name in EXPECTED]
RUNS += [(name, protocol) for protocol in (MESSAGES, RESPONSES) for name in ("ordinary", "single", "parallel")]
RUNS += [("two-notifications", MESSAGES), ("background", RESPONSES)]
Tables = Callable[[str, str], OpenCodeTruth]
each_run = pytest.mark.parametrize(("scenario", "protocol"), RUNS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario over a protocol the first time it is asked for."""
    known: dict[tuple[str, str], OpenCodeTruth] = {}

    def table(scenario: str, protocol: str) -> OpenCodeTruth:
        if (scenario, protocol) not in known:
            known[scenario, protocol] = _run(scenario, protocol, tmp_path_factory.mktemp(f"opencode-{scenario}"))
            e2e_table.append(_line(scenario, protocol, known[scenario, protocol]))
        return known[scenario, protocol]

    return table


def _run(scenario: str, protocol: str, directory: Path) -> OpenCodeTruth:
    expected = EXPECTED[scenario]
    options = {**expected.options, "protocol": protocol}
    with HarnessRun("opencode", VERSION, SCENARIOS[scenario](), directory, *expected.more_prompts, **options) as run:
        if run.scenario.kill_when is not None:
            run.until_held()
            run.process.terminate()
        code, err = run.finish()
    assert code == (143 if run.scenario.kill_when is not None else 0), err
    return OpenCodeTruth(run.capture())


def _line(scenario: str, protocol: str, table: OpenCodeTruth) -> str:
    relations = Counter(relation["type"] for relation in table.capture.relations)
    return (
        f"opencode {VERSION} {scenario:<20} {protocol:<23} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"wrong {len(table.wrong)} unattributed {len(table.unattributed)} relations {relations.total():>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@each_run
def test_every_call_has_its_owner(tables: Tables, scenario: str, protocol: str) -> None:
    """One call per request, none wrong, none unattributed, and every participant with its end."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    check_attribution(table)
    assert table.owned == table.true_owned
    statuses = {owner: status for owner, (_, _, status) in table.participants.items()}
    assert statuses == {owner: expected.ended.get(owner, "completed") for owner in table.true_owned}
    assert {call["protocol"] for call in table.calls.values()} == {protocol}


@each_run
def test_relations_are_the_true_ones(tables: Tables, scenario: str, protocol: str) -> None:
    """Those of each delegation, with the calls that made it and that hold its result; none of one that was refused."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    if expected.truth_tells:
        assert table.relations == table.true_relations(frozenset(expected.ended), expected.background)
    spawned = [relation["tool_call_id"] for relation in table.capture.relations if relation["type"] == "spawn"]
    assert len(spawned) == len(set(spawned))
    if scenario != "subtask-command":
        delegated = {tool_id for _, tool_id in table.delegations}
        assert set(spawned) <= delegated
        assert len(spawned) == len(delegated) - expected.refused
        assert {relation["parent_call_status"] for relation in table.capture.relations} <= {"resolved"}


@each_run
def test_context_pointers_name_the_result(tables: Tables, scenario: str, protocol: str) -> None:
    """The pointer leads to the tool result, or the automatic message, of that delegation in that call's request."""
    for relation, item in tables(scenario, protocol).context_items:
        if relation["delivery"]["kind"] == "tool_result":
            assert relation["tool_call_id"] in json.dumps(item)
        else:
            assert '<task id=\\"ses_' in json.dumps(item)


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, scenario: str, protocol: str) -> None:
    """The reasons for a partial capture and no other, the pending children, and coverage by message id."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    manifest = table.capture.manifest
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert manifest["capture_status"] == ("partial" if expected.reasons else "complete")
    assert {table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]} == expected.pending
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["strength"], coverage["status"], coverage["missing"]) == ("per_id", "complete", [])
    assert manifest["harness"] == {"name": "opencode", "version": VERSION, "tested": True}


@each_run
def test_purposes_and_exportable_calls(tables: Tables, scenario: str, protocol: str) -> None:
    """One title for the root, the listed side calls, else an agent's turns; exportable is what ended well."""
    table, expected = tables(scenario, protocol), EXPECTED[scenario]
    purposes = Counter(call["purpose"] for call in table.calls.values())
    others = {"title": 1, **expected.purposes}
    assert purposes == {**others, "agent": len(table.calls) - sum(others.values())}
    assert table.exportable == table.truly_exportable


def test_the_hook_s_headers_go_no_further_than_the_proxy(tables: Tables) -> None:
    """The provider sees the harness's own headers, and none of ours."""
    names = {name for record in tables("single", CHAT).capture.truth for name in record.headers}
    assert "x-session-id" in names
    assert not [name for name in names if name.startswith("x-roller-")]


def test_retries_share_the_message_id(tables: Tables) -> None:
    """The call that failed and the one that came after it belong to one native message."""
    table = tables("retries", CHAT)
    ids = [call["native_identity"]["message_id"] for call in table.calls.values() if call["purpose"] == "agent"]
    assert (len(ids), len(set(ids))) == (3, 2)


def test_each_child_keeps_its_own_model_and_tools(tables: Tables) -> None:
    """By the project's configuration, which the launcher leaves alone."""
    table = tables("tool-configs", CHAT)
    models: dict[str, set[str]] = {}
    tools: dict[str, set[str]] = {}
    for nonce, call in table.calls.items():
        if call["purpose"] == "agent":
            owner = str(table.truth[nonce].owner)
            models.setdefault(owner, set()).add(call["model"]["requested"])
            tools.setdefault(owner, set()).update(tool["function"]["name"] for tool in call["context"]["tools"])
    assert models == {"root": {"scripted-model"}, "reader": {"scripted-model"}, "other-model": {OTHER_MODEL}}
    assert "task" in tools["root"]
    assert "task" not in tools["reader"]
    assert "edit" in tools["root"]
    assert "edit" not in tools["reader"]


def test_a_subtask_command_is_a_child_that_no_model_asked_for(tables: Tables) -> None:
    """Its launch has a tool id of the harness's own, so that no call made it, which is said."""
    table = tables("subtask-command", CHAT)
    [spawn] = [relation for relation in table.capture.relations if relation["type"] == "spawn"]
    assert (spawn["parent_call_id"], spawn["parent_call_status"]) == (None, "unknown")
    coverage = table.capture.manifest["capabilities"]["native_output_coverage"]
    assert coverage["protocol_count"]["expected"] == coverage["expected"] + 1


@pytest.mark.parametrize(("scenario", "error"), [("depth-limit", "depth limit"), ("background-refused", "background")])
def test_a_refused_delegation_is_kept_as_it_was(tables: Tables, scenario: str, error: str) -> None:
    """The model is told why; no participant stands for the child that never was."""
    table = tables(scenario, CHAT)
    [tool_id] = {tool for _, tool in table.delegations} - {item["tool_call_id"] for item in table.capture.relations}
    told = [
        message["content"]
        for call in table.calls.values()
        for message in call["context"]["messages"]
        if message.get("tool_call_id") == tool_id
    ]
    assert told
    assert all(error in text.lower() for text in told)


@pytest.mark.parametrize("prompt", ["a  b", ' 007 "quoted words" -x --flag', "two\nlines 'and' \\ more "])
def test_the_prompt_reaches_the_model_as_it_was_given(tmp_path: Path, prompt: str) -> None:
    """Blanks, quotes, dashes and numbers are not touched."""
    with HarnessRun("opencode", VERSION, SCENARIOS["ordinary"](), tmp_path, prompt) as run:
        run.finish()
    last = max(run.capture().calls, key=lambda call: call["sequence"])
    assert last["context"]["messages"][-1]["content"] == prompt
