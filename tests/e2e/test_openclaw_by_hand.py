"""OpenClaw behind a proxy of one's own, and our hook in its own Node."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.openclaw import PLAN
from roller_capture.scripted_provider.openclaw_scenarios import SCENARIOS
from roller_capture.shipped import shipped_path
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks openclaw`, followed to the letter: a child, all calls attributed, nothing missing."""
    program = pinned_binary("openclaw")
    command = (str(program.parent / "node"), str(program))
    capture = follow("openclaw", command, SCENARIOS["single"](), tmp_path / "run")
    child = Delegation("child-a", background=True, end="child_completed")
    table = TruthTable(capture, PLAN.delegation_tools, PLAN.plain_tool_id)
    assert differences(table, Expected((child,), execution="unknown")) == []
    assert capture.manifest["harness"] == {"name": "openclaw", "version": program.parents[2].name, "tested": True}


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
    node = pinned_binary("openclaw").parent / "node"
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
