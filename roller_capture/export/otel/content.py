"""What was said, as the GenAI conventions have it: messages of parts, each list as JSON text.

The JSON schemas are those of the conventions (gen-ai-input-messages, gen-ai-output-messages,
gen-ai-system-instructions, gen-ai-tool-definitions). They come from the chat form; a call without one has no content.
"""

from typing import Any, NamedTuple

from roller_capture import json_text
from roller_capture.api import Call
from roller_capture.export.chat import ChatCall, Message, NoChatFormError, chat_call, chat_request
from roller_capture.export.otel.otlp import Attribute
from roller_capture.view.provider_words import finish_word
from roller_capture.vocabulary import Protocol


class Content(NamedTuple):
    """What a call says: attributes of its span, and by tool call id the arguments it asks with and the results it
    holds."""

    attributes: dict[str, Attribute]
    arguments: dict[str, str]
    results: dict[str, str]


def content_of(call: Call, context: Any) -> Content:
    """The content. What of a call cannot be told says why, in `roller.no_content`."""
    if not isinstance(context, dict):
        return _untold("the request is no JSON object")
    try:
        chat, missing = chat_request(call.protocol, context, agent_messages=True), None
    except NoChatFormError as error:
        return _untold(f"no chat form: {error.what}")
    try:
        if call.output is not None:  # else nothing came back
            chat = chat_call(call.protocol, context, call.output, agent_messages=True)
    except NoChatFormError as error:
        missing = f"no chat form of the answer: {error.what}"
    apart = _instructions(call.protocol, chat)
    told = {
        "gen_ai.system_instructions": [_text(message["content"] or "") for message in chat.messages[:apart]],
        "gen_ai.input.messages": [_message(message) for message in chat.messages[apart:]],
        "gen_ai.output.messages": _answers(chat.output, finish_word(call.protocol, call.output)),
        "gen_ai.tool.definitions": [_tool(tool) for tool in chat.tools] + chat.other_tools,
    }
    return Content(
        {name: json_text.dumps(value).decode() for name, value in told.items() if value} | _why(missing),
        {item["id"]: _arguments(item) for message in chat.output for item in message.get("tool_calls", ())},
        {
            message["tool_call_id"]: message["content"] or ""
            for message in chat.messages
            if message["role"] == "tool" and "tool_call_id" in message
        },
    )


def _untold(reason: str) -> Content:
    return Content(_why(reason), {}, {})


def _why(reason: str | None) -> dict[str, Attribute]:
    return {} if reason is None else {"roller.no_content": reason}


def _arguments(call: dict[str, Any]) -> str:
    inner = call[call["type"]]
    return str(inner["input"] if call["type"] == "custom" else inner["arguments"])


def _instructions(protocol: Protocol, chat: ChatCall) -> int:
    """How many of the messages stood outside of the conversation: Anthropic's `system`, Responses' `instructions`."""
    apart = {Protocol.ANTHROPIC_MESSAGES: "/system", Protocol.OPENAI_RESPONSES: "/instructions"}.get(protocol)
    return int(bool(chat.messages) and chat.origins["context"][0]["at"] == apart)


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message["role"], "parts": _parts(message)}
    return told | {"name": message["name"]} if "name" in message else told


def _answers(messages: list[Message], finish: str | None) -> list[dict[str, Any]]:
    """One message for the one choice, its parts in the order in which they came; none where nothing came."""
    parts = [part for message in messages for part in _parts(message)]
    return [{"role": "assistant", "parts": parts, "finish_reason": finish or ""}] if messages else []


def _parts(message: Message) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        return [{"type": "tool_call_response", "id": message.get("tool_call_id", ""), "response": message["content"]}]
    parts: list[dict[str, Any]] = []
    if "reasoning_content" in message:
        parts.append({"type": "reasoning", "content": message["reasoning_content"]})
    if message["content"] is not None:
        parts.append(_text(message["content"]))
    return parts + [_call(call) for call in message.get("tool_calls", ())]


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    inner = call[call["type"]]
    arguments = inner["input"] if call["type"] == "custom" else _parsed(inner["arguments"])
    return {"type": "tool_call", "id": call["id"], "name": inner["name"], "arguments": arguments}


def _parsed(text: str) -> Any:
    """Arguments as the value that they are the text of; broken ones stay a text."""
    try:
        return json_text.parse(text.encode("utf-8", "surrogatepass"))
    except json_text.JsonError:
        return text


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": tool["type"], **tool[tool["type"]]}
