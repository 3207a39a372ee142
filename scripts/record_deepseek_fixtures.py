"""Records the fixtures of the DeepSeek adapter anew: `python -m scripts.record_deepseek_fixtures [--only NAME…]`.

Runs the pinned, installed harness as its launcher does, against the scripted provider, once per scenario, and writes
what it left behind, sanitised, to tests/fixtures/harness/deepseek/VERSION/NAME:

    native/sessions/…     session logs, expanded
    native/launcher.json  {"root_native_id", "from", "harness_version"}
    calls.json            the provider's record: one entry per model request, with its owner and identity headers
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.deepseek import DEFAULT_PROFILE, LAUNCHER
from roller_capture.launchers.environment import harness_environment
from roller_capture.scripted_provider import ScriptedProvider, TruthRecord
from roller_capture.scripted_provider.deepseek_scenarios import ARGUMENTS, SCENARIOS
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.vocabulary import Protocol
from tests.support.harness_install import harness_binary

VERSION: Final = "0.2.1rc2"
FIXTURES: Final = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "deepseek"
_HEADERS: Final = (*LAUNCHER.traits.session_headers, "x-deepseek-harness-compact")
_WORKSPACE: Final = "/workspace"
_GAP: Final = "…"


@dataclass(frozen=True)
class Recording:
    """One run: its scenario, further prompts, and what is not the scenario's usual."""

    scenario: str
    more_prompts: tuple[str, ...] = ()
    protocol: Protocol = Protocol.ANTHROPIC_MESSAGES
    drain_timeout: float = 60.0
    profile: str = "sdk"


RECORDINGS: Final[Mapping[str, Recording]] = {
    **{
        name: Recording(name)
        for name in (
            "single",
            "background",
            "parallel",
            "tool-configs",
            "two-workflows",
            "child-failure",
            "nested-allowed",
            "resumed-child",
            "messages",
            "stopped-child",
            "cut-child",
            "killed",
        )
    },
    "fork": Recording("fork", ("Now delegate, please.",)),
    "ordinary": Recording("ordinary", profile=DEFAULT_PROFILE),
    "compaction": Recording("compaction", profile=DEFAULT_PROFILE),
    "cross-process-resume": Recording("cross-process-resume", ("And once more.",), profile=DEFAULT_PROFILE),
    "title": Recording("title", profile="headless"),
    "stopped-again": Recording("stopped-again", drain_timeout=2.0),
    "wait-ceiling": Recording("wait-ceiling", drain_timeout=2.0),
    "single-responses": Recording("single", protocol=Protocol.OPENAI_RESPONSES),
    "single-chat": Recording("single", protocol=Protocol.OPENAI_CHAT_COMPLETIONS),
    "compaction-chat": Recording("compaction-chat", protocol=Protocol.OPENAI_CHAT_COMPLETIONS),
}

_ID: Final = r"[A-Za-z0-9_.-]{8,200}"
_KEPT: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\S{0,200}",
        rf"(started subagent|message delivered to agent|interrupt requested for agent) {_ID}",
        rf"Background subagent {_ID} finished and will do no further work unless you send it more\.",
        rf"Background subagent {_ID} (failed|was stopped) before it finished\.",
        rf"Agent {_ID} sent a message: ",
        r"Its closing message:",
        r"[^\n]{0,300}\[n0n[0-9a-f]{12}n\]",  # answers of the scenarios
        r"(ROOT-TASK|CHILD-[A-Z0-9]+|GRAND-G): [^\n]{0,200}",
        r"One thing more, please\.|The answer is 42\.|And once more\.|Now delegate, please\.|a subtask",
    )
)
_DROPPED: Final = frozenset({"stream", "description", "input_schema", "inputSchema", "sections", "adapterDefaults"})


def main() -> int:
    """Records all runs, or those named."""
    parser = argparse.ArgumentParser(description="Record the DeepSeek fixtures anew.")
    parser.add_argument("--only", nargs="+", choices=sorted(RECORDINGS), default=list(RECORDINGS))
    for name in parser.parse_args().only:
        target = FIXTURES / VERSION / name
        with tempfile.TemporaryDirectory() as directory:
            record(RECORDINGS[name], Path(directory), target)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        sys.stderr.write(f"{name}: {size} bytes\n")
    return 0


