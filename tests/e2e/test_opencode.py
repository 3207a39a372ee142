"""The real OpenCode through `collect`, beyond the shared acceptance: the other protocols, and shapes of its own.

Truth is the scripted provider's own record. The fifteen scenarios of the acceptance in the default protocol are judged
in test_acceptance.py; a run here serves all tests that look at it.
"""

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.opencode import PLAN
from roller_capture.scripted_provider.opencode_scenarios import OTHER_MODEL, SCENARIOS
from tests.support.collecting import until
from tests.support.harness_run import HarnessRun, check_attribution, read_json
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "1.18.33"
CHAT, MESSAGES, RESPONSES = "openai-chat-completions", "anthropic-messages", "openai-responses"


@dataclass(frozen=True)
class Run:
    """A scenario over a protocol: further members of the request, what it must give, and which calls are no agent's
    turn."""

    scenario: str
    expected: Expected
    protocol: str = CHAT
    options: Mapping[str, Any] = field(default_factory=dict)
    side_calls: Mapping[str, int] = field(default_factory=lambda: {"title": 1})


def _in_the_background(child: str, end: str | None = "child_completed") -> Delegation:
    return Delegation(child, background=True, end=end)


def _planned(scenario: str) -> Expected:
    return PLAN.cells[scenario].expected


BACKGROUND = {"profile": "background"}
CUT = {"call_incomplete": 1}
FAILED = {"child-f": "failed"}
TWO_IN_THE_BACKGROUND = Expected((_in_the_background("child-b1"), _in_the_background("child-b2")))
RUNS = {
    f"{run.scenario}-{run.protocol.partition('-')[2]}": run
    for run in (
        *(Run(name, _planned(name), protocol) for name in ("ordinary", "single") for protocol in (MESSAGES, RESPONSES)),
        *(Run("parallel", _planned("parallel"), protocol) for protocol in (MESSAGES, RESPONSES)),
        Run("tool-configs", _planned("tool-configs")),
        Run("compaction", _planned("compaction"), side_calls={"title": 1, "compaction": 1}),
        Run("own-project", Expected((Delegation("child-p"),))),
        Run(
            "depth-limit",
            Expected((Delegation("child-n"), Delegation("grand-g", parent="child-n", refused=True))),
        ),
        Run("retries", Expected()),
        Run("child-failure-500", Expected((Delegation("child-f", end="child_failed"),), ended=FAILED)),
        # With a title of the user's, the harness asks for none.
        Run("cut-stream", Expected(reasons=CUT), options={"harness_args": ("--title", "t")}, side_calls={}),
        Run("error-event", Expected()),
        Run("title-failure", Expected(), side_calls={"title": 3}),
        Run("background", _planned("background"), RESPONSES, BACKGROUND),
        Run(
            "background-failure",
            Expected((_in_the_background("child-f", "child_failed"),), ended=FAILED),
            options=BACKGROUND,
        ),
        Run("two-notifications", TWO_IN_THE_BACKGROUND, options=BACKGROUND),
        Run("two-notifications", TWO_IN_THE_BACKGROUND, MESSAGES, BACKGROUND),
        Run("background-refused", Expected((Delegation("child-bg", refused=True),))),
        Run(
            "background-cut",
            Expected(
                (_in_the_background("child-w", None),),
                ended={"child-w": "interrupted"},
                pending=frozenset({"child-w"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1, "errors": 1},
                errors=("drain_failed",),
            ),
            options={**BACKGROUND, "drain_timeout": 3.0},
        ),
        Run("killed", _planned("killed")),
    )
}
COMMAND = Run("subtask-command", Expected(), options={"harness_args": ("--command", "look")})
Tables = Callable[[Run], TruthTable]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Makes a run the first time it is asked for."""
    known: dict[int, TruthTable] = {}

    def table(run: Run) -> TruthTable:
        if id(run) not in known:
            known[id(run)] = _run(run, tmp_path_factory.mktemp(f"opencode-{run.scenario}"))
            e2e_table.append(_line(run, known[id(run)]))
        return known[id(run)]

    return table


def _run(run: Run, directory: Path) -> TruthTable:
    scenario = SCENARIOS[run.scenario]()
    with HarnessRun("opencode", VERSION, scenario, directory, protocol=run.protocol, **run.options) as started:
        if scenario.kill_when is not None:
            started.until_held()
            started.process.terminate()
        code, err = started.finish()
    assert code == (143 if scenario.kill_when is not None else 0), err
    return TruthTable(started.capture(), PLAN.delegation_tools)


def _line(run: Run, table: TruthTable) -> str:
    relations = Counter(relation["type"] for relation in table.capture.relations)
    return (
        f"opencode {VERSION} {run.scenario:<20} {run.protocol:<23} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"wrong {len(table.wrong)} unattributed {len(table.unattributed)} relations {relations.total():>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


def _check_marks(table: TruthTable, run: Run) -> None:
    """What only this harness has: the hook's ids for each call, and its own marks of side calls."""
    manifest = table.capture.manifest
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["strength"], coverage["status"], coverage["missing"]) == ("per_id", "complete", [])
    assert manifest["harness"] == {"name": "opencode", "version": VERSION, "tested": True}
    assert {call["protocol"] for call in table.calls.values()} == {run.protocol}
    purposes = Counter(call["purpose"] for call in table.calls.values())
    assert purposes == Counter(run.side_calls) + Counter(agent=len(table.calls) - sum(run.side_calls.values()))
    names = {name for record in table.capture.truth for name in record.headers}
    assert "x-session-id" in names
    assert not [name for name in names if name.startswith("x-roller-")]


