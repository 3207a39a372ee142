"""The real OpenClaw through `collect`: gateway, hook, subtasks, announcements, and what is published of them.

Truth is the scripted provider's own record (tests/support/truth_table.py). One run per protocol and scenario serves all
tests of that pair.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider.openclaw_scenarios import SCENARIOS
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import Protocol
from tests.support.harness_run import HarnessRun, binary, check_attribution
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "2026.9.6"
_CHAT = Protocol.OPENAI_CHAT_COMPLETIONS


class OpenClawTruth(TruthTable):
    """OpenClaw delegates by spawning a session, and by a message to one."""

    delegation_tools = ("sessions_spawn", "sessions_send")


@dataclass(frozen=True)
class Expected:
    """What a scenario must give.

    `children` maps an owner to parent and status. `announced` counts deliveries by notification, `results` those by
    tool result, `failed` the children that failed, `unended` those that did not end. `reasons` are those of a capture
    that is not complete, `errors` its named gaps.
    """

    children: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    announced: int = 0
    results: int = 0
    failed: int = 0
    unended: int = 0
    pending: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = field(default_factory=dict)
    errors: frozenset[str] = frozenset()
    root: str = "completed"
    execution: str = "completed"
    more_prompts: tuple[str, ...] = ()
    kill: bool = False
    drain_timeout: float = 120.0

    @property
    def relations(self) -> dict[str, int]:
        """The native relations by type."""
        spawned = len(self.children)
        counts = {
            "spawn": spawned + self.results,
            "launch_acknowledged": spawned,
            "child_completed": spawned + self.results - self.failed - self.unended,
            "child_failed": self.failed,
            "result_delivered": self.announced + self.results,
        }
        return {name: count for name, count in counts.items() if count}


def _done(*children: str, parent: str = "root") -> dict[str, tuple[str, str]]:
    return dict.fromkeys(children, (parent, "completed"))


_CUT = {"call_incomplete": 1}
EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(),
    "single": Expected(_done("child-a"), announced=1),
    "parallel": Expected(_done("child-a", "child-b"), announced=2),
    "identical-prompts": Expected(_done("child-1", "child-2"), announced=2),
    "file-sharing": Expected(_done("writer", "reader"), announced=2),
    "tool-error": Expected(_done("child-e"), announced=1),
    "tool-configs": Expected(_done("reader", "other"), announced=2),
    "refused-spawn": Expected(),
    "background": Expected(_done("child-bg"), announced=1),
    # Each child is announced by itself, and both once more when all have settled.
    "background-pair": Expected(_done("child-b1", "child-b2"), announced=4),
    "mid-turn": Expected(_done("child-q"), announced=1),
    "nested": Expected(_done("child-n") | _done("grand-g", parent="child-n"), announced=2),
    "child-failure": Expected({"child-f": ("root", "failed")}, announced=1, failed=1),
    "resumed-child": Expected(_done("child-re"), announced=1, results=1),
    "cross-process-resume": Expected(_done("child-1", "child-2"), announced=2, more_prompts=("Second turn: go on.",)),
    "stopped-child": Expected({"child-s": ("root", "interrupted")}, unended=1, reasons=_CUT),
    "compaction": Expected(more_prompts=("Go on.",)),
    "cut-stream": Expected(reasons=_CUT),
    "cut-child": Expected(_done("child-c"), announced=1, reasons=_CUT),
    "error-event": Expected(),
    "max-tokens": Expected(),
    "big-output": Expected(),
    "never-ends": Expected(
        {"child-w": ("root", "interrupted")},
        unended=1,
        pending=frozenset({"child-w"}),
        reasons={"call_incomplete": 1, "lifecycle_pending": 1, "errors": 1},
        errors=frozenset({"drain_failed"}),
        drain_timeout=8.0,
    ),
    "killed": Expected(
        {"child-k": ("root", "interrupted")},
        unended=1,
        pending=frozenset({"child-k"}),
        reasons={"call_incomplete": 2, "lifecycle_pending": 1},
        root="interrupted",
        execution="interrupted",
        kill=True,
    ),
}
_OTHER_PROTOCOLS = (Protocol.OPENAI_RESPONSES, Protocol.ANTHROPIC_MESSAGES)
RUNS = [(_CHAT, name) for name in EXPECTED]
RUNS += [(protocol, name) for protocol in _OTHER_PROTOCOLS for name in ("ordinary", "single", "parallel")]
Tables = Callable[[Protocol, str], OpenClawTruth]
each_run = pytest.mark.parametrize(("protocol", "scenario"), RUNS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario over a protocol the first time it is asked for."""
    known: dict[tuple[Protocol, str], OpenClawTruth] = {}

    def table(protocol: Protocol, scenario: str) -> OpenClawTruth:
        if (protocol, scenario) not in known:
            known[protocol, scenario] = _run(protocol, scenario, tmp_path_factory.mktemp(f"openclaw-{scenario}"))
            e2e_table.append(_line(protocol, scenario, known[protocol, scenario]))
        return known[protocol, scenario]

    return table


