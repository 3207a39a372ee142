"""Records the fixtures of the Claude Code adapter anew: `python -m scripts.record_fixtures [VERSION…] [--only NAME…]`.

Runs the pinned, installed harness (scripts/install_harness.sh) against the scripted provider, once per scenario, and
writes what it left behind, sanitised, to tests/fixtures/harness/claude-code/VERSION/SCENARIO:

    native/projects/…     native logs: *.jsonl and *.meta.json
    native/stdout.jsonl   the harness's output stream, without what repeats the logs
    native/launcher.json  {"root_native_id", "from"}
    calls.json            the provider's record: one entry per model request, with its owner and identity headers
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roller_capture.scripted_provider import ScriptedProvider, TruthRecord
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from scripts.claude_code_sanitiser import Neutral, sanitised, sanitised_record, sanitised_stdout
from tests.support.claude_code_run import ClaudeCodeRun, run_claude_code
from tests.support.harness_install import CLAUDE_CODE_VERSIONS, claude_code_binary
from tests.support.launcher_record import root_session_id

Sanitise = Callable[[Mapping[str, Any]], dict[str, Any] | None]

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "claude-code"
RECORDED = (
    "background",
    "child-failure-400",
    "child-failure-500",
    "cut-child",
    "cut-late",
    "error-event",
    "identical-prompts",
    "killed",
    "max-tokens",
    "nested",
    "ordinary",
    "parallel",
    "resumed-child",
    "single",
    "slow-cut",
    "thinking",
    "tool-configs",
    "tool-error",
)
"""What the adapter's tests read; the other scenarios leave logs of the same shapes."""
_IDENTITY_HEADERS = ("x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id")


def main() -> int:
    """Records all scenarios of all pinned versions, or those named."""
    parser = argparse.ArgumentParser(description="Record the Claude Code fixtures anew.")
    parser.add_argument("versions", nargs="*", default=CLAUDE_CODE_VERSIONS)
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=RECORDED)
    arguments = parser.parse_args()
    for version in arguments.versions:
        for name in arguments.only:
            target = FIXTURES / version / name
            with tempfile.TemporaryDirectory() as directory:
                record(version, name, Path(directory), target)
            sys.stderr.write(f"{version} {name}: {_size(target)} bytes\n")
    return 0


def record(version: str, name: str, directory: Path, target: Path) -> None:
    """Runs one scenario below `directory` and replaces the fixture `target`."""
    scenario = SCENARIOS[name]()
    with ScriptedProvider(scenario.decide) as provider:
        run = run_claude_code(claude_code_binary(version), scenario, directory, provider.url)
        records = provider.truth.records
    if provider.script_errors:
        raise SystemExit(f"{name}: the script failed: {provider.script_errors}")
    shutil.rmtree(target, ignore_errors=True)
    neutral = Neutral(directory / "workspace", run.home)
    _write_native(run, target / "native", neutral)
    _write_json(target / "calls.json", [_call(record) for record in records])


def _write_native(run: ClaudeCodeRun, native: Path, neutral: Neutral) -> None:
    root_id = root_session_id(run.stdout)
    for source in sorted(run.projects.rglob("*")):
        inner = native / "projects" / neutral(str(source.relative_to(run.projects)))
        if source.name.endswith(".jsonl"):
            _write_lines(source, inner, neutral, sanitised_record)
        elif source.name.endswith(".meta.json"):
            _write_json(inner, sanitised(json.loads(neutral(source.read_text(encoding="utf-8")))))
    _write_lines(run.stdout, native / "stdout.jsonl", neutral, sanitised_stdout)
    _write_json(native / "launcher.json", {"root_native_id": root_id, "from": "stdout.jsonl init"})


def _write_lines(source: Path, target: Path, neutral: Neutral, sanitise: Sanitise) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as stream:
        for line in source.read_text(encoding="utf-8").splitlines():
            record = sanitise(json.loads(neutral(line)))
            if record is not None:
                stream.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def _call(record: TruthRecord) -> dict[str, Any]:
    entry = record.to_json()
    entry["headers"] = {name: record.headers[name] for name in _IDENTITY_HEADERS if name in record.headers}
    return entry


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