def _of(*names: str) -> pytest.MarkDecorator:
    """A test of these runs, one at a time."""
    return pytest.mark.parametrize("name", names)


@_of(*RUNS)
def test_each_run_is_as_the_provider_knows_it(tables: Tables, name: str) -> None:
    """Judged as the shared acceptance does; each pointer leads to the result, or the message, that it names."""
    run = RUNS[name]
    table = tables(run)
    assert differences(table, run.expected) == []
    assert table.owned == table.true_owned
    assert {relation["parent_call_status"] for relation in table.capture.relations} <= {"resolved"}
    for relation, item in table.context_items:
        by_tool = relation["delivery"]["kind"] == "tool_result"
        assert (relation["tool_call_id"] if by_tool else '<task id=\\"ses_') in json.dumps(item)
    _check_marks(table, run)


@_of("retries-chat-completions", "child-failure-500-chat-completions")
def test_retries_share_the_message_id(tables: Tables, name: str) -> None:
    """The calls that failed and those that came after them belong to one native message."""
    asked = 6 if name.startswith("child") else 2
    calls = tables(RUNS[name]).calls.values()
    ids = Counter(call["native_identity"]["message_id"] for call in calls if call["purpose"] == "agent")
    assert max(ids.values()) == asked
    assert sum(count > 1 for count in ids.values()) == 1


@_of("tool-configs-chat-completions")
def test_each_child_keeps_its_own_model_and_tools(tables: Tables, name: str) -> None:
    """By the project's configuration, which the launcher leaves alone."""
    table = tables(RUNS[name])
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


@_of("own-project-chat-completions")
def test_a_project_brings_agents_and_does_not_lead_around_the_proxy(tables: Tables, name: str) -> None:
    """Its agent has its own prompt; another base URL of its own is not used."""
    table = tables(RUNS[name])
    systems = {
        str(table.truth[nonce].owner): json.dumps(call["context"]["messages"][0])
        for nonce, call in table.calls.items()
        if call["purpose"] == "agent"
    }
    assert "REVIEWER-SYSTEM" in systems["child-p"]
    assert "REVIEWER-SYSTEM" not in systems["root"]


def test_a_subtask_command_is_a_child_that_no_model_asked_for(tables: Tables) -> None:
    """Its launch has a tool id of the harness's own, so that no call made it, which is said."""
    table = check_attribution(tables(COMMAND))
    assert table.participants == {"root": ("root", None, "completed"), "child-s": ("child", "root", "completed")}
    [spawn] = [relation for relation in table.capture.relations if relation["type"] == "spawn"]
    assert (spawn["parent_call_id"], spawn["parent_call_status"]) == (None, "unknown")
    assert table.capture.manifest["capture_status"] == "complete"
    assert table.exportable == table.truly_exportable
    coverage = table.capture.manifest["capabilities"]["native_output_coverage"]
    assert coverage["protocol_count"]["expected"] == coverage["expected"] + 1
    _check_marks(table, COMMAND)


@_of("depth-limit-chat-completions", "background-refused-chat-completions")
def test_a_refused_delegation_is_kept_as_it_was(tables: Tables, name: str) -> None:
    """The model is told why; no participant stands for the child that never was."""
    error = "depth limit" if name.startswith("depth") else "background"
    table = tables(RUNS[name])
    [tool_id] = {tool for _, tool in table.delegations} - {item["tool_call_id"] for item in table.capture.relations}
    told = [
        message["content"]
        for call in table.calls.values()
        for message in call["context"]["messages"]
        if message.get("tool_call_id") == tool_id
    ]
    assert told
    assert all(error in text.lower() for text in told)


@pytest.mark.parametrize(
    ("profile", "prompts"),
    [
        (
            None,
            ("a  b 42", ' 007 "quoted words" -x --flag', "\ntwo\nlines 'and' \\ more ", "-5", "/help 1e5 é \U0001f600"),
        ),
        ("background", ("12345", "- first 1  @file")),
    ],
)
def test_the_prompt_reaches_the_model_as_it_was_given(
    profile: str | None, prompts: tuple[str, ...], tmp_path: Path
) -> None:
    """Blanks, quotes, dashes, numbers and other marks are not touched, with and without a server."""
    with HarnessRun("opencode", VERSION, SCENARIOS["ordinary"](), tmp_path, *prompts, profile=profile) as run:
        code, err = run.finish()
    assert code == 0, err
    asked = [call["context"]["messages"][-1]["content"] for call in run.capture().calls]
    assert [text for text in asked if text in prompts] == list(prompts)


def test_the_server_answers_nobody_without_its_password(tmp_path: Path) -> None:
    """Other users of the machine reach loopback too; the turns that are attached know it."""
    with HarnessRun("opencode", VERSION, SCENARIOS["ordinary"](), tmp_path, profile="background") as run:
        until(lambda: any(_server_address(run)), run.process)
        [address] = _server_address(run)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{address}/session")
        code, err = run.finish()
    assert refused.value.code == 401
    assert code == 0, err
    assert differences(TruthTable(run.capture(), PLAN.delegation_tools), Expected()) == []


def _server_address(run: HarnessRun) -> list[str]:
    """What stands in the private home of the attempt, once it is there.

    The books name the attempt before its private folder is made, and the folder before the server writes.
    """
    try:
        [attempt] = read_json(run.attempt.parents[1] / "sample.json")["attempts"]
        return [(Path(attempt["private_folder"]) / "home" / "roller-server-address").read_text()]
    except (KeyError, OSError, TypeError, ValueError):
        return []
