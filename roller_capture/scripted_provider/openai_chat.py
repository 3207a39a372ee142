"""Answers in the OpenAI Chat Completions protocol."""

import time
from collections.abc import Iterator
from typing import Any

from roller_capture.scripted_provider.content import Content, Event, pieces, sse, with_id


def _finish(content: Content) -> str:
    return content.finish or ("tool_calls" if content.tools else "stop")


def _usage(content: Content) -> dict[str, Any]:
    return {"prompt_tokens": 100, "completion_tokens": 42, "total_tokens": 142, **content.usage}


def _envelope(content: Content, kind: str, **members: Any) -> dict[str, Any]:
    return with_id(
        content.response_id, {"object": kind, "created": int(time.time()), "model": content.model, **members}
    )


def body(content: Content) -> dict[str, Any]:
    """The completion without streaming."""
    message: dict[str, Any] = {"role": "assistant", "content": content.text}
    if content.thinking is not None:
        message["reasoning_content"] = content.thinking
    if content.tools:
        message["tool_calls"] = [
            {"id": tool.tool_id, "type": "function", "function": {"name": tool.name, "arguments": tool.arguments}}
            for tool in content.tools
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(content)}
    return _envelope(content, "chat.completion", choices=[choice], usage=_usage(content))


def events(content: Content) -> Iterator[Event]:
    """The completion as chunks, the finish reason, usage where the request asked for it, and `[DONE]`."""
    for delta in _deltas(content):
        yield _chunk(content, [{"index": 0, "delta": delta, "finish_reason": None}])
    yield _chunk(content, [{"index": 0, "delta": {}, "finish_reason": _finish(content)}])
    if content.stream_usage:
        yield _chunk(content, [], usage=_usage(content))
    yield sse("[DONE]", terminal=True)


def _chunk(content: Content, choices: list[dict[str, Any]], **members: Any) -> Event:
    return sse(_envelope(content, "chat.completion.chunk", choices=choices, **members))


def _deltas(content: Content) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if content.thinking is not None:
        yield from ({"reasoning_content": piece} for piece in pieces(content.thinking))
    if content.text is not None:
        yield from ({"content": piece} for piece in pieces(content.text))
    for index, tool in enumerate(content.tools):
        function = {"name": tool.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": tool.tool_id, "type": "function", "function": function}]}
        for piece in pieces(tool.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def error(kind: str, message: str) -> dict[str, Any]:
    """Body of an answer whose status is not 200."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def error_event(kind: str, message: str) -> Event:
    """An error in mid-stream."""
    return sse(error(kind, message))
