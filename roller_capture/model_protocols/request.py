"""The request side of the protocols: what a request's messages hold.

Pointers are JSON Pointers (RFC 6901) into the request body. Values of unexpected types are passed over.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from roller_capture import json_text
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.vocabulary import Protocol

_TEXT_DEPTH = 4
"""Deepest nesting of content that is read: an item, its blocks, a tool result's own blocks."""

_SAID_BY_THE_MODEL = frozenset({"reasoning", "item_reference", "compaction", "mcp_list_tools"})


def iter_tool_results(
    protocol: Protocol, context: Any, wanted: frozenset[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Each tool result in the request: its tool call id, and the pointer of the block, message or item.

    `wanted` restricts it to some ids; contexts hold thousands of results, and their pointers cost more than the search.
    """
    for tool_call_id, place in _results_of(protocol, context):
        if isinstance(tool_call_id, str) and tool_call_id and (wanted is None or tool_call_id in wanted):
            yield tool_call_id, json_text.pointer(*place)


def _results_of(protocol: Protocol, context: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """What each result has as its tool call id, whatever its type, and the way to the result."""
    member = "input" if protocol is Protocol.OPENAI_RESPONSES else "messages"
    messages = context.get(member) if isinstance(context, dict) else None
    if not isinstance(messages, list):
        return
    # Every message of every request passes here, and in long sessions that is most of the finalizer's own work.
    for position, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        if protocol is Protocol.OPENAI_CHAT_COMPLETIONS:
            if message.get("role") == "tool":
                yield message.get("tool_call_id"), (member, position)
        elif protocol is Protocol.OPENAI_RESPONSES:
            if _type(message).endswith("_output"):
                yield message.get("call_id"), (member, position)
        elif isinstance(content := message.get("content"), list):
            for inner, block in enumerate(content):
                if isinstance(block, dict) and "tool_use_id" in block and _type(block).endswith("tool_result"):
                    yield block["tool_use_id"], (member, position, "content", inner)


def iter_messages_text(protocol: Protocol, context: Any) -> Iterator[tuple[str, str]]:
    """Every text that a user, system or developer message holds, with its pointer.

    The pointer names the message where its content is a string, else the block that holds the text. What the model
    itself said before (assistant messages, calls, reasoning) is left out, and so are what tools returned (an agent that
    reads a log quotes notifications there), the system prompt outside the messages and the tool definitions. Unknown
    items of a Responses `input` count when they hold text.
    """
    if protocol is Protocol.OPENAI_RESPONSES and isinstance(context, dict) and isinstance(context.get("input"), str):
        yield "/input", context["input"]
        return
    for pointer, message in _messages(protocol, context):
        if message.get("role") in ("assistant", "tool"):
            continue
        kind = _type(message) if protocol is Protocol.OPENAI_RESPONSES else ""
        if kind.endswith(("_call", "_output")) or kind in _SAID_BY_THE_MODEL:
            continue
        for member in ("content", "output", "text") if kind else ("content",):
            yield from _texts(pointer, member, message, _TEXT_DEPTH)


def _messages(protocol: Protocol, context: Any) -> Iterator[tuple[str, JsonObject]]:
    member = "input" if protocol is Protocol.OPENAI_RESPONSES else "messages"
    messages = context.get(member) if isinstance(context, dict) else None
    for position, message in _blocks(messages):
        yield json_text.pointer(member, position), message


def _blocks(value: Any) -> Iterable[tuple[int, JsonObject]]:
    if not isinstance(value, list):
        return ()
    return [(position, item) for position, item in enumerate(value) if isinstance(item, dict)]


def _type(value: JsonObject) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def _texts(pointer: str, member: str, holder: JsonObject, depth: int) -> Iterator[tuple[str, str]]:
    """The texts in one member of a message or block."""
    value = holder.get(member)
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list) and depth > 0:
        for position, block in enumerate(value):
            place = f"{pointer}/{member}/{position}"
            if isinstance(block, str):
                yield place, block
            elif isinstance(block, dict) and not _type(block).endswith("tool_result"):
                for inner in ("text", "content", "output"):
                    yield from _texts(place, inner, block, depth - 1)
