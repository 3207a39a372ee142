"""Records the Codex fixtures anew: python -m scripts.record_codex_fixtures [NAME...]

Runs the pinned Codex through `collect` against the scripted provider, and writes what it left behind, without foreign
prose, to tests/fixtures/harness/codex/VERSION/NAME:

    native/sessions/…     rollouts: ids, types, numbers, our own words and the harness's structural wrappers
    native/launcher.json  {"root_native_id", "from"}
    calls.json            the provider's record: one entry per model request, with its owner and identity headers

Of each record only the members that a reader of rollouts needs are kept, by an allow-list; other text is an ellipsis.
"""

import argparse
import dataclasses
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roller_capture.harnesses import HARNESSES
from roller_capture.scripted_provider import TruthRecord
from roller_capture.scripted_provider.codex_scenarios import ARGUMENTS, ROOT, SCENARIOS
from tests.support.harness_run import HarnessRun

VERSION = "0.171.0"
FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "codex" / VERSION

_V2 = ("--enable", "multi_agent_v2")
RECORDED: Mapping[str, tuple[str, tuple[str, ...], str | None, str | None]] = {
    **{
        name: (name, (), None, None)
        for name in (
            "single",
            "identical-prompts",
            "one-wait-for-two",
            "child-failure-400",
            "abandoned",
            "nested",
            "resumed-child",
            "stopped-child",
            "reopened-child",
            "forked-late",
            "cut-spawn",
            "compaction",
            "cross-process-resume",
            "guardian",
        )
    },
    **{
        f"{name}-v2": (name, _V2, None, None)
        for name in (
            "single",
            "parallel",
            "child-failure-400",
            "resumed-child",
            "stopped-child",
            "stopped-again",
            "forked-late",
        )
    },
    "nested-code-mode": ("nested", (), "gpt-6-sol", None),
    "review": ("review", (), None, "review"),
}
"""By name: the scenario, further arguments, the model, the profile."""

_GAP = "…"
_KEPT_PAYLOAD: Mapping[str, frozenset[str]] = {
    "session_meta": frozenset(
        [
            "session_id",
            "id",
            "parent_thread_id",
            "forked_from_id",
            "timestamp",
            "cwd",
            "originator",
            "cli_version",
            "source",
            "thread_source",
            "agent_path",
            "model_provider",
            "multi_agent_version",
            "history_mode",
            "subagent_history_start_ordinal",
        ]
    ),
    "turn_context": frozenset({"turn_id", "root_turn_id", "model", "multi_agent_version"}),
    "compacted": frozenset({"compaction_response_id", "window_number", "window_id"}),
    "token_usage_record": frozenset({"thread_id", "turn_id", "session_id", "root_turn_id", "response_id", "usage"}),
    "inter_agent_communication_metadata": frozenset({"trigger_turn"}),
}
_DROPPED_MEMBERS = frozenset(
    [
        "thread_settings",
        "permission_profile",
        "sandbox_policy",
        "rate_limits",
        "agent_nickname",
        "nickname",
        "receiver_agents",
        "command",
        "parsed_cmd",
        "aggregated_output",
        "process_id",
        "cwd_uri",
        "tools",
        "create_time",
        "started_at",
        "completed_at",
        "started_at_ms",
        "completed_at_ms",
        "duration_ms",
        "time_to_first_token_ms",
        "duration",
    ]
)
_FOREIGN_ROLES = ("developer", "system")
_KEPT_ITEMS = ("CollabAgentToolCall", "SubAgentActivity", "ContextCompaction")
_KEPT_MARKS = ("thread_id", "parent_thread_id", "turn_id", "request_kind", "subagent_kind", "thread_source")
_OWN_MARKS = (ROOT, "CHILD-", "GRAND-", "One thing more", "n0n")
_ERROR_NOTE = re.compile(r"(This agent's turn failed\.).*")
_WRAPPERS = ("<subagent_notification>", "Message Type: ")


