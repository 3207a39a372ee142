"""The protocol-neutral parts of one answer, and how an SSE event is written."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

_PIECE = 32  # characters of text or arguments per delta event


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call with its id settled and its arguments as JSON text."""

    name: str
    arguments: str
    tool_id: str
    kind: str = "function_call"


@dataclass(frozen=True, slots=True)
class Content:
    """What one 200 answer says. `finish` is `None` for the protocol's usual reason."""

    nonce: str
    response_id: str | None
    model: str
    text: str | None
    thinking: str | None
    tools: tuple[ToolCall, ...]
    finish: str | None
    usage: dict[str, Any]
    stream_usage: bool


def pieces(text: str) -> Iterator[str]:
    """The text in the pieces in which it is streamed; empty text is one empty piece."""
    for start in range(0, max(len(text), 1), _PIECE):
        yield text[start : start + _PIECE]


class Event(NamedTuple):
    """One server-sent event as text; `terminal` marks the one that ends a stream by the protocol's rule."""

    text: str
    terminal: bool = False


def sse(data: dict[str, Any] | str, event: str | None = None, *, terminal: bool = False) -> Event:
    """One server-sent event."""
    payload = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return Event((f"event: {event}\n" if event else "") + f"data: {payload}\n\n", terminal)


def with_id(response_id: str | None, members: dict[str, Any]) -> dict[str, Any]:
    """The members, after an `id` unless the answer has none."""
    return members if response_id is None else {"id": response_id, **members}
