"""Records the fixtures of the OpenCode adapter anew: `python -m scripts.record_opencode_fixtures [--only NAME…]`.

Runs the pinned, installed harness through `collect` against the scripted provider, once per scenario, and writes what
it left behind, sanitised, to tests/fixtures/harness/opencode/VERSION/SCENARIO:

    native/opencode.jsonl   the extract of the harness's database
    native/launcher.json    {"root_native_id", "from"}
    calls.json              one entry per model request: its owner, its status, its identity headers and its tool ids
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture.scripted_provider.opencode_scenarios import SCENARIOS
from roller_capture.scripted_provider.request import nonces_in
from tests.support.harness_run import HarnessRun

VERSION: Final = "1.18.33"
FIXTURES: Final = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "opencode" / VERSION
RECORDED: Final[Mapping[str, Mapping[str, Any]]] = {
    "ordinary": {},
    "single": {},
    "parallel": {},
    "identical-prompts": {},
    "child-failure": {},
    "resumed-child": {},
    "depth-limit": {},
    "nested": {"profile": "nested"},
    "background": {"profile": "background"},
    "background-failure": {"profile": "background"},
    "two-notifications": {"profile": "background"},
    "background-refused": {},
    "cut-child": {},
    "compaction": {},
    "subtask-command": {"harness_args": ("--command", "look")},
    "killed": {},
}
"""What the adapter's tests read, and how each is run; the other scenarios leave sessions of the same shapes."""

_IDENTITY_HEADERS: Final = ("x-session-id", "x-parent-session-id")
_WRAPPER: Final = re.compile(r'(<task id="ses_\w+" state="\w+">).*', re.DOTALL)
_KEPT: Final = ("prompt", "description", "subagent_type", "task_id", "background", "command")
_LEFT_OUT: Final = ("snapshot", "path", "cost", "preview", "truncated", "diff", "files")


def main() -> int:
    """Records all scenarios, or those named."""
    parser = argparse.ArgumentParser(description="Record the OpenCode fixtures anew.")
    parser.add_argument("--only", nargs="+", choices=sorted(RECORDED), default=list(RECORDED))
    for name in parser.parse_args().only:
        with tempfile.TemporaryDirectory() as directory:
            record(name, Path(directory), FIXTURES / name)
        sys.stderr.write(f"{name}: {sum(path.stat().st_size for path in (FIXTURES / name).rglob('*'))} bytes\n")
    return 0


def record(name: str, directory: Path, target: Path) -> None:
    """Runs one scenario below `directory` and replaces the fixture `target`."""
    with HarnessRun("opencode", VERSION, SCENARIOS[name](), directory, **RECORDED[name]) as run:
        if run.scenario.kill_when is not None:
            run.until_held()
            run.process.terminate()
        run.finish()
    raw = run.attempt / "raw"
    sources = json.loads((raw / "sources.json").read_bytes())
    launcher = json.loads((run.attempt / sources["launcher.json"]["path"]).read_bytes())
    shutil.rmtree(target, ignore_errors=True)
    native = target / "native"
    native.mkdir(parents=True)
    with (
        (run.attempt / sources["opencode.jsonl"]["path"]).open() as lines,
        (native / "opencode.jsonl").open("w") as out,
    ):
        for line in lines:
            out.write(json.dumps(sanitised_row(json.loads(line)), separators=(",", ":")) + "\n")
    kept = {"root_native_id": launcher["root_native_id"], "from": launcher["from"]}
    (native / "launcher.json").write_text(json.dumps(kept) + "\n")
    (target / "calls.json").write_text(json.dumps(_calls(run, raw), indent=1) + "\n")


def sanitised_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the extract without paths and without the harness's own prose."""
    if "data" not in row:
        return row
    return {**row, "data": json.dumps(sanitised(json.loads(row["data"])), separators=(",", ":"))}


def sanitised(data: dict[str, Any]) -> dict[str, Any]:
    """A message or a part: of texts only the wrapper of a child's result is kept, and what the scenario itself said."""
    return {key: _sanitised_value(key, value) for key, value in data.items() if key not in _LEFT_OUT}


def _sanitised_value(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sanitised_value(name, inner) for name, inner in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list):
        return [_sanitised_value(key, inner) for inner in value]
    if key in ("text", "output", "error", "message", "title", "responseBody") and isinstance(value, str):
        marks = " ".join(sorted(nonces_in(value)))
        if match := _WRAPPER.match(value):
            return f"{match[1]}\n<task_result>\n{marks}\n</task_result>\n</task>"
        return f"A text. {marks}".strip()
    return value


def _calls(run: HarnessRun, raw: Path) -> list[dict[str, Any]]:
    """The model requests as the recorder saw them, each with the provider's word on whose it was."""
    sequences = {}
    for call in run.capture().calls:
        [nonce] = nonces_in(json.dumps({key: value for key, value in call.items() if key != "context"}))
        sequences[nonce] = call["sequence"]
    headers = _roller_headers(raw / "events.jsonl")
    return [
        {
            "owner": record.owner,
            "status": record.status,
            "delivered": record.delivered,
            "headers": {
                **{name: record.headers[name] for name in _IDENTITY_HEADERS if name in record.headers},
                **headers[sequences[record.nonce]],
            },
            "tools": [list(tool) for tool in record.tools],
        }
        for record in run.provider.truth.records
    ]


def _roller_headers(events: Path) -> dict[int, dict[str, str]]:
    """What our hook sent, by the number of the call."""
    with events.open() as lines:
        heads = [event for event in map(json.loads, lines) if event["type"] == "request_headers"]
    return {event["sequence"]: dict(event["roller_headers"]) for event in heads}


if __name__ == "__main__":
    sys.exit(main())
