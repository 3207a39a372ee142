"""Records the fixtures of the OpenClaw adapter anew: `python -m scripts.record_openclaw_fixtures [SCENARIO…]`.

Runs the pinned, installed harness (scripts/install_harness.sh) through `collect` against the scripted provider, and
writes what the launcher took out of its databases, sanitised, to tests/fixtures/harness/openclaw/VERSION/SCENARIO:

    native/…          the extracts, with identifiers and shapes as they were and the harness's own prose taken out
    calls.json        one entry for each call: its owner by the provider's record, and the ids that it carried
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roller_capture.scripted_provider.openclaw_scenarios import SCENARIOS
from roller_capture.scripted_provider.request import nonces_in
from tests.support.harness_run import HarnessRun

VERSION = "2026.9.6"
FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "openclaw" / VERSION
RECORDED = (
    "background",
    "background-pair",
    "child-failure",
    "compaction",
    "identical-prompts",
    "mid-turn",
    "nested",
    "never-ends",
    "ordinary",
    "resumed-child",
    "sent-and-failed",
    "sent-without-waiting",
    "single",
    "stopped-child",
)
_DRAIN_TIMEOUT = {"never-ends": 8.0}
_MORE_PROMPTS = {"compaction": ("Go on.",)}
_KEPT_LINE = re.compile(
    r"\[?n0n|session_(?:key|id): |</?prompt-data>|status: |"
    r"<<<(?:BEGIN|END)_OPENCLAW|\[Inter-session message\]|"
    r"The answer|An answer|Another answer|A third answer|Answer |CHILD-|GRAND-|ROOT-"
)
"""Lines of user messages that the adapter reads or that our own scripts wrote; all others are the harness's prose."""
_EVENT = ["type", "id", "parentId", "customType", "version"]
_MESSAGE = [
    "role",
    "toolCallId",
    "toolName",
    "isError",
    "idempotencyKey",
    "provenance",
    "__openclaw",
    "model",
    "provider",
    "api",
    "stopReason",
    "responseId",
]
_DETAILS = [
    "status",
    "childSessionKey",
    "runId",
    "taskRunId",
    "sessionKey",
    "mode",
    "delivery",
    "sentBeforeError",
    "taskId",
    "cancelled",
]
_RUN = [
    "runId",
    "taskRunId",
    "childSessionKey",
    "controllerSessionKey",
    "requesterSessionKey",
    "label",
    "spawnMode",
    "expectsCompletionMessage",
    "completionRequesterSessionId",
    "generation",
    "execution",
    "completion",
    "delivery",
    "endedReason",
    "cleanupCompletedAt",
]


def main() -> int:
    """Records the scenarios that the adapter's tests read, or those named."""
    parser = argparse.ArgumentParser(description="Record the OpenClaw fixtures anew.")
    parser.add_argument("scenarios", nargs="*", default=RECORDED)
    for name in parser.parse_args().scenarios:
        with tempfile.TemporaryDirectory() as directory:
            record(name, Path(directory))
        sys.stderr.write(f"{name}: recorded\n")
    return 0


def record(name: str, directory: Path) -> None:
    """Runs one scenario below `directory` and replaces its fixture."""
    prompts = _MORE_PROMPTS.get(name, ())
    drain = _DRAIN_TIMEOUT.get(name, 120.0)
    with HarnessRun("openclaw", VERSION, SCENARIOS[name](), directory, *prompts, drain_timeout=drain) as run:
        code, err = run.finish()
    if code != 0:
        raise SystemExit(f"{name}: {err}")
    owners = {item.nonce: str(item.owner) for item in run.provider.truth.records}
    write_fixture(run.attempt, owners, FIXTURES / name)


def write_fixture(attempt: Path, owners: Mapping[str, str], target: Path) -> None:
    """The sanitised records of a published attempt, and who made each of its calls."""
    shutil.rmtree(target, ignore_errors=True)
    native = attempt / "raw" / "native"
    for source in sorted(native.rglob("*.jsonl")):
        if source.name != "stdout.jsonl":
            _write_lines(source, target / "native" / source.relative_to(native))
    launcher = json.loads((native / "launcher.json").read_text(encoding="utf-8"))
    _write_json(target / "native" / "launcher.json", {name: launcher[name] for name in ("root_native_id", "from")})
    calls = map(json.loads, (attempt / "calls.jsonl").read_text(encoding="utf-8").splitlines())
    _write_json(target / "calls.json", [_call(call, owners) for call in calls])


def _write_lines(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    lines = (json.dumps(_row(row), ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    target.write_text("".join(lines), encoding="utf-8")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    for column, sanitised in (("event_json", _event), ("event_zstd", _event), ("payload_json", _run)):
        if isinstance(row.get(column), str):
            row[column] = json.dumps(sanitised(json.loads(row[column])), ensure_ascii=False, separators=(",", ":"))
    return row


def _event(event: dict[str, Any]) -> dict[str, Any]:
    kept = {name: event[name] for name in _EVENT if name in event}
    if isinstance(event.get("__openclaw"), dict):
        kept["__openclaw"] = event["__openclaw"]
    if "message" in event:
        kept["message"] = _message(event["message"])
    return kept


def _message(message: dict[str, Any]) -> dict[str, Any]:
    kept = {name: message[name] for name in _MESSAGE if name in message}
    if isinstance(message.get("details"), dict):
        kept["details"] = {name: message["details"][name] for name in _DETAILS if name in message["details"]}
    content = message.get("content")
    if isinstance(content, str):
        kept["content"] = _neutral(content)
    elif message.get("role") == "assistant" and isinstance(content, list):
        kept["content"] = [
            {name: block[name] for name in ("type", "id", "name", "text") if name in block} for block in content
        ]
    return kept


def _neutral(text: str) -> str:
    return "\n".join(
        line if not line or _KEPT_LINE.search(line) else "(words of the harness)" for line in text.split("\n")
    )


def _run(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: payload[name] for name in _RUN if name in payload}


def _call(call: Mapping[str, Any], owners: Mapping[str, str]) -> dict[str, Any]:
    head = {name: value for name, value in call.items() if name not in ("context", "context_raw")}
    [nonce] = nonces_in(json.dumps(head))
    identity = {name: call["native_identity"].get(name) for name in ("session_id", "run_id", "logical_call_id")}
    return {"owner": owners[nonce], "response_id": call["response_id"], **identity}


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