def main() -> int:
    """Records all runs, or those named."""
    parser = argparse.ArgumentParser(description="Record the Codex fixtures anew.")
    parser.add_argument("names", nargs="*", default=sorted(RECORDED))
    for name in parser.parse_args().names:
        with tempfile.TemporaryDirectory() as directory:
            record(name, Path(directory), FIXTURES / name)
        size = sum(path.stat().st_size for path in (FIXTURES / name).rglob("*") if path.is_file())
        sys.stderr.write(f"{VERSION} {name}: {size} bytes\n")
    return 0


def record(name: str, directory: Path, target: Path) -> None:
    """Runs one scenario below `directory` and replaces the fixture `target`."""
    scenario, arguments, model, profile = RECORDED[name]
    prompts = (f"{ROOT}: go on.",) if scenario == "cross-process-resume" else ()
    every = (*ARGUMENTS.get(scenario, ()), *arguments)
    run = HarnessRun(
        "codex", VERSION, SCENARIOS[scenario](), directory, *prompts, harness_args=every, profile=profile, timeout=120.0
    )
    if model is not None:
        run.request = dataclasses.replace(run.request, model=model)
    with run:
        run.finish()
    native = run.attempt / "raw" / "native"
    shutil.rmtree(target, ignore_errors=True)
    for source in sorted((native / "sessions").rglob("*.jsonl")):
        _write_lines(source, target / "native" / source.relative_to(native))
    launcher = json.loads((native / "launcher.json").read_bytes())
    _write_json(target / "native" / "launcher.json", {key: launcher[key] for key in ("root_native_id", "from")})
    _write_json(target / "calls.json", [_call(record) for record in run.provider.truth.records])


def sanitised(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """One record of a rollout without foreign prose; `None` for one that says nothing of threads, turns or tools."""
    kind, payload = str(record.get("type")), record["payload"]
    item = payload.get("item")
    own_item = not isinstance(item, dict) or item.get("type") in _KEPT_ITEMS
    if kind == "world_state" or payload.get("role") in _FOREIGN_ROLES or not own_item or _is_environment(payload):
        return None
    kept = _KEPT_PAYLOAD.get(kind)
    if kept is not None:
        payload = {key: value for key, value in payload.items() if key in kept}
    members = {key: value for key, value in record.items() if key in ("timestamp", "ordinal", "type")}
    return {**members, "payload": _neutral(payload)}


def _is_environment(payload: Mapping[str, Any]) -> bool:
    return payload.get("role") == "user" and "<environment_context>" in json.dumps(payload.get("content"))


def _neutral(value: Any) -> Any:
    if isinstance(value, str):
        return _neutral_text(value)
    if isinstance(value, list):
        return [_neutral(item) for item in value]
    if isinstance(value, dict):
        return {
            key: "/workspace" if key == "cwd" else _neutral(item)
            for key, item in value.items()
            if key not in _DROPPED_MEMBERS
        }
    return value


def _neutral_text(text: str) -> str:
    """Words, ids and JSON stay; prose stays where it is ours, or in a wrapper that a reader has to match."""
    if text.startswith("{"):
        try:
            value = json.loads(text)
            neutral = _neutral(value)
            return text if neutral == value else json.dumps(neutral, separators=(",", ":"), ensure_ascii=False)
        except ValueError:
            pass
    if text.startswith(_WRAPPERS):
        return _ERROR_NOTE.sub(r"\1", text)
    return "\n".join(_neutral_line(line) for line in text.split("\n"))


def _neutral_line(line: str) -> str:
    own = any(mark in line for mark in _OWN_MARKS)
    return line if own or not any(character.isspace() for character in line.strip()) else _GAP


def _write_lines(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as stream:
        for line in source.read_text(encoding="utf-8").splitlines():
            record = sanitised(json.loads(line))
            if record is not None:
                stream.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def _call(record: TruthRecord) -> dict[str, Any]:
    entry = record.to_json()
    names = HARNESSES["codex"].identity_headers
    headers = {name: record.headers[name] for name in names if name in record.headers}
    marks = json.loads(headers["x-codex-turn-metadata"])
    headers["x-codex-turn-metadata"] = json.dumps({key: marks[key] for key in _KEPT_MARKS if key in marks})
    entry["headers"] = headers
    return entry


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
