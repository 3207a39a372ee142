"""Turns a `Reply` into the bytes of an answer: the choice of protocol, and what all protocols share."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roller_capture.scripted_provider import anthropic_messages, openai_chat, openai_responses
from roller_capture.scripted_provider.content import Content, Event, ToolCall
from roller_capture.scripted_provider.reply import Reply
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.vocabulary import Protocol


@dataclass(frozen=True, slots=True)
class Dialect:
    """One protocol: prefixes of its ids, and its kinds of answer (`error` takes a kind and a message)."""

    response_prefix: str
    tool_prefix: str
    body: Callable[[Content], dict[str, Any]]
    events: Callable[[Content], Iterator[Event]]
    error: Callable[[str, str], dict[str, Any]]
    error_event: Callable[[str, str], Event]


DIALECTS = {
    Protocol.ANTHROPIC_MESSAGES: Dialect(
        "msg_01",
        "toolu_01",
        anthropic_messages.body,
        anthropic_messages.events,
        anthropic_messages.error,
        anthropic_messages.error_event,
    ),
    Protocol.OPENAI_CHAT_COMPLETIONS: Dialect(
        "chatcmpl-",
        "call_",
        openai_chat.body,
        openai_chat.events,
        openai_chat.error,
        openai_chat.error_event,
    ),
    Protocol.OPENAI_RESPONSES: Dialect(
        "resp_",
        "call_",
        openai_responses.body,
        openai_responses.events,
        openai_responses.error,
        openai_responses.error_event,
    ),
}


def content_of(request: ModelRequest, reply: Reply) -> Content:
    """The parts of a 200 answer, with the nonce in text and ids."""
    dialect, nonce = DIALECTS[request.protocol], request.nonce
    tools = tuple(
        ToolCall(
            tool.name,
            json.dumps(dict(tool.arguments)),
            tool.tool_id or f"{dialect.tool_prefix}{nonce}{index}",
            tool.kind,
        )
        for index, tool in enumerate(reply.tools)
    )
    stream_options = request.body.get("stream_options")
    return Content(
        nonce=nonce,
        response_id=f"{dialect.response_prefix}{nonce}" if reply.send_response_id else None,
        model=reply.model or request.model,
        text=None if reply.text is None else f"{reply.text} [{nonce}]",
        thinking=reply.thinking,
        tools=tools,
        finish=reply.finish,
        usage=dict(reply.usage or {}),
        stream_usage=isinstance(stream_options, dict) and stream_options.get("include_usage") is True,
    )
