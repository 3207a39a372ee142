"""Working folders of made-up Claude Code sessions: docs/working-files.md, with native logs for the real adapter.

They stand for what `mitmdump` and a launcher leave behind. The events are written at once and without waiting for the
disk, which for thousands of calls the recorder itself could not do.
"""

import hashlib
import itertools
import json
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from roller_capture.scripted_provider.anthropic_messages import events
from roller_capture.scripted_provider.content import Content, ToolCall

HARNESS: Final = "claude-code"
SESSION: Final = "11111111-2222-4333-8444-555555555555"
MODEL: Final = "scripted-model"
_VERSION: Final = "2.1.332"
_STARTED: Final = 1_790_000_000.0
_FRAME: Final = 700
"""Bytes of a request beside its system prompt and its later messages."""
_TURN: Final = 350
"""Bytes that an answer and a tool result add beside their texts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A session: `calls` in all, the root's request bodies growing from `first_body` to `last_body` bytes.

    `children` subagents, spread over the session, make `child_calls` calls each; their bodies begin like the root's
    first. `answer` is the length of an answer's text. Without growth only the last exchange stays in a request.
    """

    calls: int
    first_body: int
    last_body: int
    answer: int
    children: int = 0
    child_calls: int = 0

    @property
    def root_calls(self) -> int:
        """How many calls the root makes."""
        return self.calls - self.children * self.child_calls


