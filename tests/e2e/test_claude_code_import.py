"""The real Claude Code behind a bare mitmdump: imported with its logs, every call has its owner all the same."""

from pathlib import Path

import pytest

from roller_capture.importing.command import ImportRequest, import_attempt
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.bare_mitmdump import bare_mitmdump
from tests.support.capture import Capture, read_lines, roller_capture
from tests.support.claude_code_collect import check_attribution
from tests.support.claude_code_run import run_claude_code
from tests.support.harness_run import pinned_binary, read_json

pytestmark = pytest.mark.e2e


def test_flows_of_a_real_run_are_attributed(tmp_path: Path) -> None:
    """Two subagents side by side; what no flow file proves is the only reason why the capture is not complete."""
    scenario = SCENARIOS["parallel"]()
    flows, attempt = tmp_path / "flows.mitm", tmp_path / "attempt"
    with ScriptedProvider(scenario.decide) as provider, bare_mitmdump(provider.url, flows) as url:
        run = run_claude_code(pinned_binary("claude-code"), scenario, tmp_path / "run", url)
    import_attempt(ImportRequest((flows,), attempt, "claude-code", run.home))
    assert roller_capture("finalize", str(attempt), "--execution-status", "completed").returncode == 0
    capture = Capture(
        provider.truth.records,
        len(provider.truth.others),
        run.exit_code,
        attempt,
        read_json(attempt / "manifest.json"),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )
    check_attribution(capture)
    assert {reason["code"] for reason in capture.manifest["status_reasons"]} == {"errors"}
    assert {item["code"] for item in capture.manifest["errors"]} == {"import_calls_unproven", "import_timing_unknown"}
    assert [call["export_status"] for call in capture.calls] == ["exportable"] * len(capture.calls)
    assert sorted(item["type"] for item in capture.relations if item["type"] == "spawn") == ["spawn"] * 2
