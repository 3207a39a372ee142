"""The recorded runs of all harnesses in one form, and what the finalizer would make of an adapter's answer about them.

`calls.json` is the provider's own record of a run: who asked, what the request carried, and what was answered.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roller_capture import json_text
from roller_capture.adapter_registry import find_adapter
from roller_capture.adapters.generic import LOG_NAME
from roller_capture.capture_protocol import AdapterInput, NativeCapture, WireCall
from roller_capture.finalizer.adapter_check import checked
from roller_capture.finalizer.coverage import native_output_coverage
from roller_capture.finalizer.identity import Attributor
from roller_capture.finalizer.statuses import lifecycle
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.vocabulary import ExecutionStatus
from tests.support.attempts import AttemptBuilder, message_body, request_body
from tests.support.surveyed import surveyed

_FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "harness"
_MORE = {"claude-code": Path(__file__).parent / "claude_code" / "recorded"}
_OPENCLAW_HEADERS = {
    "session_id": "x-roller-session-id",
    "run_id": "x-roller-run-id",
    "logical_call_id": "x-roller-request-id",
}

_TYPICAL = {
    "claude-code": "2.1.332/nested",
    "opencode": "1.18.33/nested",
    "codex": "0.171.0/nested",
    "hermes": "0.19.0/nested",
    "openclaw": "2026.9.6/nested",
    "pi": "1.6.0/compaction",
    "deepseek": "0.2.1rc2/nested-allowed",
    "generic": "headers-and-log",
}

LAUNCHER = "launcher.json"


@dataclass(frozen=True)
class RecordedCall:
    """One request: whose it was, what it carried and what was answered."""

    owner: str
    headers: Mapping[str, str]
    response_id: str | None
    tools: tuple[tuple[str, str | None], ...]
    completed: bool


@dataclass(frozen=True)
class Recording:
    """One recorded run. `files` are its native logs, by their paths below the native root."""

    harness: str
    name: str
    calls: tuple[RecordedCall, ...]
    files: Mapping[str, bytes]

    def write(self, root: Path) -> None:
        """Puts the native logs below `root`."""
        for name, content in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)

    def attempt(self, folder: Path) -> Path:
        """The working files that a recorder would have left of these calls in `folder`, without native logs."""
        builder = AttemptBuilder(folder, self.harness)
        for call in self.calls:
            headers = tuple(call.headers.items())
            ours = tuple(pair for pair in headers if pair[0].startswith("x-roller-"))
            theirs = tuple(pair for pair in headers if pair not in ours)
            if call.response_id is None and not call.completed:
                builder.call(request_body(), _REFUSAL, status=500, session=None, headers=theirs, roller_headers=ours)
                continue
            tools = tuple((tool_id, name) for name, tool_id in call.tools if tool_id)
            builder.call(
                request_body(), _answer(call.response_id, tools), session=None, headers=theirs, roller_headers=ours
            )
        return builder.build()

    def read(self, root: Path, scratch: Path) -> NativeCapture:
        """What the adapter, held to its contract, makes of the logs below `root`."""
        adapter = find_adapter(self.harness)
        assert adapter is not None
        return checked(adapter(AdapterInput(root, self._wire(), _launcher(root), scratch, self._wire_calls())))

    def _wire(self) -> dict[str, frozenset[str]]:
        seen: dict[str, set[str]] = {}
        for call in self.calls:
            for header, value in call.headers.items():
                seen.setdefault(header, set()).add(value)
        return {header: frozenset(values) for header, values in seen.items()}

    def _wire_calls(self) -> tuple[WireCall, ...]:
        return tuple(
            WireCall({name: (value,) for name, value in call.headers.items()}, line)
            for line, call in enumerate(self.calls, 1)
        )


_REFUSAL = b'{"type":"error","error":{"type":"api_error","message":"x"}}'


def _answer(response_id: str | None, tools: tuple[tuple[str, str], ...]) -> bytes:
    answer = json.loads(message_body(response_id or "unsaid", tools=tools))
    return json.dumps({name: value for name, value in answer.items() if name != "id" or response_id}).encode()


def _launcher(root: Path) -> Mapping[str, object]:
    """As `finalize` reads it: what is no JSON object is as good as none."""
    try:
        value = json_text.parse((root / LAUNCHER).read_bytes())
    except (OSError, json_text.JsonError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Verdict:
    """What a run's capture says: the participant of each call, the relations, and why it is not complete."""

    owners: tuple[str | None, ...]
    relations: Counter[tuple[str, str | None, str, str | None]]
    """Type, parent, child and tool call of each relation."""
    native_ids: Mapping[str, frozenset[tuple[str, str]]]
    """The native ids of each participant, by kind."""
    outputs: int
    reasons: Counter[str]

    @classmethod
    def of(cls, recording: Recording, native: NativeCapture) -> "Verdict":
        """The verdict of the common steps on an adapter's answer."""
        calls = [_surveyed(call) for call in recording.calls]
        attributor = Attributor(native, calls)
        identities = [attributor.attribute(call) for call in calls]
        coverage = native_output_coverage(native.coverage, calls, identities)
        keys = {item.key: item.key for item in native.participants}
        life = lifecycle(native.participants, keys, native.subtasks, native.lifecycle)
        reasons = Counter(f"{gap.code.value}: {gap.message}" for gap in native.gaps)
        reasons += Counter(identity.status.value for identity in identities if identity.participant_key is None)
        reasons[f"coverage by {coverage.key} {coverage.status.value} {coverage.missing}"] += 1
        reasons[f"lifecycle {life.status}"] += 1
        return cls(
            tuple(identity.participant_key for identity in identities),
            Counter((item.type.value, item.parent_key, item.child_key, item.tool_call_id) for item in native.relations),
            {
                item.key: frozenset((kind, one) for kind, ids in item.native_ids.items() for one in ids)
                for item in native.participants
            },
            coverage.expected,
            reasons,
        )