def record(recording: Recording, directory: Path, target: Path) -> None:
    """Runs one scenario below `directory` and replaces the fixture `target`."""
    scenario = SCENARIOS[recording.scenario]()
    with ScriptedProvider(scenario.decide) as provider:
        settings = _settings(recording, directory, provider.url)
        for name, text in scenario.files.items():
            (settings.workdir / name).write_text(text, encoding="utf-8")
        LAUNCHER.prepare(settings)
        stdout = directory / "stdout.jsonl"
        for prompt in (scenario.prompt, *recording.more_prompts):
            ids = LAUNCHER.session_ids(stdout)
            _turn(settings, scenario, prompt, ids[0] if ids else None, stdout)
        records = provider.truth.records
    if provider.script_errors:
        raise SystemExit(f"{recording.scenario}: the script failed: {provider.script_errors}")
    shutil.rmtree(target, ignore_errors=True)
    [root] = LAUNCHER.session_ids(stdout)
    _write_native(settings, root, target / "native", {record.headers.get(_HEADERS[0], root) for record in records})
    _write_json(target / "calls.json", [_call(record) for record in records])


def _settings(recording: Recording, directory: Path, url: str) -> LaunchSettings:
    for name in ("home", "tmp", "workspace"):
        (directory / name).mkdir()
    return LaunchSettings(
        binary=harness_binary("deepseek", VERSION),
        home=directory / "home",
        temporary=directory / "tmp",
        workdir=directory / "workspace",
        base_url=url,
        key_variable="DEEPSEEK_API_KEY",
        key="no-key-of-anything",
        model="scripted-model",
        protocol=recording.protocol,
        profile=recording.profile,
        drain_timeout=recording.drain_timeout,
        arguments=ARGUMENTS.get(recording.scenario, ()),
    )


def _turn(settings: LaunchSettings, scenario: Scenario, prompt: str, session_id: str | None, stdout: Path) -> None:
    command = LAUNCHER.turn(settings, prompt, session_id)
    environment = harness_environment(command, settings.home)
    with stdout.open("ab") as stream:
        process = subprocess.Popen(
            command.arguments,
            cwd=settings.workdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            start_new_session=True,
        )
    if scenario.kill_when is not None and scenario.kill_when.wait(120):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(300)


def _write_native(settings: LaunchSettings, root: str, native: Path, session_ids: set[str]) -> None:
    copied = settings.temporary / "copied"
    copied.mkdir()
    LAUNCHER.copy_native(settings.home, copied, frozenset(session_ids | {root}))
    place = str(settings.workdir)
    for source in sorted((copied / "sessions").glob("*/*/*.jsonl")):
        target = native / "sessions" / "--workspace--" / source.parent.name / source.name
        target.parent.mkdir(parents=True)
        with target.open("w", encoding="utf-8") as stream:
            for line in source.read_text(encoding="utf-8").replace(place, _WORKSPACE).splitlines():
                stream.write(json.dumps(_sanitised(json.loads(line)), ensure_ascii=False, separators=(",", ":")) + "\n")
    facts = {"root_native_id": root, "from": "stdout.jsonl", "harness_version": VERSION}
    _write_json(native / "launcher.json", facts)


def _sanitised(record: dict[str, Any]) -> dict[str, Any]:
    """Only structure, ids, our own words, and the sentences of the harness that a reader of its logs has to know."""
    if record.get("type") == "system/message":
        record["data"]["message"]["content"] = [{"type": "text", "text": "The system prompt."}]
        return record
    if record.get("type") == "session/title-llm-request":
        return {**record, "data": {"system": "The prompt for a title."}}
    cleaned: dict[str, Any] = _cleaned(record)
    return cleaned


def _cleaned(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(item, key) for key, item in value.items() if key not in _DROPPED}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if not isinstance(value, str) or (name == "arguments" and len(value) < 2000):
        return value
    return value if any(pattern.fullmatch(value) for pattern in _KEPT) else _GAP


def _call(record: TruthRecord) -> dict[str, Any]:
    entry = record.to_json()
    entry["headers"] = {name: record.headers[name] for name in _HEADERS if name in record.headers}
    return entry


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