def _run(protocol: Protocol, scenario: str, directory: Path) -> OpenClawTruth:
    expected = EXPECTED[scenario]
    options: dict[str, Any] = {"protocol": protocol, "drain_timeout": expected.drain_timeout}
    script = SCENARIOS[scenario]()
    with HarnessRun("openclaw", VERSION, script, directory, *expected.more_prompts, **options) as run:
        if expected.kill:
            run.until_held()
            run.process.terminate()
        code, err = run.finish()
    assert code == (143 if expected.kill else 0), err
    return OpenClawTruth(run.capture())


def _line(protocol: Protocol, scenario: str, table: OpenClawTruth) -> str:
    relations = Counter(relation["type"] for relation in table.capture.relations)
    return (
        f"openclaw {protocol:<23} {scenario:<20} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"wrong {len(table.wrong)} unattributed {len(table.unattributed)} relations {relations.total():>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@each_run
def test_every_call_has_its_owner(tables: Tables, protocol: Protocol, scenario: str) -> None:
    """One call per request, none wrong, none unattributed, every participant with its role, parent and end."""
    table, expected = check_attribution(tables(protocol, scenario)), EXPECTED[scenario]
    assert table.owned == table.true_owned
    assert {call["protocol"] for call in table.calls.values()} == {protocol.value}
    children = {child: ("child", *facts) for child, facts in expected.children.items()}
    assert table.participants == {"root": ("root", None, expected.root), **children}
    assert all(call["native_identity"]["run_id"] for call in table.calls.values())


@each_run
def test_relations_are_the_native_ones(tables: Tables, protocol: Protocol, scenario: str) -> None:
    """Of each type as many as there were delegations, ends and deliveries; each from the call that delegated."""
    table, expected = tables(protocol, scenario), EXPECTED[scenario]
    native = [item for item in table.capture.relations if item["context_call_id"] is None]
    assert Counter(item["type"] for item in native) == expected.relations
    delegating = {tool_id: record.nonce for record, tool_id in table.delegations}
    for item in table.capture.relations:
        reference = item["model_tool_ref"]
        assert item["parent_call_id"] == table.calls[delegating[reference["call_id"]]]["call_id"]
        assert table.owners[item["child_participant_id"]] in expected.children
        joined = (reference["call_id"], reference["item_id"]) if reference["item_id"] else (reference["call_id"],)
        assert item["tool_call_id"] == "|".join(joined)


@each_run
def test_each_result_stands_where_the_request_says(tables: Tables, protocol: Protocol, scenario: str) -> None:
    """Acknowledgements in every later request of the parent, results in the request that the child's end caused."""
    table, expected = tables(protocol, scenario), EXPECTED[scenario]
    seen: Counter[str] = Counter()
    for relation, item in table.context_items:
        seen[relation["type"]] += 1
        text = json.dumps(item)
        child = table.owners[relation["child_participant_id"]]
        if relation["type"] == "launch_ack_in_context":
            assert "childSessionKey" in text
        elif not expected.failed:
            assert any(nonce in text for nonce in table.true_owned[child])
    spawned_and_seen = Counter(
        "ack" for record, tool_id in table.delegations for later in table.truth.values() if _holds(later, tool_id)
    )["ack"]
    assert seen["result_in_context"] >= expected.announced + expected.results
    in_requests = seen["launch_ack_in_context"] + _by_tool_result(table)
    assert in_requests == spawned_and_seen or scenario == "refused-spawn"


def _holds(record: Any, tool_id: str) -> bool:
    """Whether a request holds the result of a tool call, whose id OpenClaw may have rewritten."""
    plain = "".join(character for character in tool_id if character.isalnum())
    return tool_id in record.results_seen or plain in record.results_seen


def _by_tool_result(table: OpenClawTruth) -> int:
    return sum(
        relation["type"] == "result_in_context" and relation["delivery"]["kind"] == "tool_result"
        for relation in table.capture.relations
    )


@each_run
def test_the_capture_says_what_is_missing(tables: Tables, protocol: Protocol, scenario: str) -> None:
    """Lifecycle with the pending children, the reasons for a partial capture and no other."""
    table, expected = tables(protocol, scenario), EXPECTED[scenario]
    manifest = table.capture.manifest
    pending = {table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]}
    assert pending == expected.pending
    assert manifest["lifecycle"]["status"] == ("pending" if pending else "complete")
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert {error["code"] for error in manifest["errors"]} == expected.errors
    assert manifest["execution_status"] == expected.execution
    assert manifest["harness"] == {"name": "openclaw", "version": VERSION, "tested": True}
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["key"], coverage["strength"], coverage["status"]) == ("response_id", "per_id", "complete")
    of_sessions = [call for call in table.calls.values() if call["purpose"] != "compaction"]
    assert coverage["protocol_count"]["expected"] == len(of_sessions)


