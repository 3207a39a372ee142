"""The chat form and the vendors' own types: OpenAI's take it, and both SDKs' reading of an answer gives the same.

Back again: the request of each protocol is put together from its chat form (`restoring`) and is what was sent.
"""

import json
from pathlib import Path
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from pydantic import TypeAdapter

from roller_capture.export.chat import NoChatFormError, chat_call
from roller_capture.vocabulary import ExecutionStatus, Protocol
from tests.export.chat.restoring import canonical, restored
from tests.export.published import CHAT_REQUEST, CHAT_RESPONSE, RESPONSES_REQUEST, RESPONSES_RESPONSE
from tests.model_protocols.transcripts import ALL, decode, label, plain, protocol_of

EMPTY: dict[Protocol, dict[str, Any]] = {
    Protocol.ANTHROPIC_MESSAGES: {"messages": []},
    Protocol.OPENAI_CHAT_COMPLETIONS: {"messages": []},
    Protocol.OPENAI_RESPONSES: {"input": []},
}
RESPONSE_TYPES: dict[Protocol, type[Any]] = {
    Protocol.ANTHROPIC_MESSAGES: anthropic.types.Message,
    Protocol.OPENAI_CHAT_COMPLETIONS: openai.types.chat.ChatCompletion,
    Protocol.OPENAI_RESPONSES: openai.types.responses.Response,
}
MESSAGES: TypeAdapter[Any] = TypeAdapter(list[openai.types.chat.ChatCompletionMessageParam])
TOOLS: TypeAdapter[Any] = TypeAdapter(list[openai.types.chat.ChatCompletionToolUnionParam])

ANTHROPIC_REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "B"}],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "text", "text": "I "},
                {"type": "text", "text": "look."},
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"at": ["."], "n": 1.5}},
                {"type": "tool_use", "id": "t2", "name": "pwd", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "a", "is_error": False},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "b"}, {"type": "text", "text": ""}],
                },
                {"type": "text", "text": "and?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
    "tools": [{"name": "ls", "description": "d", "input_schema": {"type": "object"}}],
}
REQUESTS: list[tuple[Protocol, TypeAdapter[Any], dict[str, Any]]] = [
    (Protocol.ANTHROPIC_MESSAGES, TypeAdapter(anthropic.types.MessageCreateParams), ANTHROPIC_REQUEST),
    (
        Protocol.OPENAI_CHAT_COMPLETIONS,
        TypeAdapter(openai.types.chat.CompletionCreateParams),
        {
            **CHAT_REQUEST,
            "messages": [
                *CHAT_REQUEST["messages"],  # type: ignore[misc]
                CHAT_RESPONSE["choices"][0]["message"],  # type: ignore[index]
                {"role": "tool", "tool_call_id": "call_1", "content": "x"},
            ],
        },
    ),
    (
        Protocol.OPENAI_RESPONSES,
        TypeAdapter(openai.types.responses.ResponseCreateParams),
        RESPONSES_REQUEST,
    ),
    # As some harnesses write them: a system prompt that is a text, messages without a type, empty annotations.
    (
        Protocol.ANTHROPIC_MESSAGES,
        TypeAdapter(anthropic.types.MessageCreateParams),
        {**ANTHROPIC_REQUEST, "system": "be brief"},
    ),
    (
        Protocol.OPENAI_RESPONSES,
        TypeAdapter(openai.types.responses.ResponseCreateParams),
        {
            "model": "m",
            "input": [
                {"role": "user", "content": "go"},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "a", "annotations": []}],
                    "id": "msg_1",
                    "status": "completed",
                },
                {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
            ],
        },
    ),
]
ANSWERS = {
    Protocol.ANTHROPIC_MESSAGES: {"content": []},
    Protocol.OPENAI_CHAT_COMPLETIONS: CHAT_RESPONSE,
    Protocol.OPENAI_RESPONSES: RESPONSES_RESPONSE,
}


@pytest.mark.parametrize(("protocol", "vendor", "request_body"), REQUESTS, ids=lambda value: str(value)[:24])
def test_a_request_comes_back_from_its_chat_form(
    protocol: Protocol, vendor: TypeAdapter[Any], request_body: dict[str, Any]
) -> None:
    """The vendor's type takes what was sent and what came back; both are the same conversation."""
    vendor.validate_python(request_body)
    chat = chat_call(protocol, request_body, ANSWERS[protocol])
    MESSAGES.validate_python(chat.messages + chat.output)
    TOOLS.validate_python(chat.tools)
    back = restored(protocol, json.loads(json.dumps(chat.messages)), chat.origins["context"], chat.extra["context"])
    assert back == canonical(protocol, request_body)


REFUSED = {
    "anthropic-messages/server_tools": "server_tool_use",
    "anthropic-messages/unknown_kinds": "compaction",
    "openai-chat-completions/audio": "audio",
    "openai-chat-completions/function_call": "function_call",
    "openai-chat-completions/refusal_logprobs": "refusal",
    "openai-chat-completions/tool_calls_nameless": "a tool call without id or name",
    "openai-chat-completions/two_choices": "several choices",
    "openai-responses/hosted_tools": "web_search_call",
    "openai-responses/refusal": "refusal",
    "openai-responses/unknown_kinds": "hologram",
}
"""Answers that no message of the form can hold."""


@pytest.mark.parametrize("path", ALL, ids=label)
def test_an_answer_is_the_same_as_the_sdk_reads_it(path: Path) -> None:
    """Of each transcript that ended; OpenAI's types take the messages."""
    protocol = protocol_of(path)
    decoded = decode(protocol, path.read_bytes())
    if decoded.execution_status is not ExecutionStatus.COMPLETED:
        return
    output = plain(decoded.output)
    output.pop("unknown_events", None)
    if label(path) in REFUSED:
        with pytest.raises(NoChatFormError) as caught:
            chat_call(protocol, EMPTY[protocol], output)
        assert caught.value.what == REFUSED[label(path)]
        return
    chat = chat_call(protocol, EMPTY[protocol], output)
    MESSAGES.validate_python(chat.output)
    read = _through(RESPONSE_TYPES[protocol], output)
    assert chat_call(protocol, EMPTY[protocol], read).output == chat.output


def _through(kind: Any, output: dict[str, Any]) -> Any:
    """What the SDK's own class makes of the body: it is lenient, as the SDK is with what services send."""
    return kind.construct(**output).to_dict(mode="json")
