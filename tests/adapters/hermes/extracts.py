"""Makes the two extracts of a Hermes run by hand, line by line, and has the adapter read them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roller_capture.adapters.hermes import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture

ROOT = "20261101_120000_aaaaaa"
CHILD = "20261101_120001_bbbbbb"
OTHER = "20261101_120002_cccccc"
TOOL = "call_1"

Row = dict[str, Any]


def session(session_id: str, parent: str | None = None, **more: Any) -> Row:
    """A row of `sessions`; one with a parent is marked as that one's child."""
    row: Row = {
        "table": "sessions",
        "id": session_id,
        "source": "cli",
        "parent_session_id": parent,
        "model_config": "{}",
    }
    if parent is not None:
        row.update(source="subagent", model_config=json.dumps({"_delegate_from": parent}))
    return {**row, "end_reason": "agent_close", **more}


def message(session_id: str, role: str, content: str | None = "", **more: Any) -> Row:
    """A row of `messages`."""
    return {"table": "messages", "session_id": session_id, "role": role, "content": content, "compacted": 0, **more}


def delegating(session_id: str, tool_id: str = TOOL, name: str = "delegate_task", **more: Any) -> Row:
    """An assistant's row with one tool call."""
    calls = [{"id": tool_id, "type": "function", "function": {"name": name, "arguments": "{}"}}]
    return message(session_id, "assistant", tool_calls=json.dumps(calls), finish_reason="tool_calls", **more)


def result(session_id: str, *parts: Mapping[str, Any], tool_id: str = TOOL, **more: Any) -> Row:
    """The tool row of a delegation."""
    content = json.dumps({"results": list(parts)})
    return message(session_id, "tool", content, tool_call_id=tool_id, tool_name="delegate_task", **more)


def part(index: int = 0, status: str = "completed", exit_reason: str = "completed") -> Row:
    """One child's part of such a row."""
    return {"task_index": index, "status": status, "exit_reason": exit_reason}


def event(kind: str, session_id: str, **more: Any) -> Row:
    """A line of the plugin's log."""
    return {"event": kind, "session_id": session_id, **more}


def started(child: str = CHILD, parent: str = ROOT, tool_id: str = TOOL, index: int = 0) -> Row:
    """A child that the plugin saw start."""
    subagent = f"sa-{index}-0123abcd"
    return event("child", child, parent_session_id=parent, tool_call_id=tool_id, subagent_id=subagent)


def turn(session_id: str, *, answered: bool = True, completed: bool = True, ended: bool = True) -> list[Row]:
    """A turn of one request, with the events that Hermes's hooks give."""
    turn_id, request_id = f"{session_id}:t1", f"{session_id}:t1:api:1"
    own = {"turn_id": turn_id, "origin": "turn"}
    found = [event("turn", session_id, **own), event("request", session_id, request_id=request_id, **own)]
    if answered:
        found.append(event("response", session_id, request_id=request_id, response_id=f"resp-{session_id}"))
        found.append(event("output", session_id, request_id=request_id, origin="turn"))
    else:
        found.append(event("error", session_id, request_id=request_id, status=500, reason="server_error"))
    if ended:
        found.append(event("turn_end", session_id, completed=completed, interrupted=False, **own))
    return found


@dataclass
class Extracts:
    """The lines of a run; the defaults are a root with one child that ended well."""

    state: list[Row] = field(
        default_factory=lambda: [
            session(ROOT),
            session(CHILD, ROOT),
            message(ROOT, "user", "x"),
            delegating(ROOT),
            message(CHILD, "assistant", "x", finish_reason="stop"),
            result(ROOT, part()),
            message(ROOT, "assistant", "x", finish_reason="stop"),
        ]
    )
    plugin: list[Row] = field(
        default_factory=lambda: [
            {"event": "hook", "hook_version": 1, "harness_version": "0.19.0"},
            *turn(ROOT),
            started(),
            *turn(CHILD),
        ]
    )

    def write(self, folder: Path) -> Path:
        """Lays the extracts down as a launcher does."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in (("state.jsonl", self.state), ("plugin.jsonl", self.plugin)):
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return folder

    def read(self, folder: Path, *seen: str, launcher: Mapping[str, object] | None = None) -> NativeCapture:
        """What the adapter makes of them; `seen` are the sessions on the wire."""
        return read_folder(self.write(folder), *(seen or (ROOT, CHILD)), launcher=launcher)


def read_folder(folder: Path, *seen: str, launcher: Mapping[str, object] | None = None, **more: Any) -> NativeCapture:
    """What the adapter makes of a folder."""
    headers = {"x-roller-session": frozenset(seen), "x-roller-task": frozenset({"turn"})}
    return read(AdapterInput(folder, headers, launcher or {}, **more))


def gap_codes(native: NativeCapture) -> set[str]:
    """The gaps by code."""
    return {gap.code.value for gap in native.gaps}


def relation_types(native: NativeCapture) -> list[str]:
    """The relations by type, sorted."""
    return sorted(relation.type.value for relation in native.relations)