@each_run
def test_exportable_are_the_answers_that_ended_well(tables: Tables, protocol: Protocol, scenario: str) -> None:
    """Completed calls and no others; an answer that stands in a transcript is an agent's own."""
    table = tables(protocol, scenario)
    truncated = {record.nonce for record in table.capture.truth if record.finish == "length"}
    assert table.exportable == table.truly_exportable - truncated
    purposes = Counter(table.calls[nonce]["purpose"] for nonce in table.exportable)
    assert purposes["compaction"] == (scenario == "compaction")
    assert purposes.keys() <= {"agent", "compaction"}


def test_a_message_of_no_run_is_bound_to_the_turn_that_it_was_put_into(tables: Tables) -> None:
    """The third form: no announcement run, a message in the middle of the root's turn."""
    deliveries = [
        relation["delivery"]
        for relation in tables(_CHAT, "mid-turn").capture.relations
        if relation["type"] == "result_in_context"
    ]
    assert all(item["bound_id"].endswith(":active-wake") for item in deliveries)
    assert {item["bound_by"] for item in deliveries} == {"announcement_run_id"}


def test_a_nested_announcement_holds_the_inner_one_whole(tables: Tables) -> None:
    """The child that had yielded is entered anew under the id that woke it; the root is told by one that holds it."""
    bound = {
        table["delivery"]["bound_id"]
        for table in tables(_CHAT, "nested").capture.relations
        if table["type"] == "result_delivered"
    }
    inner = min(bound, key=len)
    assert len(bound) == 2
    assert all(inner in one for one in bound)


_HOSTILE_CALLS = """
const hook = (await import(process.argv[1])).default;
let wrap;
hook.register({ registerProvider: (provider) => { wrap = provider.wrapStreamFn; } });
const seen = [];
const stream = wrap({ streamFn: (model, context, options) => { seen.push(options); return "the stream"; } });
const circular = {}; circular.self = circular;
const trap = new Proxy({}, { get() { throw new Error("trap"); }, ownKeys() { throw new Error("trap"); } });
const good = { sessionId: "s", requestId: "r:model:1", headers: { own: "1" }, signal: 7 };
const contexts = [undefined, null, 7, { messages: 7 }, { messages: [null, 7, { role: "assistant", responseId: "x" }] },
  { messages: [{ role: "assistant", responseId: "x", content: [null, { type: "toolCall", id: circular }] }] }, trap];
const broken = { sessionId: "a\\nb", requestId: "x" };
const options = [good, undefined, null, {}, { sessionId: 7, requestId: circular }, broken, trap];
const results = [];
for (const context of contexts) for (const option of options) results.push(stream({ api: "x" }, context, option));
console.log(JSON.stringify({ all: results.every((one) => one === "the stream"), count: results.length, first: seen[0],
  trapped: Object.keys(seen[42].headers).length,
  withoutInner: wrap({}) === undefined, newline: Object.keys(seen[5].headers) }));
"""


@pytest.mark.parametrize("log", ["hook.jsonl", "missing-folder/hook.jsonl", None])
def test_a_hook_that_cannot_do_its_part_lets_the_request_through(tmp_path: Path, log: str | None) -> None:
    """Whatever it is given, and wherever it cannot write; a good call gets its headers beside its own."""
    node = binary("openclaw", VERSION).parent / "node"
    environment = {**os.environ, **({"ROLLER_HOOK_LOG": str(tmp_path / log)} if log else {})}
    command = [
        str(node),
        "--input-type=module",
        "-e",
        _HOSTILE_CALLS,
        str(shipped_path("hooks", "openclaw", "index.js")),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["all"], found["count"], found["withoutInner"]) == (True, 49, True)
    assert found["trapped"] == 5
    headers = found["first"]["headers"]
    stream_id = headers.pop("x-roller-stream-id")
    assert stream_id
    assert headers == {
        "own": "1",
        "x-roller-session-id": "s",
        "x-roller-run-id": "r",
        "x-roller-request-id": "r:model:1",
    }
    assert "x-roller-session-id" not in found["newline"]
    assert (tmp_path / "hook.jsonl").exists() == (log == "hook.jsonl")
