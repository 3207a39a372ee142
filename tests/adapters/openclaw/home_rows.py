"""Builds the extracts of a home row by row, as the launcher would have taken them out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from roller_capture.adapters.openclaw import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.vocabulary import LifecycleStatus

ROOT_ID = "11111111-0000-4000-8000-000000000001"
ROOT = f"agent:main:explicit:{ROOT_ID}"
ROOT_RUN = "21111111-0000-4000-8000-000000000001"
CHILD_ID = "31111111-0000-4000-8000-000000000001"
CHILD = "agent:main:subagent:41111111-0000-4000-8000-000000000001"
CHILD_RUN = "51111111-0000-4000-8000-000000000001"
SPAWN_CALL = "call_spawn"
WIRE_ID = "callspawn"
V1 = f"announce:v1:{CHILD}:{CHILD_RUN}"
SETTLE = f"announce:requester-settle:main:{ROOT}:{CHILD_RUN}:yield-1"
RESULT = "The answer is 41."
VERSION = "2026.9.6"


class HomeRows:
    """The rows of one agent's database, of the registry, and of the hook's log."""

    def __init__(self) -> None:
        self.agent: list[dict[str, Any]] = [_version()]
        self.registry: list[dict[str, Any]] = [_version()]
        self.hook: list[dict[str, Any]] = []
        self._entries: dict[str, int] = {}

    def session(self, key: str, session_id: str, spawned_by: str | None = None, **more: Any) -> Self:
        """A session with its rows in both tables."""
        common = {"session_key": key, "spawned_by": spawned_by, "parent_session_key": spawned_by}
        self.agent.append({"table": "session_windows", "session_id": session_id, **common})
        node = {"table": "session_nodes", "current_session_id": session_id, "status": "done", **common}
        self.agent.append({**node, "created_via": "spawn" if spawned_by else "run", **more})
        return self

    def event(self, session_id: str, event: object, **row: Any) -> Self:
        """One event of a transcript; objects get an id and a predecessor."""
        seq = self._entries[session_id] = self._entries.get(session_id, 0) + 1
        if isinstance(event, dict):
            parent = f"{session_id[:8]}-{seq - 1}" if seq > 1 else None
            event = {"id": f"{session_id[:8]}-{seq}", "parentId": parent, **event}
        text = event if isinstance(event, str) else json.dumps(event)
        values = {"event_json": text, "event_zstd": None, **row}
        self.agent.append({"table": "transcript_events", "session_id": session_id, "seq": seq, **values})
        return self

    def message(self, session_id: str, message: Mapping[str, Any]) -> Self:
        """A message event."""
        return self.event(session_id, {"type": "message", "message": dict(message)})

    def user(self, session_id: str, key: str, text: str = "Do it.", source: tuple[str, str] | None = None) -> Self:
        """A user message that began the run of `key`; `source`: the tool that sent it, and the session it came from."""
        message = {"role": "user", "content": text, "idempotencyKey": key}
        if source is not None:
            message["provenance"] = {"kind": "inter_session", "sourceTool": source[0], "sourceSessionKey": source[1]}
        return self.message(session_id, message)

    def answer(
        self, session_id: str, response_id: str | None, run_id: str = ROOT_RUN, *calls: tuple[str, str], **more: Any
    ) -> Self:
        """An assistant message; `calls` are (tool id, name)."""
        blocks = [{"type": "toolCall", "id": tool_id, "name": name, "arguments": {}} for tool_id, name in calls]
        message: dict[str, Any] = {"role": "assistant", "content": blocks, "model": "m", "provider": "roller"}
        message |= {"stopReason": "toolUse" if calls else "stop", "__openclaw": {"runId": run_id}}
        return self.message(session_id, {**message, **({"responseId": response_id} if response_id else {}), **more})

    def result(self, session_id: str, tool_id: str, name: str, details: Mapping[str, Any], **more: Any) -> Self:
        """A tool result."""
        message = {"role": "toolResult", "toolCallId": tool_id, "toolName": name, "details": dict(details)}
        return self.message(session_id, {**message, "isError": False, **more})

    def run(self, payload: Mapping[str, Any] | None = None, **row: Any) -> Self:
        """A row of the registry: the child's, ended well and delivered, unless told otherwise."""
        whole: dict[str, Any] = {
            "runId": CHILD_RUN,
            "taskRunId": CHILD_RUN,
            "childSessionKey": CHILD,
            "requesterSessionKey": ROOT,
            "expectsCompletionMessage": True,
            "execution": {"status": "terminal", "outcome": {"status": "ok"}},
            "completion": {"resultText": RESULT},
            "delivery": {"status": "delivered"},
            "endedReason": "subagent-complete",
            "cleanupCompletedAt": 1,
            **(payload or {}),
        }
        keys = {"run_id": whole["runId"], "child_session_key": CHILD, "requester_session_key": ROOT}
        self.registry.append({"table": "subagent_runs", **keys, "payload_json": json.dumps(whole), **row})
        return self

    def task(self, run_id: str, status: str = "succeeded", key: str = CHILD, runtime: str = "cli") -> Self:
        """A row of the table of tasks."""
        row = {"run_id": run_id, "runtime": runtime, "status": status, "child_session_key": key}
        self.registry.append({"table": "task_runs", **row})
        return self

    def tool_ids(self, response_id: str, *ids: str, session_id: str = ROOT_ID) -> Self:
        """The hook's note of the ids under which a message's tool calls were sent."""
        self.hook.append({"event": "tool_ids", "session_id": session_id, "response_id": response_id, "ids": list(ids)})
        return self

    def stream(self, session_id: str) -> Self:
        """The hook's note of one stream context."""
        self.hook.append({"event": "stream", "session_id": session_id})
        return self

    def write(self, folder: Path) -> Path:
        """Lays the extracts down. Rows that are text are written as they stand."""
        for name, rows in (
            ("agents/main/openclaw-agent.jsonl", self.agent),
            ("state/openclaw.jsonl", self.registry),
            ("roller-hook.jsonl", self.hook),
        ):
            if rows:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return folder

    def read(self, folder: Path, **options: Any) -> NativeCapture:
        """What the adapter makes of it."""
        return read_native(self.write(folder / "native"), folder, **options)


