"""Puts a request's messages together from its chat form: proof that the form lost nothing.

Compared is the canonical shape: a text is a list of one text block, arguments are values, absent is not null, an item
without a type is a message, and a text without annotations has no list of them.
"""

import json
from typing import Any

from roller_capture.export.chat import split_parts
from roller_capture.vocabulary import Protocol

TEXT_TYPES = {"user": "input_text", "system": "input_text", "developer": "input_text", "assistant": "output_text"}
_NOTHING = (("annotations", []), ("logprobs", []))


def canonical(protocol: Protocol, request: dict[str, Any]) -> dict[str, Any]:
    """The messages of a request, each thing told in one way."""
    names = {
        Protocol.ANTHROPIC_MESSAGES: ("system", "messages"),
        Protocol.OPENAI_CHAT_COMPLETIONS: ("messages",),
        Protocol.OPENAI_RESPONSES: ("instructions", "input"),
    }[protocol]
    text_type = "input_text" if protocol is Protocol.OPENAI_RESPONSES else "text"
    told = {name: _canonical(request[name], text_type) for name in names if name in request}
    if isinstance(told.get("system"), str):
        told["system"] = [{"type": text_type, "text": told["system"]}]
    if isinstance(told.get("input"), list):
        told["input"] = [{"type": "message", **item} for item in told["input"]]
    return told


def _canonical(value: Any, text_type: str) -> Any:
    if isinstance(value, list):
        return [_canonical(item, text_type) for item in value]
    if not isinstance(value, dict):
        return value
    told = {key: item for key, item in value.items() if item is not None and (key, item) not in _NOTHING}
    result = {key: _canonical(item, text_type) for key, item in told.items()}
    for name in ("content", "output"):
        if isinstance(result.get(name), str):
            result[name] = [{"type": text_type, "text": result[name]}]
    return result


def restored(protocol: Protocol, messages: list[Any], origins: list[Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The request's messages, in the canonical shape."""
    restore = {
        Protocol.ANTHROPIC_MESSAGES: _anthropic,
        Protocol.OPENAI_CHAT_COMPLETIONS: _chat,
        Protocol.OPENAI_RESPONSES: _responses,
    }[protocol]
    document = restore(messages, origins, extra)
    for pointer, value in extra.items():
        _put(document, pointer.split("/")[1:], value)
    return document


def _put(value: Any, way: list[str], kept: Any) -> None:
    """Puts back what was kept; an object that is there already has it."""
    for part in way[:-1]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    if isinstance(value, dict):
        value[way[-1]] = kept


def _anthropic(messages: list[Any], origins: list[Any], extra: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"messages": []}
    for message, origin in zip(messages, origins, strict=True):
        texts = [{"type": "text", "text": text} for text in split_parts(message["content"] or "", origin)]
        texts = texts if message["content"] is not None else []
        if origin["at"] == "/system":
            document["system"] = texts
            continue
        position = int(origin["at"].split("/")[2])
        if position == len(document["messages"]):
            role = "user" if message["role"] == "tool" else message["role"]
            document["messages"].append({"role": role, "content": []})
        content = document["messages"][position]["content"]
        if message["role"] == "tool":
            content.append({"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": texts})
            continue
        if "reasoning_content" in message:
            content.append({"type": "thinking", "thinking": message["reasoning_content"]})
        while (kept := extra.get(f"/messages/{position}/content/{len(content)}")) is not None:
            content.append(kept)
        content += texts
        for call in message.get("tool_calls", []):
            function = call["function"]
            arguments = json.loads(function["arguments"])
            content.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    return document


def _chat(messages: list[Any], origins: list[Any], extra: dict[str, Any]) -> dict[str, Any]:
    del extra
    result = []
    for message, origin in zip(messages, origins, strict=True):
        back = {key: value for key, value in message.items() if value is not None}
        if "content" in back:
            back["content"] = [{"type": "text", "text": text} for text in split_parts(back["content"], origin)]
        result.append(back)
    return {"messages": result}


def _responses(messages: list[Any], origins: list[Any], extra: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"input": []}
    items = document["input"]
    for message, origin in zip(messages, origins, strict=True):
        while _only_kept(extra, len(items)):
            items.append({"type": "reasoning"})
        if origin["at"] == "/instructions":
            document["instructions"] = message["content"]
        elif message["role"] == "tool":
            texts = [{"type": "input_text", "text": text} for text in split_parts(message["content"], origin)]
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": texts})
        else:
            items += _items(message, origin)
    return document


def _only_kept(extra: dict[str, Any], position: int) -> bool:
    return f"/input/{position}/encrypted_content" in extra


def _items(message: dict[str, Any], origin: dict[str, Any]) -> list[Any]:
    items: list[Any] = []
    if message["content"] is not None:
        kind = TEXT_TYPES[message["role"]]
        content = [{"type": kind, "text": text} for text in split_parts(message["content"], origin)]
        items.append({"type": "message", "role": message["role"], "content": content})
    for call in message.get("tool_calls", []):
        function = call["function"]
        member = {"name": function["name"], "arguments": function["arguments"]}
        items.append({"type": "function_call", "call_id": call["id"], **member})
    return items
