"""Many samples with the real Claude Code: a run that is killed in the middle goes on, and loses nothing."""

import os
import threading
from pathlib import Path

import pytest

from roller_capture.collect.request import CollectRequest
from roller_capture.runs.check import check_run
from roller_capture.scripted_provider import ModelRequest, Reply, ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import LONG, shell
from roller_capture.scripted_provider.script import AgentScript, Script
from tests.support.collecting import REAL_KEY, collecting, until
from tests.support.harness_run import pinned_binary, read_json

pytestmark = pytest.mark.e2e

SAMPLES = """{"id": "held", "prompt": "SAMPLE-ONE: list the files here."}
{"id": "quick", "turns": ["SAMPLE-TWO: say hello.", "Say it again."]}
"""


def test_a_killed_run_is_resumed(tmp_path: Path, e2e_table: list[str]) -> None:
    """One sample is done and reused; of the other, what was recorded is published, and the next attempt completes."""
    gate, reached = threading.Event(), threading.Event()
    script = Script(
        [
            AgentScript(
                ("one", "one-again"),
                "SAMPLE-ONE",
                (Reply(text="Listing.", tools=(shell("ls"),)), Reply(text=LONG, hold=gate, hold_after=3)),
            ),
            AgentScript(("two",), "SAMPLE-TWO", (Reply(text="Hello."),)),
        ]
    )

    def decide(request: ModelRequest) -> Reply:
        reply = script(request)
        if reply.hold is not None:
            reached.set()
        return reply

    (tmp_path / "samples.jsonl").write_text(SAMPLES)
    with ScriptedProvider(decide) as provider:
        request = CollectRequest(
            harness="claude-code",
            run_dir=tmp_path / "run",
            prompts=(),
            samples=tmp_path / "samples.jsonl",
            jobs=2,
            api_base=provider.url,
            capture_calls=True,
            model="scripted-model",
            harness_bin=pinned_binary("claude-code"),
        )
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": REAL_KEY}
        process = collecting(request, environment=environment)
        quick = tmp_path / "run/samples/quick/capture/attempt-0001"
        until(
            lambda: reached.is_set() and (quick / "manifest.json").exists() and not (quick / "work").exists(), process
        )
        process.kill()
        process.communicate()
        gate.set()
        done = (quick / "manifest.json").read_bytes()
        asked = len(provider.truth.records)
        again = collecting(
            CollectRequest(**{name: getattr(request, name) for name in request.__slots__} | {"resume": True}),
            environment=environment,
        )
        _, err = again.communicate()
        assert again.returncode == 0, err
        answered = len(provider.truth.records) - asked
    assert "held: published what was left: samples/held/capture/attempt-0001" in err
    assert "held: redo: samples/held/capture/attempt-0001/manifest.json: interrupted: attempt-0002 follows" in err
    assert "quick: reuse: " in err
    assert (quick / "manifest.json").read_bytes() == done
    report = check_run(tmp_path / "run", deep=True)
    assert [problem for sample in report.samples for problem in sample.problems()] == []
    attempts = [attempt.manifest for sample in report.samples for attempt in sample.attempts]
    facts = [(item["execution_status"], item["capture_status"]) for item in attempts if item is not None]
    assert facts == [("interrupted", "partial"), ("completed", "complete"), ("completed", "complete")]
    calls = [item["counts"]["calls"] for item in attempts if item is not None]
    assert sum(calls[:1] + calls[2:]) == asked
    assert calls[1] == answered
    states = [entry["state"] for entry in read_json(tmp_path / "run/samples/held/sample.json")["attempts"]]
    assert states == ["interrupted", "completed"]
    e2e_table.append(f"claude-code runs  2 samples, killed, resumed   calls {sum(calls)}/{asked + answered}")