def read_native(
    native: Path | None,
    scratch: Path,
    *,
    sessions: frozenset[str] = frozenset({ROOT_ID, CHILD_ID}),
    run_ids: frozenset[str] | None = None,
    launcher: Mapping[str, Any] | None = None,
) -> NativeCapture:
    """The adapter's answer for requests that carried these ids; by default the announcements that stand in the logs."""
    if run_ids is None:
        files = native.rglob("*") if native is not None else ()
        logs = b"".join(path.read_bytes() for path in files if path.is_file())
        run_ids = frozenset(one for one in (V1, SETTLE) if one.encode() in logs)
    inner = scratch / "scratch"
    inner.mkdir(exist_ok=True)
    headers = {"x-roller-session-id": sessions, "x-roller-run-id": run_ids}
    return read(AdapterInput(native, headers, {"root_native_id": ROOT_ID} if launcher is None else launcher, inner))


def accepted(**more: Any) -> dict[str, Any]:
    """The details of a spawn that was accepted."""
    return {"status": "accepted", "childSessionKey": CHILD, "runId": CHILD_RUN, "mode": "run", **more}


def one_child(announcement: str = SETTLE, *, answered: bool = True) -> HomeRows:
    """A root that spawned one child, which ended well; the announcement's message and answer are in the root's log."""
    rows = HomeRows().session(ROOT, ROOT_ID).session(CHILD, CHILD_ID, ROOT)
    rows.user(ROOT_ID, f"{ROOT_RUN}:user")
    rows.answer(ROOT_ID, "resp_1", ROOT_RUN, (SPAWN_CALL, "sessions_spawn"))
    rows.result(ROOT_ID, SPAWN_CALL, "sessions_spawn", accepted())
    rows.answer(ROOT_ID, "resp_2", ROOT_RUN, ("call_yield", "sessions_yield"))
    rows.user(CHILD_ID, f"{CHILD_RUN}:user").answer(CHILD_ID, "resp_3", CHILD_RUN)
    if announcement:
        rows.user(ROOT_ID, f"{announcement}:user", f"It has ended.\n{RESULT}")
    if announcement and answered:
        rows.answer(ROOT_ID, "resp_4", announcement)
    rows.tool_ids("resp_1", WIRE_ID).run()
    for session_id in (ROOT_ID, ROOT_ID, CHILD_ID, ROOT_ID):
        rows.stream(session_id)
    return rows


def gap_codes(native: NativeCapture) -> set[str]:
    """The codes of the gaps."""
    return {gap.code.value for gap in native.gaps}


def relation_types(native: NativeCapture) -> list[str]:
    """The types of the relations, in order."""
    return [relation.type.value for relation in native.relations]


def _version() -> dict[str, Any]:
    return {"table": "schema_meta", "meta_key": "primary", "app_version": VERSION}


def lifecycle_of(native: NativeCapture, key: str = CHILD) -> LifecycleStatus:
    """How a participant's lifecycle stands."""
    return next(item.lifecycle for item in native.participants if item.key == key)