def record_session(attempt: Path, shape: Shape, *, sources: bool = False) -> None:
    """Writes `attempt/work/` with all its calls, cleanly closed, and the native logs below it.

    `sources`: the root's tools return parts of Python's own sources, which repeat themselves no more than code does.
    """
    folder = _WorkingFolder(attempt)
    library = _Library() if sources else None
    opening = source_text(max(shape.first_body - _FRAME, 64))
    root = _Agent(folder, None, "Do the task.", opening, window=shape.first_body == shape.last_body)
    step = (shape.last_body - shape.first_body) // max(shape.root_calls - 1, 1)
    result = source_text(max(step - shape.answer - _TURN, 120))
    spawning = {shape.root_calls * (index + 1) // (shape.children + 1) for index in range(shape.children)}
    for number in range(1, shape.root_calls):
        if number in spawning:
            _delegate(root, folder, opening, shape, number)
        else:
            text = library.text(len(result)) if library else result
            root.result(root.ask(source_text(shape.answer), "Read", file_path=f"/src/part_{number}.py"), text)
    root.ask("All done.")
    root.log.close()
    folder.close()


def _delegate(root: "_Agent", folder: "_WorkingFolder", opening: str, shape: Shape, number: int) -> None:
    agent_id = f"a{number:016x}"
    prompt = f"Part {number} of the task."
    spawn = root.ask(
        source_text(shape.answer), "Agent", description="part", prompt=prompt, subagent_type="general-purpose"
    )
    child = _Agent(folder, agent_id, prompt, opening, window=True, spawned_by=spawn)
    for _ in range(shape.child_calls - 1):
        child.result(child.ask(source_text(shape.answer), "Bash", command="make"), source_text(400))
    child.ask("The part is done.")
    child.log.close()
    content = [{"type": "text", "text": "The part is done."}]
    root.result(spawn, content, {"status": "completed", "agentId": agent_id, "content": content})


class _Agent:
    """One executor: its conversation, its log, its calls."""

    def __init__(
        self,
        folder: "_WorkingFolder",
        agent_id: str | None,
        prompt: str,
        opening: str,
        *,
        window: bool,
        spawned_by: str | None = None,
    ) -> None:
        self._folder = folder
        self._agent_id = agent_id
        self._window = window
        self.log = _NativeLog(folder.native, agent_id, spawned_by)
        self._head = orjson.dumps(
            {
                "model": MODEL,
                "max_tokens": 32000,
                "stream": True,
                "metadata": {"user_id": "user"},
                "system": [{"type": "text", "text": opening, "cache_control": {"type": "ephemeral"}}],
                "tools": [_tool(name) for name in ("Agent", "Bash", "Read")],
            }
        )[:-1]
        self._messages: list[bytes] = []
        self._say({"role": "user", "content": prompt})

    def ask(self, text: str, tool: str | None = None, **arguments: str) -> str:
        """One call whose answer is `text` and a call of `tool`; the tool's id, or nothing."""
        number = next(self._folder.numbers)
        tool_id = _id("toolu", number) if tool else ""
        tools = (ToolCall(tool, json.dumps(arguments), tool_id),) if tool else ()
        content = Content("", _id("msg", number), MODEL, text, None, tools, None, {}, stream_usage=True)
        request = self._head + b',"messages":[' + b",".join(self._messages) + b"]}"
        response = "".join(event.text for event in events(content)).encode()
        self._folder.call(request, response, self._agent_id)
        if self._window:
            self._messages = self._messages[:1]
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        blocks += [{"type": "tool_use", "id": one.tool_id, "name": one.name, "input": arguments} for one in tools]
        self._messages.append(orjson.dumps({"role": "assistant", "content": blocks}))
        self.log.answer(content.response_id, blocks)
        return tool_id

    def result(self, tool_id: str, content: Any, detail: dict[str, Any] | None = None) -> None:
        """What the tool returned."""
        block = {"type": "tool_result", "tool_use_id": tool_id, "content": content}
        extra = {"toolUseResult": detail, "sourceToolAssistantUUID": self.log.last} if detail else {}
        self._say({"role": "user", "content": [block]}, **extra)

    def _say(self, message: dict[str, Any], **extra: Any) -> None:
        self._messages.append(orjson.dumps(message))
        self.log.write({"type": "user", "message": message, **extra})


class _NativeLog:
    """A session log of Claude Code, or that of a subagent with its metadata file."""

    def __init__(self, native: Path, agent_id: str | None, spawned_by: str | None) -> None:
        project = native / "projects" / "-workspace"
        self._common: dict[str, Any] = {"isSidechain": agent_id is not None, "sessionId": SESSION, "version": _VERSION}
        if agent_id is None:
            path = project / f"{SESSION}.jsonl"
        else:
            self._common["agentId"] = agent_id
            path = project / SESSION / "subagents" / f"agent-{agent_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if agent_id is not None:
            meta = {"agentType": "general-purpose", "description": "part", "toolUseId": spawned_by, "spawnDepth": 1}
            path.with_suffix(".meta.json").write_bytes(orjson.dumps(meta))
        self._stream = path.open("wb", buffering=1 << 20)
        self._key = 0 if agent_id is None else int(agent_id[1:], 16)
        self._lines = itertools.count(1)
        self.last: str | None = None

    def write(self, record: dict[str, Any]) -> None:
        """One more line, chained to the one before."""
        own = f"{next(self._lines):08x}-0000-4000-8000-{self._key:012x}"
        chain = {"parentUuid": self.last, "uuid": own}
        self._stream.write(orjson.dumps({**chain, **record, **self._common}) + b"\n")
        self.last = own

    def answer(self, message_id: str | None, blocks: list[dict[str, Any]]) -> None:
        """A model output: one line for each of its blocks, as Claude Code writes it."""
        stop = "tool_use" if len(blocks) > 1 else "end_turn"
        for block in blocks:
            message = {"id": message_id, "type": "message", "role": "assistant", "model": MODEL, "content": [block]}
            self.write({"type": "assistant", "message": {**message, "stop_reason": stop}})

    def close(self) -> None:
        """Ends the log."""
        self._stream.close()


class _WorkingFolder:
    """`work/` as a recorder leaves it (docs/working-files.md)."""

    def __init__(self, attempt: Path) -> None:
        self._work = attempt / "work"
        self.native = self._work / "native"
        (self._work / "bodies").mkdir(parents=True)
        self.native.mkdir()
        self._events = (self._work / "events.jsonl").open("wb", buffering=1 << 20)
        self._clock = itertools.count()
        self._sequence = itertools.count(1)
        self.numbers: Iterator[int] = itertools.count(1)
        """Of answers and tool calls, for their ids."""
        self._event("recorder_started", pid=1, versions={}, options={})

    def call(self, request: bytes, response: bytes, agent_id: str | None) -> None:
        """One exchange that went well."""
        sequence = next(self._sequence)
        flow = f"flow-{sequence:08d}"
        headers = [["content-type", "application/json"], ["content-length", str(len(request))]]
        headers += [["x-claude-code-session-id", SESSION]]
        headers += [["x-claude-code-agent-id", agent_id]] if agent_id else []
        self._event("request_headers", flow=flow, sequence=sequence, headers=headers, **_ENDPOINT)
        body = self._body(f"{sequence:06d}.request", request)
        self._event("request", flow=flow, body=body, complete=True, started_at=_STARTED, ended_at=_STARTED)
        sent = [["content-type", "text/event-stream"], ["request-id", _id("req", sequence)]]
        self._event("response_headers", flow=flow, headers=sent, **_RESPONSE)
        body = self._body(f"{sequence:06d}.response", response)
        self._event("response", flow=flow, body=body, chunks=8, **_END)

    def _body(self, name: str, data: bytes) -> dict[str, Any]:
        (self._work / "bodies" / name).write_bytes(data)
        return {"path": f"bodies/{name}", "bytes": len(data)}

    def _event(self, kind: str, **members: Any) -> None:
        count = next(self._clock)
        event = {"type": kind, "recorder": 1, "at": _STARTED + count / 10, "mono_ns": count * 100_000_000, **members}
        self._events.write(orjson.dumps(event) + b"\n")

    def close(self) -> None:
        """A clean end of the recorder and of the launcher."""
        self._event("recorder_stopped", open_flows=[])
        self._events.close()
        info = {
            "format": "roller.work/v1",
            "capture_id": "cap_" + "benchmarks".ljust(20, "a"),
            "harness": HARNESS,
            "started_at": _STARTED,
            "closed_at": _STARTED + 3600,
            "closed": True,
            "recorders": 1,
            "error_count": 0,
            "options": {},
            "versions": {},
        }
        (self._work / "attempt.json").write_bytes(orjson.dumps(info))
        launcher = {"root_native_id": SESSION, "from": "stdout.jsonl init", "execution_status": "completed"}
        (self.native / "launcher.json").write_bytes(orjson.dumps(launcher))


_ENDPOINT: Final[dict[str, Any]] = {
    "protocol": "anthropic-messages",
    "method": "POST",
    "scheme": "https",
    "host": "model.example",
    "port": 443,
    "path": "/v1/messages",
    "http_version": "HTTP/1.1",
    "other_headers": ["x-api-key", "accept"],
    "roller_headers": [],
    "content_encoding": None,
}
_RESPONSE: Final[dict[str, Any]] = {
    "status": 200,
    "http_version": "HTTP/1.1",
    "other_headers": ["date"],
    "started_at": _STARTED,
}
_END: Final[dict[str, Any]] = {
    "first_byte_at": _STARTED,
    "first_byte_mono_ns": 1,
    "ended_at": _STARTED + 1,
    "masked": False,
}


def _tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    return {"name": name, "description": f"What {name} does.", "input_schema": schema}


def _id(kind: str, number: int) -> str:
    """An id as the provider writes them: hexadecimal, so without the long runs of digits that counters have."""
    return f"{kind}_01{hashlib.sha256(f'{kind} {number}'.encode()).hexdigest()[:24]}"


def source_text(size: int) -> str:
    """Text such as tools return, of at least `size` bytes as JSON: numbered lines of code with quotes, tabs, escapes,
    and a little more than ASCII."""
    lines: list[str] = []
    while size > 0:
        number = len(lines) + 1
        more = "it's so" * (number % 3)
        lines.append(f'{number:6d}\t    parts[{number * 7919 % 1000}] = decode("utf-8", "\\n")  # na\u00efve: {more}\n')
        size -= len(orjson.dumps(lines[-1])) - 2
    return "".join(lines)


class _Library:
    """The modules of Python's standard library, one after the other."""

    def __init__(self) -> None:
        folder = Path(sysconfig.get_path("stdlib"))
        modules = sorted(folder.glob("*.py")) + sorted(folder.glob("asyncio/*.py")) + sorted(folder.glob("email/*.py"))
        self._text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in modules)
        self._place = 0

    def text(self, size: int) -> str:
        """The next `size` characters; from the beginning again where they end."""
        if self._place + size > len(self._text):
            self._place = 0
        self._place += size
        return self._text[self._place - size : self._place]


def clone(attempt: Path, target: Path) -> None:
    """The same attempt again, its files as second names of the same bytes."""
    for base, _, names in os.walk(attempt):
        folder = target / Path(base).relative_to(attempt)
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).hardlink_to(Path(base) / name)
