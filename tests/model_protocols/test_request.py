"""Request bodies: tool results and texts of messages, each with a pointer that resolves."""

from typing import Any

import pytest

from roller_capture import json_text
from roller_capture.model_protocols import iter_messages_text, iter_tool_results
from roller_capture.vocabulary import Protocol
from tests.model_protocols.transcripts import ANTHROPIC, CHAT, RESPONSES

ANTHROPIC_REQUEST = {
    "model": "m",
    "system": "never searched",
    "messages": [
        {"role": "user", "content": "plain"},
        {"role": "assistant", "content": [{"type": "text", "text": "mine"}, {"type": "tool_use", "id": "t1"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "two"}, {"type": "image"}],
                },
                {"type": "text", "text": "three"},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                "bare",
            ],
        },
        {"role": "system", "content": "notice"},
    ],
}
CHAT_REQUEST = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": [{"type": "text", "text": "ask"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": "mine", "tool_calls": [{"id": "c1"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
        {"role": "developer", "content": "more"},
    ],
}
RESPONSES_REQUEST = {
    "model": "m",
    "instructions": "never searched",
    "input": [
        {"role": "user", "content": "short form"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "mine"}]},
        {"type": "function_call", "call_id": "c1", "arguments": "mine", "name": "f"},
        {"type": "mcp_call", "name": "f", "output": "run by the provider"},
        {"type": "reasoning", "content": [{"text": "mine"}], "summary": []},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "agent_message", "author": "/lead/a", "content": [{"type": "input_text", "text": "report"}]},
        {"type": "novel_note", "text": "note"},
    ],
}
REQUESTS = {ANTHROPIC: ANTHROPIC_REQUEST, CHAT: CHAT_REQUEST, RESPONSES: RESPONSES_REQUEST}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (
            ANTHROPIC,
            [("t1", "/messages/2/content/0"), ("t2", "/messages/2/content/1"), ("s1", "/messages/2/content/3")],
        ),
        (CHAT, [("c1", "/messages/3"), ("c2", "/messages/4")]),
        (RESPONSES, [("c1", "/input/6"), ("c2", "/input/7")]),
    ],
)
def test_tool_results(protocol: Protocol, expected: list[tuple[str, str]]) -> None:
    """Each tool result by the id of its call, at a pointer that resolves to it."""
    found = list(iter_tool_results(protocol, REQUESTS[protocol]))
    assert found == expected
    for tool_call_id, pointer in found:
        assert tool_call_id in json_text.resolve_pointer(REQUESTS[protocol], pointer).values()


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (
            ANTHROPIC,
            [
                ("/messages/0", "plain"),
                ("/messages/2/content/2", "three"),
                ("/messages/2/content/4", "bare"),
                ("/messages/3", "notice"),
            ],
        ),
        (
            CHAT,
            [
                ("/messages/0", "rules"),
                ("/messages/1/content/0", "ask"),
                ("/messages/5", "more"),
            ],
        ),
        (
            RESPONSES,
            [
                ("/input/0", "short form"),
                ("/input/1/content/0", "rules"),
                ("/input/8/content/0", "report"),
                ("/input/9", "note"),
            ],
        ),
    ],
)
def test_texts(protocol: Protocol, expected: list[tuple[str, str]]) -> None:
    """All texts that neither the model nor a tool gave, none from outside the messages, at pointers that hold them."""
    found = list(iter_messages_text(protocol, REQUESTS[protocol]))
    assert found == expected
    for pointer, text in found:
        place = json_text.resolve_pointer(REQUESTS[protocol], pointer)
        assert text == place or text in place.values()


def test_input_may_be_one_text() -> None:
    """The short form of a Responses request is its own message."""
    assert list(iter_messages_text(RESPONSES, {"input": "ask"})) == [("/input", "ask")]


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize(
    "context",
    [
        None, 5, [], "x", {}, {"messages": None, "input": None}, {"messages": {"a": 1}, "input": {"a": 1}},
        {"messages": [None, 5, [], {}], "input": [None, 5, [], {}]},
        {"messages": [{"role": 5, "content": {"a": 1}, "tool_call_id": 7}]},
        {"messages": [{"role": "tool", "tool_call_id": None}, {"role": "tool", "tool_call_id": ""}]},
        {"messages": [{"role": "user", "content": [None, 5, {"type": "tool_result", "tool_use_id": 5, "content": 7}]}]},
        {"input": [{"type": 5, "content": 5}, {"type": "x_output", "call_id": {}, "output": {"text": "x"}}]},
        {"model": 5},
    ],
    ids=str,
)  # fmt: skip
def test_unexpected_types_are_passed_over(protocol: Protocol, context: Any) -> None:
    """Nothing is found in values of unexpected types, and nothing is raised."""
    assert list(iter_tool_results(protocol, context)) == []
    assert list(iter_messages_text(protocol, context)) == []


def test_nesting_is_bounded() -> None:
    """Content nested without end is read a few levels deep."""
    content: Any = "x"
    for _ in range(800):
        content = [{"content": content}]
    assert list(iter_messages_text(CHAT, {"messages": [{"role": "user", "content": content}]})) == []
