"""Records the fixtures of the Pi adapter anew: `python -m scripts.record_pi_fixtures [NAME…]`.

Runs the pinned, installed harness (scripts/install_harness.sh) through `collect` against the scripted provider, and
writes what it left behind, sanitised, to tests/fixtures/harness/pi/VERSION/NAME:

    native/sessions/…     the session log
    native/launcher.json  {"root_native_id", "from", "harness_version"}
    calls.json            the provider's record, one entry per model request, with the identity headers of the request
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from roller_capture.adapters.pi.identity import HOOK_LEAF, HOOK_VERSION, SESSION_HEADERS
from roller_capture.scripted_provider.pi_scenarios import SCENARIOS
from roller_capture.scripted_provider.request import nonces_in
from roller_capture.vocabulary import Protocol
from tests.support.harness_run import HarnessRun, read_json

VERSION = "1.6.0"
FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "harness" / "pi" / VERSION
_HEADERS = (*SESSION_HEADERS, HOOK_LEAF, HOOK_VERSION)
_LONGEST_TEXT = 120


class Recording(NamedTuple):
    """What is run for one fixture."""

    scenario: str
    protocol: Protocol = Protocol.OPENAI_CHAT_COMPLETIONS
    more_prompts: tuple[str, ...] = ()


RECORDINGS: Mapping[str, Recording] = {
    "ordinary": Recording("ordinary"),
    "ordinary-responses": Recording("ordinary", Protocol.OPENAI_RESPONSES),
    "ordinary-messages": Recording("ordinary", Protocol.ANTHROPIC_MESSAGES),
    "tool-error": Recording("tool-error"),
    "refused-delegation": Recording("refused-delegation"),
    "compaction": Recording("compaction"),
    "compaction-messages": Recording("compaction", Protocol.ANTHROPIC_MESSAGES),
    "cross-process-resume": Recording("cross-process-resume", more_prompts=("And once more.",)),
    "cut-stream": Recording("cut-stream"),
    "cut-always": Recording("cut-always"),
    "error-event-messages": Recording("error-event", Protocol.ANTHROPIC_MESSAGES),
    "http-400": Recording("http-400"),
    "http-500": Recording("http-500"),
    "max-tokens": Recording("max-tokens"),
    "without-response-ids": Recording("without-response-ids"),
    "killed": Recording("killed"),
}


def main() -> int:
    """Records all fixtures, or those named."""
    parser = argparse.ArgumentParser(description="Record the Pi fixtures anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them unless given")
    names = parser.parse_args().names or list(RECORDINGS)
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            record(RECORDINGS[name], Path(directory) / "run", FIXTURES / name)
        size = sum(path.stat().st_size for path in (FIXTURES / name).rglob("*") if path.is_file())
        sys.stderr.write(f"{name}: {size} bytes\n")
    return 0


def record(recording: Recording, directory: Path, target: Path) -> None:
    """Runs it below `directory` and replaces the fixture `target`."""
    scenario = SCENARIOS[recording.scenario]()
    with HarnessRun("pi", VERSION, scenario, directory, *recording.more_prompts, protocol=recording.protocol) as run:
        if scenario.kill_when is not None:
            run.until_held()
            run.process.send_signal(signal.SIGTERM)
        run.finish()
    capture = run.capture()
    shutil.rmtree(target, ignore_errors=True)
    raw = run.attempt / "raw" / "native"
    for log in raw.glob("sessions/*/*.jsonl"):
        inner = target / "native" / "sessions" / "--work--" / log.name
        inner.parent.mkdir(parents=True)
        lines = [json.dumps(sanitised(json.loads(line))) for line in log.read_text(encoding="utf-8").splitlines()]
        inner.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    facts = read_json(raw / "launcher.json")
    launcher = {name: facts[name] for name in ("root_native_id", "from", "harness_version")}
    _write_json(target / "native" / "launcher.json", launcher)
    by_nonce = {_nonce(call): call["http"]["request_headers"] for call in capture.calls}
    _write_json(
        target / "calls.json",
        [
            {
                **record.to_json(),
                "headers": {name: values[0] for name, values in by_nonce[record.nonce].items() if name in _HEADERS},
            }
            for record in capture.truth
        ],
    )


def _nonce(call: Mapping[str, Any]) -> str:
    [nonce] = nonces_in(json.dumps({name: value for name, value in call.items() if name != "context"}))
    return nonce


def sanitised(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without the harness's own prose and this machine's paths: ids, words and our own texts are left."""
    kept = {name: value for name, value in entry.items() if name not in ("details", "systemMessage", "summary")}
    if "cwd" in kept:
        kept["cwd"] = "/work"
    if "summary" in entry:
        kept["summary"] = "A summary."
    message = entry.get("message")
    if isinstance(message, dict):
        kept["message"] = _sanitised_message(message)
    return kept


def _sanitised_message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in message.items() if name not in ("sections", "details", "toolsAdded")}
    if "toolsAdded" in message:
        kept["toolsAdded"] = [{"name": tool["name"]} for tool in message["toolsAdded"]]
    if "errorMessage" in message:
        kept["errorMessage"] = "An error."
    if message.get("role") == "toolResult":
        kept["content"] = [{"type": "text", "text": "A result."}]
    elif isinstance(message.get("content"), list):
        kept["content"] = [
            {**block, "text": block["text"][:_LONGEST_TEXT]} if "text" in block else block
            for block in message["content"]
        ]
    return kept


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
