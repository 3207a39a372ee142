"""Answers in the OpenAI Responses protocol."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from roller_capture.scripted_provider.content import Content, Event, ToolCall, pieces, sse, with_id

_ENCRYPTED = "c2NyaXB0ZWQ="
_UNFINISHED = ("incomplete", "max_output_tokens", "content_filter")

_Emit = Callable[..., Event]


def _items(content: Content) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if content.thinking is not None:
        summary = [{"type": "summary_text", "text": content.thinking}]
        identity = {"id": f"rs_{content.nonce}", "type": "reasoning"}
        items.append({**identity, "summary": summary, "encrypted_content": _ENCRYPTED})
    if content.text is not None:
        part = {"type": "output_text", "text": content.text, "annotations": []}
        identity = {"id": f"msg_{content.nonce}", "type": "message", "role": "assistant"}
        items.append({**identity, "status": "completed", "content": [part]})
    items += [_call(f"{content.nonce}{index}", tool) for index, tool in enumerate(content.tools)]
    return items


def _call(mark: str, tool: ToolCall) -> dict[str, Any]:
    namespace, _, name = tool.name.rpartition("/")
    common = {"type": tool.kind, "status": "completed", "call_id": tool.tool_id}
    if tool.kind == "tool_search_call":
        return {"id": f"tsc_{mark}", **common, "execution": "client", "arguments": json.loads(tool.arguments)}
    named = {**common, "name": name, **({"namespace": namespace} if namespace else {})}
    if tool.kind == "custom_tool_call":
        return {"id": f"ctc_{mark}", **named, "input": json.loads(tool.arguments)["input"]}
    return {"id": f"fc_{mark}", **named, "arguments": tool.arguments}


def body(content: Content) -> dict[str, Any]:
    """The response without streaming. A finish of `incomplete`, or a reason for it, makes it incomplete."""
    unfinished = content.finish in _UNFINISHED
    reason = "max_output_tokens" if content.finish == "incomplete" else content.finish
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 42}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 142}
    members = {
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if unfinished else content.finish or "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if unfinished else None,
        "model": content.model,
        "output": _items(content),
        "parallel_tool_calls": True,
        "tools": [],
        "usage": {**usage, **content.usage},
    }
    return with_id(content.response_id, members)


def events(content: Content) -> Iterator[Event]:
    """The response as a stream: `created`, each item in deltas, `completed` (or `incomplete`)."""
    numbers = count()

    def emit(name: str, **members: Any) -> Event:
        return sse({"type": name, "sequence_number": next(numbers), **members}, name, terminal=name == last)

    final = body(content)
    last = f"response.{final['status']}"
    started = {**final, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield emit("response.created", response=started)
    yield emit("response.in_progress", response=started)
    for index, item in enumerate(final["output"]):
        yield from _ITEM_EVENTS[item["type"]](emit, index, item)
        yield emit("response.output_item.done", output_index=index, item=item)
    yield emit(last, response=final)


def _message_events(emit: _Emit, index: int, item: dict[str, Any]) -> Iterator[Event]:
    part = item["content"][0]
    where = {"item_id": item["id"], "output_index": index, "content_index": 0}
    yield emit("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
    yield emit("response.content_part.added", **where, part={**part, "text": ""})
    for piece in pieces(part["text"]):
        yield emit("response.output_text.delta", **where, delta=piece)
    yield emit("response.output_text.done", **where, text=part["text"])
    yield emit("response.content_part.done", **where, part=part)


def _text_events(name: str, member: str, emit: _Emit, index: int, item: dict[str, Any]) -> Iterator[Event]:
    """An item with one member that comes in pieces."""
    where = {"item_id": item["id"], "output_index": index}
    yield emit("response.output_item.added", output_index=index, item={**item, "status": "in_progress", member: ""})
    for piece in pieces(item[member]):
        yield emit(f"response.{name}.delta", **where, delta=piece)
    yield emit(f"response.{name}.done", **where, **{member: item[member]})


def _whole_events(emit: _Emit, index: int, item: dict[str, Any]) -> Iterator[Event]:
    yield emit("response.output_item.added", output_index=index, item=item)


_ITEM_EVENTS: dict[str, Callable[[_Emit, int, dict[str, Any]], Iterator[Event]]] = {
    "message": _message_events,
    "function_call": partial(_text_events, "function_call_arguments", "arguments"),
    "custom_tool_call": partial(_text_events, "custom_tool_call_input", "input"),
    "tool_search_call": _whole_events,
    "reasoning": _whole_events,
}


def error(kind: str, message: str) -> dict[str, Any]:
    """Body of an answer whose status is not 200."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def error_event(kind: str, message: str) -> Event:
    """An error in mid-stream."""
    return sse({"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 0}, "error")
