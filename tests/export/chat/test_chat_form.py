"""The chat form: what each protocol's messages become, and that nothing is lost or made up on the way."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roller_capture.export.chat import NoChatFormError, chat_call, split_parts
from roller_capture.export.chat.transcript import Image, image_of_url
from roller_capture.vocabulary import Protocol
from tests.export.published import CHAT_REQUEST, CHAT_RESPONSE, RESPONSES_REQUEST, RESPONSES_RESPONSE

MESSAGES, CHAT, RESPONSES = (
    Protocol.ANTHROPIC_MESSAGES,
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
)
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}
CHAT_ANSWER = {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}
NO_ITEMS: dict[str, Any] = {"output": []}


def call_of(name: str, arguments: str, call_id: str = "t1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_messages_of_anthropic() -> None:
    """The system prompt first; tool results are messages of their own; what has no place is kept by its pointer."""
    context = {
        "system": [
            {"type": "text", "text": "A"},
            {"type": "text", "text": "BC", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "xx"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "ls", "input": {"at": "."}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "a"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
    }
    chat = chat_call(MESSAGES, context, ANSWER)
    assert chat.messages == [
        {"role": "system", "content": "ABC"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [call_of("ls", '{"at":"."}')],
        },
        {"role": "tool", "content": "a", "tool_call_id": "t1"},
        {"role": "user", "content": "and?"},
    ]
    assert chat.output == [{"role": "assistant", "content": "ok"}]
    assert chat.extra["context"] == {
        "/system/1/cache_control": {"type": "ephemeral"},
        "/messages/1/content/0/signature": "sig",
        "/messages/1/content/1": {"type": "redacted_thinking", "data": "xx"},
        "/messages/2/content/0/is_error": True,
    }
    places = ["/system", "/messages/0", "/messages/1", "/messages/2/content/0", "/messages/2"]
    assert [item["at"] for item in chat.origins["context"]] == places
    assert split_parts("ABC", chat.origins["context"][0]) == ["A", "BC"]


def test_an_order_that_one_message_cannot_hold_becomes_two() -> None:
    """Text after a tool call; both come from the same message."""
    blocks = [
        {"type": "text", "text": "1"},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {}},
        {"type": "text", "text": "2"},
        {"type": "thinking", "thinking": "3"},
    ]
    chat = chat_call(MESSAGES, {"messages": []}, {"content": blocks})
    assert chat.output == [
        {"role": "assistant", "content": "1", "tool_calls": [call_of("ls", "{}")]},
        {"role": "assistant", "content": "2"},
        {"role": "assistant", "content": None, "reasoning_content": "3"},
    ]
    assert chat.origins["output"] == [{"at": ""}, {"at": ""}, {"at": ""}]


def test_messages_of_chat_completions() -> None:
    """They are what they are; the parts of a text are put together."""
    chat = chat_call(CHAT, CHAT_REQUEST, CHAT_RESPONSE)
    assert chat.messages == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two"}]
    assert chat.origins["context"][1] == {"at": "/messages/1", "parts": [4, 3]}
    assert chat.output == [
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [call_of("ls", '{"at": "."}', "call_1")],
        }
    ]
    assert chat.tools == CHAT_REQUEST["tools"]
    assert chat.extra == {"context": {}, "output": {}}


def test_messages_of_responses() -> None:
    """Items between two inputs are one turn; what is encrypted stays beside it."""
    chat = chat_call(RESPONSES, RESPONSES_REQUEST, RESPONSES_RESPONSE)
    assert chat.messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call_of("ls", "{}", "call_0")]},
        {"role": "tool", "content": "a b", "tool_call_id": "call_0"},
    ]
    assert chat.output == [{"role": "assistant", "content": "done"}]
    assert chat.tools == CHAT_REQUEST["tools"]
    assert chat.other_tools == [{"type": "web_search"}]
    assert chat.extra["context"] == {
        "/input/1/id": "rs_0",
        "/input/1/summary": [],
        "/input/1/encrypted_content": "opaque",
        "/input/2/id": "fc_0",
    }


def test_a_turn_of_responses_with_everything_in_it() -> None:
    """Reasoning that can be read, a message, two calls, one of them of a custom tool; a second message is another."""
    items = [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "n"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
    ]
    tools = [{"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}]
    chat = chat_call(RESPONSES, {"input": "go", "tools": tools}, {"output": items})
    first, second, third = chat.output
    assert first["reasoning_content"] == "hm"
    assert first["content"] == "a"
    assert first["tool_calls"] == [
        call_of("f", "{}", "c1"),
        {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** x"}},
    ]
    assert (second["content"], third["content"]) == ("b", "c")
    assert chat.extra["output"] == {"/output/2/namespace": "n"}
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    assert chat.tools == [{"type": "custom", "custom": {"name": "patch", "format": grammar}}]


@pytest.mark.parametrize(
    ("protocol", "context", "output", "what", "pointer"),
    [
        (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, ANSWER, "image", "0/content/0"),
        (MESSAGES, {"messages": []}, {"content": [{"type": "server_tool_use"}]}, "server_tool_use", "/content/0"),
        (MESSAGES, {"messages": 1}, ANSWER, "an unknown shape", "/messages"),
        (MESSAGES, {"messages": []}, None, "no output", ""),
        (CHAT, {"messages": []}, {"choices": CHAT_ANSWER["choices"] * 2}, "several choices", "/choices"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, CHAT_ANSWER, "image_url", "0"),
        (CHAT, {"messages": [{"role": "assistant", "refusal": "no"}]}, CHAT_ANSWER, "refusal", "/messages/0/refusal"),
        (RESPONSES, {"input": "x", "previous_response_id": "r"}, NO_ITEMS, "a history that is not", "/previous"),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}, NO_ITEMS, "item_reference", "/input/0"),
        (RESPONSES, {"input": "x"}, {"output": [{"type": "web_search_call"}]}, "web_search_call", "/output/0"),
        (RESPONSES, {"input": "x"}, {"output": [{"type": "\x1b[31m"}]}, "an unknown type", "/output/0"),
    ],
)
def test_what_the_form_cannot_say_is_refused_by_name(
    protocol: Protocol, context: Any, output: Any, what: str, pointer: str
) -> None:
    """Never left away."""
    with pytest.raises(NoChatFormError) as caught:
        chat_call(protocol, context, output)
    assert what in caught.value.what
    assert pointer in caught.value.pointer


def test_events_that_nobody_knows_are_kept() -> None:
    """They may hold what the model said."""
    unknown = [{"type": "hologram", "text": "hi"}]
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "unknown_events": unknown}
    chat = chat_call(Protocol.ANTHROPIC_MESSAGES, {"messages": []}, answer)
    assert chat.extra["output"] == {"/unknown_events": unknown}


def test_both_names_of_reasoning_are_read_once() -> None:
    """A service may send either, or both; another text under the second name is kept."""
    for members, extra in (
        ({"reasoning": "hm"}, {}),
        ({"reasoning_content": "hm", "reasoning": "hm"}, {}),
        ({"reasoning_content": "hm", "reasoning": "ha"}, {"/choices/0/message/reasoning": "ha"}),
    ):
        output = {"choices": [{"message": {"role": "assistant", "content": "x", **members}}]}
        chat = chat_call(CHAT, {"messages": []}, output)
        assert chat.output[0]["reasoning_content"] == "hm"
        assert chat.extra["output"] == extra


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data:image/png;base64,AA==", ("image/png", "AA==")),
        ("data:image/png;charset=utf-8;base64,AA==", ("image/png", "AA==")),
        ("DATA:image/PNG;name=a.png;charset=utf-8;Base64,AA==", ("image/png", "AA==")),
        ("data:image/svg+xml;charset=utf-8,<svg/>;base64,AA==", None),
        ("data:image/png;charset=base64,AA==", None),
        ("data:image/png,AA==", None),
        ("https://x/data:image/png;base64,AA==", None),
        (None, None),
    ],
)
def test_an_image_of_a_data_url(url: Any, expected: tuple[str, str] | None) -> None:
    """With or without parameters (RFC 2397); any other URL leads to what the request does not hold."""
    if expected is not None:
        assert image_of_url(url, "/at") == Image(*expected)
        return
    with pytest.raises(NoChatFormError, match="an image that is not in the request at /at"):
        image_of_url(url, "/at")


WORDS = st.sampled_from(
    [
        *("type", "role", "content", "text", "tool_calls", "function", "id", "name", "arguments", "custom", "input"),
        *("message", "assistant", "user", "tool", "system", "tool_use", "tool_result", "thinking", "reasoning"),
        *("function_call", "function_call_output", "call_id", "output", "tool_use_id", "choices", "messages"),
        *("output_text", "tools", "input_schema", "format", "refusal", "instructions"),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(list(Protocol)), st.dictionaries(WORDS, VALUES, max_size=5), VALUES)
def test_whatever_was_sent_there_is_a_chat_form_or_a_reason(
    protocol: Protocol, context: dict[str, Any], output: Any
) -> None:
    """No shape breaks an export, and every message has the members of the form and no others."""
    try:
        chat = chat_call(protocol, context, output)
    except NoChatFormError:
        return
    allowed = {"role", "content", "reasoning_content", "name", "tool_call_id", "tool_calls"}
    for message in [*chat.messages, *chat.output]:
        assert message.keys() <= allowed
        assert isinstance(message["content"], str | None)
    json.dumps(chat)
