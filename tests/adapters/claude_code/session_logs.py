"""Builds native logs of Claude Code in the shapes that real ones have, and shortcuts to read them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from roller_capture.adapters.claude_code import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from tests.adapters.claude_code.native_checks import assert_sound

SESSION = "11111111-2222-4333-8444-555555555555"
AGENT = "a0123456789abcdef"
Record = dict[str, Any]


def prompt(uuid: str, text: str = "Do it.", **extra: Any) -> Record:
    return {"type": "user", "uuid": uuid, "parentUuid": None, "message": {"role": "user", "content": text}} | extra


def assistant(uuid: str, parent: str | None, message_id: object, *blocks: Record, **extra: Any) -> Record:
    """One assistant record; the stop reason follows from the blocks unless `stop_reason` is given."""
    uses = any(block["type"] == "tool_use" for block in blocks)
    stop_reason = extra.pop("stop_reason", "tool_use" if uses else "end_turn")
    message = {"id": message_id, "role": "assistant", "model": "m", "content": list(blocks) or [text("An answer.")]}
    record = {
        "type": "assistant",
        "uuid": uuid,
        "parentUuid": parent,
        "message": message | {"stop_reason": stop_reason},
    }
    return record | extra


def api_error(uuid: str, parent: str | None, status: object = 500) -> Record:
    record = assistant(uuid, parent, f"uuid-of-{uuid}", text("API Error"), stop_reason="stop_sequence")
    record["message"]["model"] = "<synthetic>"
    return record | {"isApiErrorMessage": True, "apiErrorStatus": status}


def text(value: str) -> Record:
    return {"type": "text", "text": value}


def tool_use(tool_id: object, name: str = "Agent", **given: Any) -> Record:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": given}


def tool_result(uuid: str, parent: str | None, tool_id: str, content: Any = "ok", **extra: Any) -> Record:
    """A user record with one tool result; `detail` becomes `toolUseResult`."""
    detail = extra.pop("detail", None)
    block = {"type": "tool_result", "tool_use_id": tool_id, "content": content}
    if extra.pop("is_error", False):
        block["is_error"] = True
    record = {"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"role": "user", "content": [block]}}
    return record | ({"toolUseResult": detail} if detail is not None else {}) | extra


def completed(agent_id: str = AGENT) -> Record:
    return {"status": "completed", "agentId": agent_id, "content": [text("An answer.")]}


def launched(agent_id: str = AGENT) -> Record:
    return {"status": "async_launched", "isAsync": True, "agentId": agent_id}


def notification_text(agent_id: str, tool_id: str | None, status: str = "completed") -> str:
    tool = f"<tool-use-id>{tool_id}</tool-use-id>\n" if tool_id is not None else ""
    return (
        f"<task-notification>\n<task-id>{agent_id}</task-id>\n{tool}<status>{status}</status>\n"
        "<summary>It ended</summary>\n<result>An answer.</result>\n</task-notification>"
    )


def notification(uuid: str, parent: str, agent_id: str, tool_id: str | None, status: str = "completed") -> Record:
    record = prompt(uuid, notification_text(agent_id, tool_id, status), parentUuid=parent)
    return record | {"origin": {"kind": "task-notification"}}


class SessionLogs:
    """A native root that holds one session (or more) below `.claude/projects`."""

    def __init__(self, root: Path, session_id: str = SESSION, folder: str = ".claude/projects/-workspace") -> None:
        self.root = root
        self.session_id = session_id
        self.folder = root / folder

    def write_root(self, records: Iterable[Record], session_id: str | None = None) -> Path:
        session_id = session_id or self.session_id
        stamped = ({"sessionId": session_id, "version": "2.1.332", "isSidechain": False} | item for item in records)
        return write_lines(self.folder / f"{session_id}.jsonl", stamped)

    def write_agent(
        self, records: Iterable[Record], agent_id: str = AGENT, meta: object = None, below: str = "subagents"
    ) -> Path:
        folder = self.folder / self.session_id / below
        stamped = (
            {"sessionId": self.session_id, "agentId": agent_id, "isSidechain": True, "version": "2.1.332"} | item
            for item in records
        )
        if meta is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(meta))
        return write_lines(folder / f"agent-{agent_id}.jsonl", stamped)

    def read(self, *sessions: str, launcher: Record | None = None, agents: Iterable[str] = ()) -> NativeCapture:
        headers = {"x-claude-code-session-id": frozenset(sessions or (self.session_id,))}
        if agents:
            headers["x-claude-code-agent-id"] = frozenset(agents)
        native = read(AdapterInput(self.root, headers, launcher or {}))
        assert_sound(native)
        return native


def write_lines(path: Path, records: Iterable[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def foreground_run(logs: SessionLogs, *, detail: Any = None, child: Iterable[Record] | None = None) -> None:
    """A root that delegates to one child in the foreground, and the child's log."""
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            tool_result(
                "r3", "r2", "toolu_1", detail=completed() if detail is None else detail, sourceToolAssistantUUID="r2"
            ),
            assistant("r4", "r3", "msg_r2"),
        ]
    )
    default = [prompt("c1"), assistant("c2", "c1", "msg_c1")]
    logs.write_agent(default if child is None else child, meta={"agentType": "general-purpose", "toolUseId": "toolu_1"})


def owners(native: NativeCapture) -> dict[str, set[str]]:
    """Participant keys by response id."""
    found: dict[str, set[str]] = {}
    for claim in native.identity_claims:
        if claim.field == "response_id":
            found.setdefault(claim.value, set()).add(claim.participant_key)
    return found


def relation_rows(native: NativeCapture) -> list[tuple[str, str | None, str, int, str | None]]:
    """(type, parent, child, delegation, outcome) of each relation, in short."""
    return [
        (item.type.value, item.parent_key, item.child_key, item.delegation, item.outcome) for item in native.relations
    ]


def gap_codes(native: NativeCapture) -> set[str]:
    return {gap.code.value for gap in native.gaps}
