"""README's way from a run to a loaded data set, with the real Claude Code and one subagent."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roller_capture.scripted_provider import AgentScript, Reply, Script, ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import delegate, worker
from tests.support.harness_run import pinned_binary
from tests.support.readme_commands import PROMPT, run_commands

pytestmark = pytest.mark.e2e


def test_the_commands_of_readme_give_a_data_set(tmp_path: Path) -> None:
    """Rows of root and child, and the root's own conversation alone."""
    pinned_binary("claude-code")
    turns = (Reply(text="Delegating.", tools=(delegate("CHILD-A"),)), Reply(text="There are three."))
    script = Script([AgentScript(("root",), PROMPT, turns), worker("CHILD-A", ["child-a"], "Three.")])
    with ScriptedProvider(script) as provider:
        printed = run_commands(tmp_path, provider.url)
    assert provider.script_errors == []
    calls = pq.read_table(tmp_path / "calls.parquet").to_pylist()
    assert {row["role"] for row in calls} == {"root", "child"}
    assert f"num_rows: {len(calls)}" in printed[4]
    (row,) = pq.read_table(tmp_path / "train.parquet").to_pylist()
    said = [item["content"] for item in row["messages"] if item["role"] == "assistant"]
    assert [text.partition(" [")[0] for text in said] == ["Delegating.", "There are three."]  # without marks
    (call,) = row["messages"][-3]["tool_calls"]
    assert "CHILD-A" in json.loads(call["function"]["arguments"])["prompt"]
    assert not any("On it." in str(item["content"]) for item in row["messages"])
