"""A stand-in for a harness, for the demo: an agent with one subagent that speaks Anthropic Messages.

It sends the identity headers that Claude Code 2.1.332 sends and writes native logs of the same shape, so that the real
adapter reads them. Its tools do nothing: `Agent` runs the subagent, any other tool answers with a fixed text.
"""

import http.client
import json
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roller_capture.errors import RollerError

VERSION = "2.1.332"
"""The Claude Code whose log shape is written here."""

MODEL = "scripted-model"
_PROJECT = "-workspace"
_TOOL_RESULT = "hello from the tool"
_TIMEOUT_SECONDS = 60
_TOOLS = [
    {"name": name, "description": text, "input_schema": {"type": "object"}}
    for name, text in (("Agent", "Delegates a task to a subagent."), ("Bash", "Runs a command."))
]


def run_client(base_url: str, home: Path, prompt: str) -> None:
    """One conversation with the model service at `base_url`; native logs go below `home`/.claude."""
    session = _Session(base_url, home / ".claude" / "projects" / _PROJECT)
    _Agent(session, None).run(prompt)


@dataclass(frozen=True, slots=True)
class _Session:
    base_url: str
    folder: Path
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def log_file(self, agent_id: str | None) -> Path:
        if agent_id is None:
            return self.folder / f"{self.session_id}.jsonl"
        return self.folder / self.session_id / "subagents" / f"agent-{agent_id}.jsonl"


@dataclass(frozen=True, slots=True)
class _Answer:
    message: dict[str, Any]
    request_id: str
    request_ref: str


class _Agent:
    """The root (`agent_id` is `None`) or a subagent: one conversation, one native log."""

    def __init__(self, session: _Session, agent_id: str | None) -> None:
        self._session = session
        self._agent_id = agent_id
        self._messages: list[dict[str, Any]] = []
        self._log = session.log_file(agent_id)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._last_uuid: str | None = None
        self._prompt_id = str(uuid.uuid4())

    def run(self, prompt: str) -> str:
        """Talks until the model calls no more tools, and returns its last text."""
        self._messages.append({"role": "user", "content": prompt})
        self._write({"type": "user", "promptId": self._prompt_id, "message": {"role": "user", "content": prompt}})
        while True:
            answer = self._ask()
            content = answer.message["content"]
            records = [self._write_block(answer, index, block) for index, block in enumerate(content)]
            self._messages.append({"role": "assistant", "content": content})
            calls = [(block, records[index]) for index, block in enumerate(content) if block["type"] == "tool_use"]
            if not calls:
                return "".join(block["text"] for block in content if block["type"] == "text")
            results = [self._run_tool(block, record) for block, record in calls]
            self._messages.append({"role": "user", "content": results})

    def _run_tool(self, call: dict[str, Any], record: str) -> dict[str, Any]:
        result: dict[str, Any] = {"tool_use_id": call["id"], "type": "tool_result"}
        outcome: dict[str, Any] = {}
        if call["name"] == "Agent":
            child_id = f"a{uuid.uuid4().hex[:16]}"
            text = self._delegate(child_id, call)
            result["content"] = [{"type": "text", "text": f"{text}\nagentId: {child_id}"}]
            if self._agent_id is None:  # Claude Code writes it into the root's log only
                outcome = {"status": "completed", "agentId": child_id, "prompt": call["input"]["prompt"]}
                outcome = {"toolUseResult": outcome | {"content": [{"type": "text", "text": text}]}}
        else:
            result |= {"content": _TOOL_RESULT, "is_error": False}
        message = {"role": "user", "content": [result]}
        self._write({"type": "user", "message": message, **outcome, "sourceToolAssistantUUID": record})
        return result

    def _delegate(self, child_id: str, call: dict[str, Any]) -> str:
        description = {"agentType": "general-purpose", "description": call["input"]["description"]}
        metadata = {**description, "toolUseId": call["id"], "spawnDepth": 1, "requestShape": "foreground"}
        child = _Agent(self._session, child_id)
        meta_file = self._session.log_file(child_id).with_suffix(".meta.json")
        meta_file.write_text(json.dumps(metadata), encoding="utf-8")
        text = child.run(call["input"]["prompt"])
        meta_file.write_text(json.dumps({**metadata, "finished": True}), encoding="utf-8")
        return text

    def _ask(self) -> _Answer:
        reference = str(uuid.uuid4())
        source = "sdk" if self._agent_id is None else "agent:builtin:general-purpose"
        self._append({"type": "api-request", "id": reference, "querySource": source, "params": {"model": MODEL}})
        origin = urllib.parse.urlsplit(self._session.base_url)
        connection = http.client.HTTPConnection(origin.hostname or "", origin.port, timeout=_TIMEOUT_SECONDS)
        body = {"model": MODEL, "max_tokens": 1024, "stream": True, "tools": _TOOLS, "messages": self._messages}
        try:
            connection.request("POST", "/v1/messages?beta=true", json.dumps(body), self._headers())
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise RollerError(f"the model service answered {response.status}: {response.read(500)!r}")
            message = _message_of(_events(response))
        finally:
            connection.close()
        return _Answer(message, response.getheader("request-id", ""), reference)

    def _headers(self) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "x-api-key": "demo",
            "X-Claude-Code-Session-Id": self._session.session_id,
        }
        return headers if self._agent_id is None else headers | {"x-claude-code-agent-id": self._agent_id}

    def _write_block(self, answer: _Answer, index: int, block: dict[str, Any]) -> str:
        """One record per content block, all with the message's id, as Claude Code does."""
        record: dict[str, Any] = {"type": "assistant", "message": {**answer.message, "content": [block]}}
        record |= {"apiBlockIndex": index, "requestId": answer.request_id, "requestRef": answer.request_ref}
        return self._write(record | ({} if self._agent_id is None else {"attributionAgent": "general-purpose"}))

    def _write(self, record: dict[str, Any]) -> str:
        """Appends a record of the conversation, which hangs on the one before it, and returns its uuid."""
        own = str(uuid.uuid4())
        chain = {"parentUuid": self._last_uuid, "isSidechain": self._agent_id is not None, "uuid": own}
        place = {"userType": "external", "entrypoint": "sdk-cli", "cwd": "/workspace", "gitBranch": "HEAD"}
        self._append({**chain, **record, **place})
        self._last_uuid = own
        return own

    def _append(self, record: dict[str, Any]) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        common = {"sessionId": self._session.session_id, "timestamp": stamp, "version": VERSION}
        agent = {} if self._agent_id is None else {"agentId": self._agent_id}
        with self._log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**record, **common, **agent}) + "\n")


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data:"):
            yield json.loads(line[len(b"data:") :])


def _message_of(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Puts a stream of our own scripted provider together; real streams are `model_protocols`' business."""
    message: dict[str, Any] = {}
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            message = event["message"]
        elif kind == "content_block_start":
            message["content"].append(event["content_block"] | {"_json": ""})
        elif kind == "content_block_delta":
            _apply(message["content"][event["index"]], event["delta"])
        elif kind == "content_block_stop":
            block = message["content"][event["index"]]
            arguments = block.pop("_json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(arguments or "{}")
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    return message


def _apply(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta["type"] == "text_delta":
        block["text"] += delta["text"]
    elif delta["type"] == "input_json_delta":
        block["_json"] += delta["partial_json"]
