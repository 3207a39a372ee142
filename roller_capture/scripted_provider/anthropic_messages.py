"""Answers in the Anthropic Messages protocol."""

import json
from collections.abc import Iterator
from typing import Any

from roller_capture.scripted_provider.content import Content, Event, pieces, sse, with_id

_SIGNATURE = "c2NyaXB0ZWQ="


def _finish(content: Content) -> str:
    return content.finish or ("tool_use" if content.tools else "end_turn")


def _blocks(content: Content) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if content.thinking is not None:
        blocks.append({"type": "thinking", "thinking": content.thinking, "signature": _SIGNATURE})
    if content.text is not None:
        blocks.append({"type": "text", "text": content.text})
    blocks += [
        {"type": "tool_use", "id": tool.tool_id, "name": tool.name, "input": json.loads(tool.arguments)}
        for tool in content.tools
    ]
    return blocks


def _message(
    content: Content, blocks: list[dict[str, Any]], finish: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    members = {
        "type": "message",
        "role": "assistant",
        "model": content.model,
        "content": blocks,
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": usage,
    }
    return with_id(content.response_id, members)


def _usage(content: Content, output_tokens: int) -> dict[str, Any]:
    cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": 100, **cache, "output_tokens": output_tokens, **content.usage}


def body(content: Content) -> dict[str, Any]:
    """The message without streaming."""
    return _message(content, _blocks(content), _finish(content), _usage(content, 42))


def events(content: Content) -> Iterator[Event]:
    """The message as a stream: start, each block in deltas, `message_delta`, `message_stop`."""
    yield _event("message_start", message=_message(content, [], None, _usage(content, 1)))
    for index, block in enumerate(_blocks(content)):
        start, deltas = _split(block)
        yield _event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    final = {"stop_reason": _finish(content), "stop_sequence": None}
    yield _event("message_delta", delta=final, usage={"output_tokens": 42, **content.usage})
    yield _event("message_stop")


def _event(name: str, **members: Any) -> Event:
    return sse({"type": name, **members}, name, terminal=name == "message_stop")


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as its empty start and the deltas that fill it."""
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments)]


def error(kind: str, message: str) -> dict[str, Any]:
    """Body of an answer whose status is not 200."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_event(kind: str, message: str) -> Event:
    """An error in mid-stream."""
    return sse(error(kind, message), "error")
