"""The real DeepSeek Harness through `collect`, held against the provider's own record.

The shared acceptance has the fifteen scenarios, with profile `sdk` in the harness's own protocol. Here are the other
profiles and protocols, further scenarios, and what is this harness's own. One run serves all tests of it.
"""

import dataclasses
import os
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.deepseek import PLAN
from roller_capture.scripted_provider.deepseek_scenarios import ARGUMENTS, SCENARIOS
from roller_capture.vocabulary import Protocol
from tests.support.capture import roller_capture
from tests.support.harness_run import HarnessRun, check_attribution
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "0.2.1rc2"
MINIMAL = "sdk-minimal"
MINIMAL_LIFECYCLE = "unsupported"


@dataclass(frozen=True)
class Run:
    """One run and what it must give. `side_calls` are the purposes of calls that are no agent's turn."""

    scenario: str
    expected: Expected
    profile: str = "sdk"
    more_prompts: tuple[str, ...] = ()
    side_calls: Mapping[str, int] = field(default_factory=dict)
    drain_timeout: float = 60.0


def _one(child: str, end: str | None = "child_completed") -> Delegation:
    return Delegation(child, background=True, end=end)


def _minimal(scenario: str, *more_prompts: str, side_calls: Mapping[str, int] | None = None, **expected: Any) -> Run:
    """A run with the default profile, which cannot delegate."""
    return Run(scenario, Expected(lifecycle=MINIMAL_LIFECYCLE, **expected), MINIMAL, more_prompts, side_calls or {})


def _headless(scenario: str, *delegations: Delegation) -> Run:
    """A run of the command itself, which has a title made up for each new session."""
    return Run(scenario, Expected(delegations), "headless", side_calls={"title": 1})


RUNS: Mapping[str, Run] = {
    "ordinary": _minimal("ordinary"),
    "cross-process-resume": _minimal("cross-process-resume", "And once more."),
    "cut-stream": _minimal("cut-stream", reasons={"call_incomplete": 1}),
    "retries": _minimal("retries"),
    "refused": _minimal("refused", ended={"root": "failed"}, execution="failed"),
    "compaction": _minimal("compaction", side_calls={"compaction": 1}),
    "title": _headless("title"),
    "single-headless": _headless("single", _one("child-a")),
    "parallel-headless": _headless("parallel", _one("child-a"), _one("child-b")),
    "resumed-headless": _headless("resumed-child", _one("child-re"), _one("child-re")),
    # The harness itself refuses what is deeper than one level, and nobody is delegated to.
    "nested": Run("nested", Expected((_one("child-n"), Delegation("", parent="child-n", refused=True)))),
    "workflow": Run("workflow", Expected((Delegation("child-p1"), Delegation("child-p2", same_call=True)))),
    "two-workflows": Run("two-workflows", Expected((Delegation("child-w1"), Delegation("child-w2")))),
    "fork": Run("fork", Expected((_one("child-fork"),)), more_prompts=("Now delegate, please.",)),
    # A child's message to its parent delegates nothing.
    "messages": Run("messages", Expected((_one("child-s"), Delegation("", parent="child-s", refused=True)))),
    "stopped-child": Run("stopped-child", Expected((_one("child-x", None),), ended={"child-x": "interrupted"})),
    # What a stopped child is sent afterwards is no part of what the stop has settled.
    "stopped-again": Run(
        "stopped-again",
        Expected(
            (_one("child-x", None), _one("child-x", None)),
            ended={"child-x": "interrupted"},
            pending=frozenset({"child-x"}),
            reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        ),
        drain_timeout=2.0,
    ),
    "wait-ceiling": Run(
        "wait-ceiling",
        Expected(
            (_one("child-w", None),),
            ended={"child-w": "interrupted"},
            pending=frozenset({"child-w"}),
            reasons={"call_incomplete": 1, "lifecycle_pending": 1},
        ),
        drain_timeout=2.0,
    ),
}
Tables = Callable[[str], TruthTable]
each_run = pytest.mark.parametrize("name", list(RUNS))


def _collect(scenario: str, directory: Path, *more_prompts: str, **options: Any) -> HarnessRun:
    given = {"harness_args": ARGUMENTS.get(scenario, ()), **options}
    return HarnessRun("deepseek", VERSION, SCENARIOS[scenario](), directory, *more_prompts, **given)


def _table(run: HarnessRun) -> TruthTable:
    return TruthTable(run.capture(), PLAN.delegation_tools, PLAN.plain_tool_id)


