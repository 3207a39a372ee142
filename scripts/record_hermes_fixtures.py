"""Records the fixtures of the Hermes adapter anew: `python -m scripts.record_hermes_fixtures [--only NAME…]`.

Runs the pinned, installed harness (scripts/install_harness.sh) through `collect` against the scripted provider, once a
scenario, and writes what it left behind, sanitised, to tests/fixtures/harness/hermes/VERSION/SCENARIO:

    native/state.jsonl     the extract of Hermes's database: ids, roles and the words that prove something, no prose
    native/plugin.jsonl    the extract of our plugin's log, as it is: it holds ids and words only
    native/launcher.json   {"root_native_id", "from", "harness_version"}, where `collect` ran it
    calls.json             one entry per model request: the provider's owner, and the headers that our plugin sent
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture.adapters.hermes.state_reader import DELEGATION_TOOL, NOTICE
from roller_capture.scripted_provider.hermes_scenarios import SCENARIOS, SETTINGS
from tests.support.capture import Capture
from tests.support.harness_run import HarnessRun, binary
from tests.support.hermes_interactive import capture_interactively
from tests.support.truth_table import TruthTable

VERSION: Final = "0.19.0"
FIXTURES: Final = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "hermes" / VERSION
RECORDED: Final = (
    "child-failure",
    "compaction",
    "cross-process-resume",
    "cut-stream",
    "identical-prompts",
    "interactive-background",
    "interactive-stopped",
    "iteration-limit",
    "killed",
    "nested",
    "nested-refused",
    "ordinary",
    "retries",
    "review",
    "rotation",
    "single",
    "too-many",
)
"""What the adapter's tests read; the other scenarios leave logs of the same shapes."""

SECOND_TURNS: Final[Mapping[str, tuple[str, ...]]] = {
    "cross-process-resume": ("SECOND-TURN: go on.",),
    "title": ("SECOND-TURN: go on.",),
}

INTERACTIVE: Final[Mapping[str, str | None]] = {"interactive-background": None, "interactive-stopped": "/stop"}
"""Those that `collect` cannot run, and what the user types then."""

_NEUTRAL: Final = "…"


def main() -> int:
    """Records all scenarios, or those named."""
    parser = argparse.ArgumentParser(description="Record the Hermes fixtures anew.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=RECORDED)
    for name in parser.parse_args().only:
        with tempfile.TemporaryDirectory() as directory:
            record(name, Path(directory) / "run", FIXTURES / name)
        sys.stderr.write(f"{name}: {sum(path.stat().st_size for path in (FIXTURES / name).rglob('*.json*'))} bytes\n")
    return 0


def arguments_of(name: str) -> tuple[str, ...]:
    """The settings of a scenario, as harness arguments."""
    return tuple(part for setting in SETTINGS.get(name, ()) for part in ("--config", setting))


def record(name: str, directory: Path, target: Path) -> None:
    """Runs one scenario below `directory` and replaces the fixture `target`."""
    capture = _interactive(name, directory) if name in INTERACTIVE else _collected(name, directory)
    shutil.rmtree(target, ignore_errors=True)
    (target / "native").mkdir(parents=True)
    native = capture.attempt / "raw" / "native"
    _write_lines(target / "native" / "state.jsonl", map(_neutral, _lines(native / "state.jsonl")))
    _write_lines(target / "native" / "plugin.jsonl", _lines(native / "plugin.jsonl"))
    if name not in INTERACTIVE:
        launcher = json.loads((native / "launcher.json").read_bytes())
        kept = {key: launcher[key] for key in ("root_native_id", "from", "harness_version")}
        _write_json(target / "native" / "launcher.json", kept)
    _write_json(target / "calls.json", _calls(TruthTable(capture), capture.attempt / "raw" / "events.jsonl"))


def _collected(name: str, directory: Path) -> Capture:
    scenario = SCENARIOS[name]()
    more, arguments = SECOND_TURNS.get(name, ()), arguments_of(name)
    with HarnessRun("hermes", VERSION, scenario, directory, *more, harness_args=arguments) as run:
        if scenario.kill_when is not None:
            run.until_held()
            run.process.send_signal(signal.SIGTERM)
        run.finish()
    return run.capture()


def _interactive(name: str, directory: Path) -> Capture:
    program, settings = binary("hermes", VERSION), SETTINGS.get(name, ())
    return capture_interactively(program, SCENARIOS[name](), directory, *settings, then=INTERACTIVE[name])


def _calls(table: TruthTable, events: Path) -> list[dict[str, Any]]:
    headers = {
        event["sequence"]: dict(event.get("roller_headers", ()))
        for event in _lines(events)
        if event["type"] == "request_headers"
    }
    return [
        {"owner": table.truth[nonce].owner, "response_id": call["response_id"], "headers": headers[call["sequence"]]}
        for nonce, call in table.calls.items()
    ]


def _neutral(row: dict[str, Any]) -> dict[str, Any]:
    """The row without prose and paths. What the adapter looks at stays as it is."""
    if row["table"] == "sessions":
        configuration = json.loads(row["model_config"] or "{}")
        kept = {key: value for key, value in configuration.items() if key == "_delegate_from"}
        return {**row, "model_config": json.dumps(kept)}
    if row["table"] != "messages":
        return row
    calls = [
        {**call, "function": {"name": call["function"]["name"], "arguments": "{}"}}
        for call in json.loads(row["tool_calls"] or "[]")
    ]
    return {**row, "content": _neutral_content(row), "tool_calls": json.dumps(calls) if calls else row["tool_calls"]}


def _neutral_content(row: Mapping[str, Any]) -> str | None:
    content = row["content"]
    if not content:
        return content
    if row["tool_name"] == DELEGATION_TOOL:
        return _neutral_result(content)
    notice = NOTICE.match(content)
    return f"{notice[0]} {_NEUTRAL}" if notice else _NEUTRAL


def _neutral_result(content: str) -> str:
    try:
        value = json.loads(content)
    except ValueError:
        return _NEUTRAL
    kept: dict[str, Any] = {key: value[key] for key in ("status", "mode", "count", "delegation_id") if key in value}
    if "error" in value:
        kept["error"] = _NEUTRAL
    if "results" in value:
        words = ("task_index", "status", "exit_reason", "api_calls")
        kept["results"] = [{key: part[key] for key in words if key in part} for part in value["results"]]
    return json.dumps(kept)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _write_lines(path: Path, records: Any) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
