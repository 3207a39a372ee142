"""The answers are what the vendors' own SDKs accept, in all three protocols, with and without streaming."""

from collections.abc import Iterator

import pytest
from anthropic import Anthropic
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock
from openai import OpenAI

from roller_capture.scripted_provider import Reply, ScriptedProvider, ToolUse, TruthRecord

REPLY = Reply(
    text="Grüße, 🌍: a text long enough for several deltas.",
    thinking="Let me see.",
    tools=(ToolUse("look", {"where": "größe 🌍", "n": 1}), ToolUse("look", {})),
    usage={"cached": 3},
)
QUESTION = [{"role": "user", "content": "Question?"}]


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(lambda _: REPLY) as running:
        yield running
    assert running.script_errors == []


def truth(provider: ScriptedProvider) -> TruthRecord:
    [record] = provider.truth.records
    return record


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropic_sdk_reads_a_message(provider: ScriptedProvider, streamed: bool) -> None:
    """Thinking, text, tool calls, ids and finish reason reach an Anthropic client."""
    with Anthropic(base_url=provider.url, api_key="dummy", max_retries=0) as client:
        options = {"model": "m", "max_tokens": 9, "messages": QUESTION}
        if streamed:
            with client.messages.stream(**options) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**options)
    thought, text, first, second = message.content
    assert isinstance(thought, ThinkingBlock)
    assert isinstance(text, TextBlock)
    assert isinstance(first, ToolUseBlock)
    assert isinstance(second, ToolUseBlock)
    record = truth(provider)
    assert thought.thinking == REPLY.thinking
    assert text.text == f"{REPLY.text} [{record.nonce}]"
    assert (first.input, second.input) == ({"where": "größe 🌍", "n": 1}, {})
    assert (first.id, second.id) == record.tool_ids
    assert (message.id, message.model, message.stop_reason) == (record.response_id, "m", "tool_use")


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_sdk_reads_a_chat_completion(provider: ScriptedProvider, streamed: bool) -> None:
    """Text, tool calls, ids and finish reason reach a Chat Completions client."""
    with OpenAI(base_url=f"{provider.url}/v1", api_key="dummy", max_retries=0) as client:
        if streamed:
            with client.chat.completions.stream(
                model="m", messages=QUESTION, stream_options={"include_usage": True}
            ) as stream:
                completion = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(model="m", messages=QUESTION)
    [choice] = completion.choices
    record = truth(provider)
    assert choice.message.content == f"{REPLY.text} [{record.nonce}]"
    assert [call.id for call in choice.message.tool_calls] == list(record.tool_ids)
    assert [call.function.name for call in choice.message.tool_calls] == ["look", "look"]
    assert (completion.id, choice.finish_reason) == (record.response_id, "tool_calls")
    assert completion.usage.total_tokens == 142


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_sdk_reads_a_response(provider: ScriptedProvider, streamed: bool) -> None:
    """Reasoning, text, tool calls and ids reach a Responses client."""
    with OpenAI(base_url=f"{provider.url}/v1", api_key="dummy", max_retries=0) as client:
        if streamed:
            with client.responses.stream(model="m", input="Question?") as stream:
                response = stream.get_final_response()
        else:
            response = client.responses.create(model="m", input="Question?")
    record = truth(provider)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output_text == f"{REPLY.text} [{record.nonce}]"
    assert [item.call_id for item in response.output[2:]] == list(record.tool_ids)
    assert (response.id, response.status) == (record.response_id, "completed")


@pytest.mark.parametrize(
    ("finish", "reason"), [("incomplete", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_incomplete_response_says_why(finish: str, reason: str) -> None:
    """A Responses answer can end unfinished."""
    with (
        ScriptedProvider(lambda _: Reply(text="Too lo", finish=finish)) as provider,
        OpenAI(base_url=f"{provider.url}/v1", api_key="dummy", max_retries=0) as client,
        client.responses.stream(model="m", input="Question?") as stream,
    ):
        last = list(stream)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == reason
    assert truth(provider).terminal_sent


@pytest.mark.parametrize("streamed", [False, True])
def test_other_kinds_of_tool_calls(streamed: bool) -> None:
    """A custom tool, whose input is text, and a search for tools, which has no name, reach a Responses client too."""
    tools = (
        ToolUse("space/run", {"input": "text(1)"}, kind="custom_tool_call"),
        ToolUse("", {"query": "q"}, kind="tool_search_call"),
    )
    with (
        ScriptedProvider(lambda _: Reply(tools=tools)) as provider,
        OpenAI(base_url=f"{provider.url}/v1", api_key="dummy", max_retries=0) as client,
    ):
        if streamed:
            with client.responses.stream(model="m", input="Question?") as stream:
                response = stream.get_final_response()
        else:
            response = client.responses.create(model="m", input="Question?")
    custom, search = (item.to_dict() for item in response.output)
    assert (custom["type"], custom["name"], custom["namespace"]) == ("custom_tool_call", "run", "space")
    assert custom["input"] == "text(1)"
    assert (search["type"], search["arguments"]) == ("tool_search_call", {"query": "q"})
    assert (custom["call_id"], search["call_id"]) == provider.truth.records[0].tool_ids
