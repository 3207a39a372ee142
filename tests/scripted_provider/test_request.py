"""What a script can see in a request."""

from typing import Any

import pytest

from roller_capture.scripted_provider import ModelRequest, ToolResult
from roller_capture.scripted_provider.request import new_nonce, protocol_of
from roller_capture.vocabulary import Protocol


def request(body: dict[str, Any]) -> ModelRequest:
    return ModelRequest(1, new_nonce(), Protocol.ANTHROPIC_MESSAGES, "/v1/messages", {}, b"", body)


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/messages", Protocol.ANTHROPIC_MESSAGES),
        ("/v1/messages?beta=true", Protocol.ANTHROPIC_MESSAGES),
        ("/proxy/v1/messages/", Protocol.ANTHROPIC_MESSAGES),
        ("/v1/chat/completions", Protocol.OPENAI_CHAT_COMPLETIONS),
        ("/responses", Protocol.OPENAI_RESPONSES),
        ("/v1/messages/count_tokens", None),
        ("/v1/models", None),
    ],
)
def test_the_endpoint_tells_the_protocol(path: str, protocol: Protocol | None) -> None:
    """Only the path counts."""
    assert protocol_of(path) is protocol


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]}, "A"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "image"}]}]}, "A"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "B"}]}]}, ""),
        ({"input": "A"}, "A"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "A"}]}, {"type": "other"}]}, "A"),
        ({"messages": {"role": "user"}}, ""),
        ({"messages": [1, {"role": "user", "content": 2}, {"role": "user", "content": [3, {"type": "text"}]}]}, ""),
        ({}, ""),
    ],
)
def test_prompt_text_is_what_users_wrote(body: dict[str, Any], text: str) -> None:
    """Model output and tool results are no prompt; odd shapes are passed over."""
    assert request(body).prompt_text == text


@pytest.mark.parametrize(
    ("message", "result"),
    [
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "R"}]},
            ToolResult("t", "R"),
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"text": "R"}]}]},
            ToolResult("t", '[{"text": "R"}]'),
        ),
        ({"role": "tool", "tool_call_id": "t", "content": "R"}, ToolResult("t", "R")),
        ({"type": "function_call_output", "call_id": "t", "output": "R"}, ToolResult("t", "R")),
    ],
)
def test_tool_results_are_found_in_every_protocol(message: dict[str, Any], result: ToolResult) -> None:
    """Id and text of each result."""
    assert request({"messages": [message]}).tool_results == (result,)


def test_tool_names_come_from_every_shape_of_declaration() -> None:
    """Anthropic, Chat Completions, Responses built-in tools."""
    tools = [{"name": "a"}, {"type": "function", "function": {"name": "b"}}, {"type": "c"}, 4, {}]
    assert request({"tools": tools}).tool_names == {"a", "b", "c"}


@pytest.mark.parametrize("field", ["messages", "input"])
def test_nonces_of_earlier_answers_are_found_anywhere_in_the_conversation(field: str) -> None:
    """In text and in ids."""
    first, second = new_nonce(), new_nonce()
    assert request({field: [{"content": f"x [{first}]"}, {"id": f"toolu_01{second}0"}]}).nonces == {first, second}


@pytest.mark.parametrize("field", ["system", "instructions"])
def test_nonces_in_a_system_prompt_count(field: str) -> None:
    """The model is given it."""
    nonce = new_nonce()
    assert request({field: f"So far: [{nonce}]", "messages": []}).nonces == {nonce}


def test_nonces_that_the_model_is_not_given_do_not_count() -> None:
    """A harness can send its session log along, which tells of results that have come in and were not read yet."""
    told, untold = new_nonce(), new_nonce()
    log = {"events": [{"type": "agent/inbox/spliced", "data": f"[{untold}]"}, {"data": f"[{told}]"}]}
    assert request({"messages": [{"content": f"[{told}]"}], "dsh_session_log": log}).nonces == {told}
