"""Chat Completions beyond what the transcripts show."""

import json
from typing import Any

import pytest

from tests.model_protocols.transcripts import CHAT, codes, decode, plain, sse

DONE = b"data: [DONE]\n\n"


def chunk(delta: Any = None, finish: Any = None, **members: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **members}


def message(*deltas: Any) -> Any:
    output = plain(decode(CHAT, sse(*map(chunk, deltas), chunk({}, "stop"), DONE)).output)
    return output["choices"][0]["message"]


def call(arguments: Any = None, *, name: Any = None, **members: Any) -> dict[str, Any]:
    return {"tool_calls": [{**members, "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([call("{", name="f", index=0, id="a"), call("}", index=0, id="a")], [("a", "f", "{}")]),
        ([call("{", name="f", index=0, id="a"), call("}", name="f", index=0, id="a")], [("a", "f", "{}")]),
        ([call("{", name="f", index=0, id="a"), call("}", name="", index=0, id="")], [("a", "f", "{}")]),
        ([call("{}", name="f", id="a"), call("{}", name="g", id="b")], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([call("{", name="f", id="a"), call("}", id="a")], [("a", "f", "{}")]),
        ([call("{}", name="f"), call("{}", name="f")], [(None, "f", "{}"), (None, "f", "{}")]),
        (
            [call("{}", name="f", index=0, id="a"), call("{}", name="f", index=0, id="b")],
            [("a", "f", "{}"), ("b", "f", "{}")],
        ),
        (
            [call("{}", name="g", index=1, id="b"), call("{}", name="f", index=0, id="a")],
            [("a", "f", "{}"), ("b", "g", "{}")],
        ),
        ([call("{", name="f", index=7, id="a"), call("}", index=7)], [("a", "f", "{}")]),
        ([call("{}", name="f", index="0", id="a")], [("a", "f", "{}")]),
        ([call("{", name="get_", index=0, id="a"), call("}", name="it", index=0)], [("a", "get_it", "{}")]),
    ],
)  # fmt: skip
def test_deltas_make_calls(deltas: list[Any], expected: list[tuple[str | None, str, str]]) -> None:
    """Which deltas belong to one call, for servers that number, repeat, or leave out ids and indexes (H13)."""
    decoded = decode(CHAT, sse(*map(chunk, deltas), chunk({}, "tool_calls"), DONE))
    calls = plain(decoded.output)["choices"][0]["message"]["tool_calls"]
    assert [(one.get("id"), one["function"]["name"], one["function"]["arguments"]) for one in calls] == expected
    assert [(ref.tool_call_id, ref.name) for ref in decoded.tool_refs] == [(one[0], one[1]) for one in expected]
    assert all("index" not in one for one in calls)


@pytest.mark.parametrize("arguments", ['{"command":"rm', "oops", ""])
def test_arguments_are_text(arguments: str) -> None:
    """Arguments that are no JSON are what the model wrote, in the shape that the protocol has for them: exportable."""
    decoded = decode(CHAT, sse(chunk(call(arguments, name="f", index=0, id="a")), chunk({}, "tool_calls"), DONE))
    [one] = plain(decoded.output)["choices"][0]["message"]["tool_calls"]
    assert one["function"]["arguments"] == arguments
    assert (decoded.response_capture_status, decoded.blockers) == ("complete", ())


@pytest.mark.parametrize(
    ("event", "blockers"),
    [
        ({"novel": 1}, []),
        ({"type": "weather", "usage": {"rain": 1}}, []),
        ({"choices": "x"}, ["response_incomplete"]),
        ({"choices": [3]}, ["response_incomplete"]),
        ({"choices": [{"index": 0, "delta": "x"}]}, ["response_incomplete"]),
    ],
    ids=str,
)
def test_chunk_that_cannot_be_folded_is_kept(event: Any, blockers: list[str]) -> None:
    """Events that are no chunks are kept whole, and so are choices of no known shape, which the answer then lacks."""
    decoded = decode(CHAT, sse(chunk({"content": "x"}), event, chunk({}, "stop"), DONE))
    output = plain(decoded.output)
    assert output["unknown_events"] == [event]
    assert output["choices"][0]["message"]["content"] == "x"
    assert (decoded.execution_status, list(decoded.blockers)) == ("completed", blockers)


@pytest.mark.parametrize("empty", [{"choices": None}, {"choices": [{"index": 0, "delta": []}]}], ids=str)
def test_empty_chunk_costs_nothing(empty: Any) -> None:
    """What holds nothing can lose nothing, whatever its type."""
    decoded = decode(CHAT, sse(chunk({"content": "x"}), empty, chunk({}, "stop"), DONE))
    assert (decoded.response_capture_status, decoded.blockers) == ("complete", ())
    assert "unknown_events" not in decoded.output


def test_two_calls_in_one_delta() -> None:
    """Several calls may come in one delta."""
    both = call("{}", name="f", index=0, id="a")["tool_calls"] + call("{}", name="g", index=1, id="b")["tool_calls"]
    assert [one["id"] for one in message({"tool_calls": both})["tool_calls"]] == ["a", "b"]


def test_unknown_members_are_kept_at_their_place() -> None:
    """Members of chunk, choice, message, call and function that nobody documents stay where they belong."""
    choice = {"index": 0, "delta": {"novel": {"a": 1}}, "finish_reason": None, "novel": 2}
    tool = {"tool_calls": [{"index": 0, "id": "a", "novel": 3, "function": {"name": "f", "arguments": "", "novel": 4}}]}
    stream = sse({"id": "c", "choices": [choice], "novel": 1}, chunk(tool), chunk({}, "stop"), DONE)
    output = plain(decode(CHAT, stream).output)
    [one] = output["choices"]
    assert (output["novel"], one["novel"], one["message"]["novel"]) == (1, 2, {"a": 1})
    assert one["message"]["tool_calls"][0] == {
        "id": "a",
        "novel": 3,
        "function": {"name": "f", "arguments": "", "novel": 4},
    }


def test_padding_against_traffic_analysis_is_no_part_of_the_answer() -> None:
    """`obfuscation` is left out, as it is without streaming."""
    assert "obfuscation" not in plain(decode(CHAT, sse(chunk({"content": "x"}, obfuscation="abc"))).output)


def test_role_that_is_sent_with_every_delta_is_one_role() -> None:
    """A repeated role is no text to be joined."""
    assert message({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}) == {
        "role": "assistant",
        "content": "ab",
    }


def test_content_member_always_stands_there() -> None:
    """A message without text has `content: null`, as without streaming."""
    assert list(message({"role": "assistant"}, call("{}", name="f", index=0, id="a"))) == [
        "role",
        "content",
        "tool_calls",
    ]


def test_content_in_parts_is_kept_in_parts() -> None:
    """Servers that stream content as lists of parts get a list."""
    parts = [[{"type": "thinking", "thinking": "hm"}], "Hi", [{"type": "text", "text": "!"}]]
    assert message(*({"content": part} for part in parts))["content"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Hi"},
        {"type": "text", "text": "!"},
    ]


def test_whole_message_at_the_end() -> None:
    """A server that closes with the whole message is believed where nothing was streamed, and compared where it was."""
    final = {"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}
    alone = decode(CHAT, sse({"id": "c", "choices": [final]}, DONE))
    assert plain(alone.output)["choices"][0]["message"]["content"] == "whole"
    both = decode(CHAT, sse(chunk({"content": "other"}), {"id": "c", "choices": [final]}, DONE))
    assert plain(both.output)["choices"][0]["message"]["content"] == "other"
    assert codes(both) == ["delta_final_mismatch"]


def test_first_id_counts_where_every_chunk_has_its_own() -> None:
    """An id that changes from chunk to chunk is named; the first one counts, also over an empty one."""
    chunks = [{**chunk({"content": "x"}), "id": one} for one in ("", "a", "b", "c")]
    decoded = decode(CHAT, sse(*chunks, DONE))
    assert decoded.response_id == "a"
    assert codes(decoded) == ["response_id_changed"]


def test_usage_in_every_chunk_counts_once() -> None:
    """Of running totals the last ones stand, and counts that came only once stay."""
    stream = sse(
        chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": 1, "details": {"cached": 2}}),
        chunk({"content": "b"}, "stop", usage={"prompt_tokens": 3, "completion_tokens": 2, "details": None}),
        {"id": "c", "choices": [], "usage": None},
        DONE,
    )
    decoded = decode(CHAT, stream)
    assert decoded.usage == {"prompt_tokens": 3, "completion_tokens": 2, "details": {"cached": 2}}
    assert codes(decoded) == []


def test_usage_behind_done_is_still_usage() -> None:
    """A usage chunk behind `[DONE]` is named and kept; text behind it is not mixed in."""
    decoded = decode(
        CHAT, sse(chunk({"content": "a"}, "stop"), DONE, chunk({"content": "b"}, usage={"total_tokens": 2}))
    )
    assert decoded.usage == {"total_tokens": 2}
    assert plain(decoded.output)["choices"][0]["message"]["content"] == "a"
    assert codes(decoded) == ["event_after_terminal"]


def test_second_finish_reason_is_named() -> None:
    """Of two finish reasons of one choice the last stands in the output, and both bar what they bar."""
    decoded = decode(CHAT, sse(chunk({"content": "a"}, "length"), chunk({}, "stop"), DONE))
    assert (decoded.finish_reason, list(decoded.blockers)) == ("stop", ["output_truncated"])
    assert codes(decoded) == ["second_finish_reason"]


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": "x"},
        {"choices": [3, None, []]},
        {"choices": [{"index": "0", "delta": "x"}]},
        {"choices": [{"index": 0, "delta": [], "finish_reason": 5}]},
        {"choices": [{"delta": {"content": 5}}]},
        {"choices": [{"delta": {"tool_calls": "x"}}]},
        {"choices": [{"delta": {"tool_calls": [1, {"index": [], "id": 5, "function": "f"}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": 5, "function": {"name": {}, "arguments": {}}}]}}]},
        {"choices": [{"delta": {"function_call": "x"}}]},
        {"choices": [{"delta": {"reasoning_details": {"a": 1}}}]},
        {"choices": [{"delta": {"audio": 3, "annotations": {"a": 1}, "role": 7}}]},
        {"choices": [], "usage": [1]},
        {"choices": [], "id": {}, "model": [], "created": {}, "object": 5},
        {"novel": 1},
    ],
    ids=str,
)
def test_unexpected_shapes_are_named(odd: Any) -> None:
    """Values of other types than documented never raise, twice in a row neither, and the text stays."""
    decoded = decode(CHAT, sse(chunk({"content": "x"}), odd, odd, chunk({}, "stop"), DONE))
    content = plain(decoded.output)["choices"][0]["message"]["content"]
    assert content == "x" or "x" in json.dumps(content)
    body = {"choices": [{"message": {"tool_calls": [None, {"id": 1, "function": 2}], "function_call": 3}}, 4], **odd}
    plain(decode(CHAT, json.dumps(body).encode()).output)


def test_hundred_thousand_chunks() -> None:
    """A very long stream with text, arguments and logprobs is joined once."""
    delta = {"content": "word ", "tool_calls": [{"index": 0, "function": {"arguments": "1234"}}]}
    event = sse({"choices": [{"index": 0, "delta": delta, "logprobs": {"content": [{"token": "w"}]}}]})
    [choice] = decode(CHAT, event * 100_000).output["choices"]
    assert len(choice["message"]["content"]) == 500_000
    assert len(choice["message"]["tool_calls"][0]["function"]["arguments"]) == 400_000
    assert len(choice["logprobs"]["content"]) == 100_000
