"""One real run of Claude Code through the whole product: proxy, copied logs, `finalize`, `validate --deep`."""

import json
import shutil
from pathlib import Path

from roller_capture.proxy_process import ProxyProcess
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.capture import Capture, read_lines, roller_capture
from tests.support.claude_code_run import ClaudeCodeRun, run_claude_code
from tests.support.launcher_record import root_session_id


def capture_claude_code(binary: Path, scenario_name: str, directory: Path) -> Capture:
    """Runs a scenario below `directory`, publishes it and reads it back as plain JSON."""
    scenario = SCENARIOS[scenario_name]()
    attempt = directory / "attempt"
    with ScriptedProvider(scenario.decide, directory / "truth.jsonl") as provider:
        with ProxyProcess(attempt, "claude-code", provider.url) as proxy:
            run = run_claude_code(binary, scenario, directory / "run", proxy.url)
        truth, others = provider.truth.records, provider.truth.others
        assert provider.script_errors == []
    copy_native_logs(run, attempt / "work" / "native")
    finalized = roller_capture("finalize", str(attempt), "--harness", "claude-code", "--capture-debug", "full")
    assert finalized.returncode == 0, finalized.stderr
    assert "Traceback" not in finalized.stderr
    return Capture(
        truth,
        len(others),
        run.exit_code,
        attempt,
        json.loads((attempt / "manifest.json").read_bytes()),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )


def copy_native_logs(run: ClaudeCodeRun, target: Path) -> None:
    """What a launcher copies: the session logs, the output stream, and which session it started."""
    for source in run.projects.rglob("*"):
        if source.name.endswith((".jsonl", ".meta.json")):
            copy = target / "projects" / source.relative_to(run.projects)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    shutil.copyfile(run.stdout, target / "stdout.jsonl")
    launcher = {
        "root_native_id": root_session_id(run.stdout),
        "from": "stdout.jsonl init",
        "execution_status": "completed" if run.exit_code == 0 else "failed",
    }
    (target / "launcher.json").write_text(json.dumps(launcher), encoding="utf-8")
