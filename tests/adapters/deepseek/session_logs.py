"""Builds session logs of DeepSeek Harness in the shapes that real ones have, and shortcuts to read them."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zstandard

from roller_capture.adapters.deepseek import read
from roller_capture.adapters.deepseek.identity import SESSION_HEADER
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from tests.adapters.claude_code.native_checks import assert_sound

ROOT = "session-11111111-2222-4333-8444-555555555555"
CHILD = "aaaaaaaa-1111-4222-8333-444444444444"
OTHER = "bbbbbbbb-1111-4222-8333-444444444444"
LOG = "session.v4.jsonl"
Record = dict[str, Any]


def header(session_id: str = ROOT, parent: str | None = None, **extra: Any) -> Record:
    record = {"type": "session", "version": 4, "id": session_id, "createdAt": 1, "cwd": "/w", "isSeeded": False}
    child = {"parentSession": parent, "origin": "subagent"} if parent is not None else {}
    return {**record, "delegationDepth": 0 if parent is None else 1, **child, **extra}


def event(kind: str, **data: Any) -> Record:
    return {"type": kind, "data": data}


def turn(*inner: Record, reason: str | None = "completed", **error: Any) -> list[Record]:
    """A turn with these records; it never ended where `reason` is `None`."""
    start = [event("turn/start", turn=1), *inner]
    told = {"kind": reason, **({"error": error} if error else {})}
    return start if reason is None else [*start, event("turn/end", turn=1, reason=told)]


def answer(message_id: str, *tool_ids: str, response_id: str | None = None, name: str = "subagent") -> Record:
    """A completed model call with these tool calls."""
    calls = [{"type": "tool-call", "id": tool_id, "name": name, "arguments": "{}"} for tool_id in tool_ids]
    replay = {"response": {"kind": "x", **({} if response_id is None else {"responseId": response_id})}}
    source = {"kind": "model", "provider": "p", "model": "m", "replayState": replay}
    return event(
        "assistant/message", message={"role": "assistant", "content": calls, "id": message_id, "source": source}
    )


def accepted(through: int, session_id: str = ROOT) -> Record:
    """The record that the provider has taken a request with all events up to this one."""
    return event(
        "session-log-deepseek/delivery-accepted", sessionId=session_id, sessionFormatVersion=4, throughSeq=through
    )


def call(tool_id: str, name: str = "subagent", **arguments: Any) -> Record:
    return event("tool/call", callId=tool_id, name=name, arguments=json.dumps(arguments))


def result(tool_id: str, text: str, *, is_error: bool = False) -> Record:
    content = [{"type": "text", "text": text}]
    return event(
        "tool/result", message={"role": "tool", "toolCallId": tool_id, "content": content, "isError": is_error}
    )


def catalog(child: str = CHILD) -> Record:
    return event("subagent/catalog", childId=child, mode="continuable", label="a subtask")


def launch(tool_id: str = "tool-1", child: str = CHILD, name: str = "subagent") -> list[Record]:
    """A delegation in the background, with its acknowledgement."""
    return [
        answer(f"m-{tool_id}", tool_id),
        call(tool_id, name),
        catalog(child),
        result(tool_id, f"started subagent {child}"),
    ]


_SUMMARIES = {
    "finished": "Background subagent {} finished and will do no further work unless you send it more.",
    "failed": "Background subagent {} failed before it finished.",
    "stopped": "Background subagent {} was stopped before it finished.",
}


def settled(
    child: str = CHILD, word: str = "finished", message_id: str = "notice-1", said: str = "An answer."
) -> Record:
    """A notice, as a message that is read."""
    summary = _SUMMARIES[word].format(child)
    texts = (summary, "Its closing message:", said)
    return event(
        "user/message",
        role="user",
        id=message_id,
        content=[{"type": "text", "text": text} for text in texts],
        source={"kind": "subagent-settled", "summary": summary, "senderSessionId": child},
    )


def arrived(message: Record) -> Record:
    """The record that a message has come in."""
    return event("agent/inbox/spliced", inserted=[message["data"]])


def sent(parent: str = ROOT, message_id: str = "sent-1") -> Record:
    """The record, in a child's log, that its parent's message has come in."""
    source = {"kind": "agent-message", "senderSessionId": parent}
    return event("agent/inbox/spliced", inserted=[{"id": message_id, "source": source, "content": []}])


def child_log(*records: Record, child: str = CHILD, parent: str = ROOT) -> list[Record]:
    return [header(child, parent), *(records or turn(answer(f"m-{child}")))]


class SessionLogs:
    """The logs below one root; `read` runs the adapter over them and checks what must always hold."""

    def __init__(self, root: Path) -> None:
        self.root = root / "native"
        self.scratch = root / "scratch"
        self.scratch.mkdir(parents=True)

    def path(self, session_id: str, folder: str = "--w--") -> Path:
        return self.root / "sessions" / folder / session_id / LOG

    def write(self, records: Iterable[Record], session_id: str | None = None, folder: str = "--w--") -> Path:
        """Writes a log under the id of its header; events without a number get the next one."""
        lines = list(records)
        path = self.path(session_id or str(lines[0]["id"]), folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as stream:
            for number, record in enumerate(lines):
                numbered = {"seq": number - 1, **record} if number else record
                stream.write(json.dumps(numbered) + "\n")
        return path

    def compress(self, session_id: str, frames: int = 3) -> Path:
        """Turns a log into a compressed one of so many frames."""
        plain = self.path(session_id)
        data = plain.read_bytes()
        size = -(-len(data) // frames)
        path = plain.with_name(f"{LOG}.zstd")
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        path.write_bytes(b"".join(compressor.compress(data[at : at + size]) for at in range(0, len(data), size)))
        plain.unlink()
        return path

    def read(self, *seen: str, launcher: dict[str, object] | None = None) -> NativeCapture:
        """The capture; requests carried these session ids."""
        scratch = self.scratch / str(len(list(self.scratch.iterdir())))
        scratch.mkdir()
        native = read(AdapterInput(self.root, {SESSION_HEADER: frozenset(seen or (ROOT,))}, launcher or {}, scratch))
        assert_sound(native)
        return native


def gap_codes(native: NativeCapture) -> set[str]:
    return {gap.code.value for gap in native.gaps}


def relation_types(native: NativeCapture) -> dict[str, int]:
    return dict(Counter(relation.type.value for relation in native.relations))


def ended(native: NativeCapture) -> dict[str, tuple[str, str]]:
    """Execution status and lifecycle of each participant."""
    return {item.key: (item.execution_status.value, item.lifecycle.value) for item in native.participants}