def _surveyed(call: RecordedCall) -> SurveyedCall:
    status = ExecutionStatus.COMPLETED if call.completed else ExecutionStatus.INTERRUPTED
    return surveyed(
        call.response_id,
        session=None,
        tools=tuple((tool_id, name) for name, tool_id in call.tools if tool_id is not None),
        recorded={"roller_headers": list(call.headers.items())},
        response={"execution_status": status},
    )


@cache
def recordings(harness: str) -> tuple[Recording, ...]:
    """All recorded runs of a harness, by name."""
    if harness == "generic":
        return (_people_s_own_agent(),)
    folders = sorted((_FIXTURES / harness).glob("*/*"))
    folders += sorted(_MORE[harness].glob("*/*")) if harness in _MORE else []
    return tuple(_recorded(harness, folder) for folder in folders if (folder / "calls.json").exists())


def typical(harness: str) -> Recording:
    """A run with a child and a grandchild, where the harness delegates."""
    return next(item for item in recordings(harness) if item.name == _TYPICAL[harness])


def _recorded(harness: str, folder: Path) -> Recording:
    calls = json.loads((folder / "calls.json").read_bytes())
    native = folder / "native"
    files = {
        path.relative_to(native).as_posix(): path.read_bytes() for path in sorted(native.rglob("*")) if path.is_file()
    }
    return Recording(harness, f"{folder.parent.name}/{folder.name}", tuple(map(_call, calls)), files)


def _call(call: dict[str, Any]) -> RecordedCall:
    headers = dict(call.get("headers", {}))
    headers |= {header: call[name] for name, header in _OPENCLAW_HEADERS.items() if call.get(name)}
    answered = call.get("status", 200) == 200
    whole = call.get("terminal_sent", True) is True and call.get("delivered", "complete") == "complete"
    tools = tuple((name.rpartition("/")[2], tool_id) for name, tool_id in call.get("tools", []))
    owner = call.get("owner") or headers.get("x-claude-code-agent-id", "root")
    return RecordedCall(owner, headers, call.get("response_id") if answered else None, tools, answered and whole)


def _people_s_own_agent() -> Recording:
    """A run of an agent that sends headers and keeps a log: a child, and a grandchild in the background."""
    root, child, grandchild = "run-root", "run-child", "run-grandchild"

    def call(owner: str, number: int, **headers: str) -> RecordedCall:
        sent = {f"x-roller-{name.replace('_', '-')}": value for name, value in headers.items()}
        return RecordedCall(owner, {"x-roller-session": owner, **sent}, f"resp-{number}", (), True)

    origin = {"parent_session": root, "delegation_tool_id": "call-1"}
    below = {"parent_session": child, "delegation_tool_id": "call-2"}
    calls = (
        call(root, 1),
        call(child, 2, **origin),
        call(grandchild, 3, **below),
        call(child, 4, **origin),
        call(root, 5, run_id="run-9"),
    )
    log: list[dict[str, Any]] = [
        {"event": "log", "agent_version": "1.0.0"},
        {"event": "session", "session": root},
        {"event": "session", "session": child, "parent": root, "delegation_tool_id": "call-1"},
        {"event": "session", "session": grandchild, "parent": child, "delegation_tool_id": "call-2"},
        *({"event": "output", "session": item.owner, "response_id": item.response_id} for item in calls),
        {"event": "acknowledged", "session": grandchild, "delegation_tool_id": "call-2"},
        {"event": "ended", "session": grandchild, "status": "completed", "outcome": "done"},
        {"event": "ended", "session": child, "status": "completed", "delegation_tool_id": "call-1"},
        {"event": "delivered", "session": child, "delegation_tool_id": "call-1"},
        {"event": "delivered", "session": grandchild, "to": root, "run_id": "run-9", "text": "All is done."},
        {"event": "ended", "session": root, "status": "completed"},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in log)
    return Recording("generic", "headers-and-log", calls, {LOG_NAME: lines.encode()})