def _finished(run: HarnessRun) -> TruthTable:
    with run:
        code, err = run.finish()
    assert code == 0, err
    return _table(run)


def _line(name: str, table: TruthTable) -> str:
    return (
        f"{VERSION} collect {name:<34} calls {len(table.calls):>2}/{len(table.truth):<2} wrong {len(table.wrong)} "
        f"unattributed {len(table.unattributed)} relations {len(table.capture.relations):>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


def _coverage(table: TruthTable) -> dict[str, Any]:
    coverage: dict[str, Any] = table.capture.manifest["capabilities"]["native_output_coverage"]
    return coverage


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Makes a run the first time it is asked for."""
    known: dict[str, TruthTable] = {}

    def table(name: str) -> TruthTable:
        if name not in known:
            run = RUNS[name]
            options = {"profile": run.profile, "drain_timeout": run.drain_timeout}
            known[name] = _finished(_collect(run.scenario, tmp_path_factory.mktemp(name), *run.more_prompts, **options))
            e2e_table.append(_line(name, known[name]))
        return known[name]

    return table


@each_run
def test_the_capture_is_what_the_provider_knows(tables: Tables, name: str) -> None:
    """Calls and owners, participants, relations, lifecycle, what is missing, what is exportable; and it validates."""
    assert differences(tables(name), RUNS[name].expected) == []


@each_run
def test_context_pointers_name_the_result(tables: Tables, name: str) -> None:
    """The pointer leads to the tool result of that tool call, or to a text of the child's notice."""
    table = tables(name)
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
def test_what_the_harness_can_do_is_said(tables: Tables, name: str) -> None:
    """By the tools that the profile offers."""
    manifest = tables(name).capture.manifest
    support = "not_available_in_bundled_profile" if RUNS[name].profile == MINIMAL else "supported"
    assert manifest["capabilities"]["subtasks"] == support
    assert manifest["harness"] == {"name": "deepseek", "version": VERSION, "tested": True}


@each_run
def test_completed_assistants_are_covered(tables: Tables, name: str) -> None:
    """The session logs hold as many completed assistants as the provider gave whole answers to agents."""
    table = tables(name)
    coverage, whole = _coverage(table), sum(record.answered_whole for record in table.capture.truth)
    assert (coverage["strength"], coverage["status"], coverage["surplus_calls"]) == ("per_id", "complete", 0)
    assert (coverage["expected"], coverage["observed"]) == (whole, whole)
    agents = whole - sum(RUNS[name].side_calls.values())
    assert coverage["protocol_count"] == {"name": "completed_assistants", "expected": agents, "observed": agents}


@each_run
def test_side_calls_have_their_purpose(tables: Tables, name: str) -> None:
    """Compactions and titles are marked as such, belong to the root, and everything else is an agent's turn."""
    table, side_calls = tables(name), RUNS[name].side_calls
    purposes = Counter(call["purpose"] for call in table.calls.values())
    assert purposes == Counter(agent=len(table.calls) - sum(side_calls.values()), **side_calls)
    owners = {
        table.owners[call["participant_id"]]
        for call in table.calls.values()
        if call["purpose"] in ("compaction", "title")
    }
    assert owners == ({"root"} if side_calls else set())


def test_a_resumed_child_is_judged_by_each_delegation(tables: Tables) -> None:
    """The first ends by the tool call that launched it, the second by the message that set it to work again."""
    table = tables("resumed-headless")
    tools = {record.tools[0][1]: record.tools[0][0] for record in table.capture.truth if record.tools}
    ended = {
        relation["delegation"]: tools[relation["tool_call_id"]]
        for relation in table.capture.relations
        if relation["type"] == "child_completed"
    }
    assert ended == {1: "subagent", 2: "send_message"}


def test_children_of_one_workflow_are_told_apart(tables: Tables) -> None:
    """By their place in the workflow, and each keeps the model that it was given."""
    table = tables("workflow")
    places = {
        table.owners[relation["child_participant_id"]]: relation["task_index"]
        for relation in table.capture.relations
        if relation["type"] == "spawn"
    }
    assert places == {"child-p1": 0, "child-p2": 1}
    models: dict[str, set[str]] = {}
    for nonce, call in table.calls.items():
        models.setdefault(str(table.truth[nonce].owner), set()).add(call["model"]["requested"])
    assert models == {"root": {"scripted-model"}, "child-p1": {"scripted-model"}, "child-p2": {"other-model"}}


@pytest.mark.parametrize("protocol", [Protocol.OPENAI_RESPONSES, Protocol.OPENAI_CHAT_COMPLETIONS])
@pytest.mark.parametrize("scenario", ["ordinary", "single", "parallel"])
def test_the_other_protocols(scenario: str, protocol: Protocol, tmp_path: Path, e2e_table: list[str]) -> None:
    """The session logs hold the provider's response ids: everything is attributed, tied and covered by them."""
    table = _finished(_collect(scenario, tmp_path, profile="sdk", protocol=protocol))
    assert differences(table, PLAN.cells[scenario].expected) == []
    coverage = _coverage(table)
    assert (coverage["key"], coverage["strength"], coverage["status"]) == ("response_id", "per_id", "complete")
    assert coverage["protocol_count"]["observed"] == coverage["protocol_count"]["expected"] == coverage["expected"]
    assert {call["protocol"] for call in table.calls.values()} == {protocol}
    # Only Responses requests carry the session's id.
    proofs = [{item["name"] for item in call["native_identity"]["evidence"]} for call in table.calls.values()]
    by_session = {"header:session_id", "context:/prompt_cache_key"} if protocol is Protocol.OPENAI_RESPONSES else set()
    assert all(names == {"response_id", *by_session} for names in proofs)
    e2e_table.append(_line(f"{scenario} ({protocol})", table))


@pytest.mark.parametrize(
    ("protocol", "unattributed"), [(Protocol.OPENAI_RESPONSES, 0), (Protocol.OPENAI_CHAT_COMPLETIONS, 1)]
)
def test_a_cut_answer_in_the_other_protocols(protocol: Protocol, unattributed: int, tmp_path: Path) -> None:
    """It leaves no response id in the log. Responses requests name the session all the same, Chat Completions' do not,
    and then the call belongs to nobody."""
    table = _finished(_collect("cut-stream", tmp_path, profile="sdk", protocol=protocol))
    check_attribution(table, unattributed=unattributed)
    cut = [record.nonce for record in table.capture.truth if not record.answered_whole]
    assert table.unattributed == cut[:unattributed]


def test_another_version_is_captured_and_named(tmp_path: Path) -> None:
    """A program that says it is one that was not tested: the warning, and all else as usual."""
    run = _collect("ordinary", tmp_path)
    other = tmp_path / "dsh"
    real = shlex.quote(str(run.request.harness_bin))
    other.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo 9.8.7; else exec {real} "$@"; fi\n')
    other.chmod(0o700)
    run.request = dataclasses.replace(run.request, harness_bin=other)
    table = _finished(run)
    expected = Expected(lifecycle=MINIMAL_LIFECYCLE, reasons={"errors": 1}, errors=("native_version_untested",))
    assert differences(table, expected) == []
    assert table.capture.manifest["harness"] == {"name": "deepseek", "version": "9.8.7", "tested": False}


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


def _kill_driver(run: HarnessRun) -> None:
    os.kill(_driver(run), signal.SIGKILL)


def _kill_collect(run: HarnessRun) -> None:
    run.process.kill()


def _interrupt(run: HarnessRun) -> None:
    run.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("scenario", "profile", "end", "exit_code"),
    [
        ("killed-root", MINIMAL, _kill_driver, 0),
        ("killed", "sdk", _kill_collect, -signal.SIGKILL),
        ("killed", "sdk", _interrupt, 128 + signal.SIGINT),
    ],
    ids=["kill-the-driver-alone", "kill-collect", "interrupt"],
)
def test_a_run_that_was_ended_in_the_middle(
    scenario: str,
    profile: str,
    end: Callable[[HarnessRun], None],
    exit_code: int,
    tmp_path: Path,
    e2e_table: list[str],
) -> None:
    """While an answer is held: all calls are attributed, and only the open one is cut."""
    with _collect(scenario, tmp_path, profile=profile) as run:
        run.until_held()
        end(run)
        code, err = run.finish()
    assert code == exit_code, err
    if code < 0:
        finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full")
        assert finalized.returncode == 0, finalized.stderr
    table = check_attribution(_table(run))
    manifest = table.capture.manifest
    assert (manifest["execution_status"], manifest["capture_status"]) == ("interrupted", "partial")
    cut = [nonce for nonce, call in table.calls.items() if call["execution_status"] == "interrupted"]
    assert cut == [record.nonce for record in table.capture.truth if not record.answered_whole]
    assert len(cut) == 1
    if scenario == "killed":
        assert table.participants["child-k"][2] == "interrupted"
        assert manifest["lifecycle"]["status"] == "pending"
    e2e_table.append(_line(f"{scenario} ({end.__name__.strip('_')})", table))
