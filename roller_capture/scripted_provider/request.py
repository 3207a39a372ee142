"""A model request as a script sees it."""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from roller_capture.vocabulary import Protocol

NONCE = re.compile(r"n0n[0-9a-f]{12}n")
"""The shape of the mark in every answer: unlike any word, id or digest that a harness makes."""

_ENDPOINTS = (
    ("/messages", Protocol.ANTHROPIC_MESSAGES),
    ("/chat/completions", Protocol.OPENAI_CHAT_COMPLETIONS),
    ("/responses", Protocol.OPENAI_RESPONSES),
)
_GIVEN = ("system", "instructions", "tools", "messages", "input")
"""The fields of a request that a model is given, in any of the protocols."""

_TEXT_BLOCKS = ("text", "input_text")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")


class ToolResult(NamedTuple):
    """A tool result in a request: the tool call's id and the result as text (JSON text where it is no string)."""

    tool_id: str
    text: str


def new_nonce() -> str:
    """A fresh mark for one answer."""
    return f"n0n{secrets.token_hex(6)}n"


def nonces_in(text: str) -> frozenset[str]:
    """All marks of answers in a text."""
    return frozenset(NONCE.findall(text))


def protocol_of(path: str) -> Protocol | None:
    """The protocol of a request path (query allowed), or `None` when it is no model endpoint."""
    plain = path.partition("?")[0].rstrip("/")
    return next((protocol for ending, protocol in _ENDPOINTS if plain.endswith(ending)), None)


@dataclass(frozen=True)
class ModelRequest:
    """One request on a model endpoint. `number` counts them from 1; header names are in lower case; `nonce` is the mark
    that the answer will carry."""

    number: int
    nonce: str
    protocol: Protocol
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]

    @property
    def streamed(self) -> bool:
        """Whether the client asked for a stream."""
        return self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The requested model, or a name of our own where there is none."""
        model = self.body.get("model")
        return model if isinstance(model, str) else "scripted-model"

    @cached_property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The conversation: `messages`, or `input` in the Responses protocol, where it may be a plain string."""
        items = self.body.get("messages", self.body.get("input"))
        if isinstance(items, str):
            return ({"role": "user", "content": items},)
        return tuple(item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()

    @cached_property
    def prompt_text(self) -> str:
        """All text of user messages. Tool results and model output are left out, so a marker that a scenario planted
        in one agent's prompt does not show up in the requests of the agent that wrote the prompt."""
        return "\n".join(text for message in self.messages if message.get("role") == "user" for text in _texts(message))

    @cached_property
    def tool_names(self) -> frozenset[str]:
        """Names of the tools the request declares."""
        tools = self.body.get("tools")
        names = [_tool_name(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        return frozenset(name for name in names if name is not None)

    @cached_property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results in the conversation, in order."""
        return tuple(result for message in self.messages for result in _results(message))

    @cached_property
    def nonces(self) -> frozenset[str]:
        """The marks of earlier answers in what the model is given. Other fields are left out: harnesses add some for
        their own service, such as a log of the session, that quote answers which the model was not told."""
        return nonces_in(json.dumps({name: self.body.get(name) for name in _GIVEN}))


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and block.get("type") in _TEXT_BLOCKS and isinstance(block.get("text"), str):
                yield block["text"]


def _tool_name(tool: Mapping[str, Any]) -> str | None:
    function = tool.get("function")
    name = tool.get("name") or (function.get("name") if isinstance(function, dict) else None) or tool.get("type")
    return name if isinstance(name, str) else None


def _results(message: Mapping[str, Any]) -> Iterator[ToolResult]:
    if message.get("type") in _RESULT_ITEMS:
        yield ToolResult(str(message.get("call_id")), _as_text(message.get("output")))
    elif message.get("role") == "tool":
        yield ToolResult(str(message.get("tool_call_id")), _as_text(message.get("content")))
    elif isinstance(message.get("content"), list):
        for block in message["content"]:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                yield ToolResult(str(block.get("tool_use_id")), _as_text(block.get("content")))


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
