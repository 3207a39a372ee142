"""Anthropic Messages beyond what the transcripts show."""

import json
from typing import Any

import pytest

from tests.model_protocols.transcripts import ANTHROPIC, codes, decode, errors, plain, sse, wire

START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 1}}}
STOP = {"type": "message_stop"}


def delta(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def block(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}}


def end(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def content(*events: Any) -> list[Any]:
    output = plain(decode(ANTHROPIC, sse(START, *events)).output)
    assert isinstance(output["content"], list)
    return output["content"]


@pytest.mark.parametrize(
    ("pieces", "stopped", "expected", "warning"),
    [
        ([""], True, {"input": {}}, None),
        ([], True, {"input": {}}, None),
        (["", '{"a"', ":1}"], True, {"input": {"a": 1}}, None),
        (['{"a":1}'], False, {"input": {"a": 1}}, None),
        ([], False, {"input": {}, "partial_json": ""}, "tool_input_incomplete"),
        (['{"a"'], False, {"input": {}, "partial_json": '{"a"'}, "tool_input_incomplete"),
        (["12"], False, {"input": {}, "partial_json": "12"}, "tool_input_incomplete"),
        (["12"], True, {"input": 12}, None),
        (['{"a"'], True, {"input": {}, "partial_json": '{"a"'}, "tool_input_not_json"),
        (
            ['{"n":1e400,"m":123456789012345678901}'],
            True,
            {"input": {"n": float("inf"), "m": 123456789012345678901}},
            None,
        ),
    ],
)
def test_tool_input(pieces: list[str], stopped: bool, expected: dict[str, Any], warning: str | None) -> None:
    """The joined text is the input if it is whole JSON; else it stands beside the started input, never guessed (H6)."""
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in pieces]
    events = [START, block(0, "tool_use", id="t", name="f", input={}), *deltas, *([end(0)] if stopped else [])]
    decoded = decode(ANTHROPIC, sse(*events))
    assert plain(decoded.output)["content"] == [{"type": "tool_use", "id": "t", "name": "f", **expected}]
    assert [code for code in codes(decoded) if code.startswith("tool")] == ([warning] if warning else [])
    assert [(ref.tool_call_id, ref.name) for ref in decoded.tool_refs] == [("t", "f")]


TOOL = block(0, "tool_use", id="t", name="f", input={})
TEXT = block(0, "text", text="")
HALF_INPUT = delta(0, "input_json_delta", partial_json='{"command":"rm')
SOME_TEXT = delta(0, "text_delta", text="So")


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "refusal", "bored"])
@pytest.mark.parametrize(
    "events",
    [
        [TOOL, HALF_INPUT],
        [TOOL],
        [TOOL, HALF_INPUT, end(0)],
        [TOOL, HALF_INPUT, TEXT, end(0)],
        [TOOL, delta(0, "input_json_delta", partial_json={"command": "rm"}), end(0)],
        [TOOL, HALF_INPUT, block(1, "text", text="x"), end(1)],
        [TEXT, SOME_TEXT],
        [block(0, "thinking", thinking=""), delta(0, "thinking_delta", thinking="hm")],
        [block(0, "hologram"), delta(0, "hologram_delta", frame=1)],
        [{"type": "content_block_start", "index": 0, "content_block": 5}, HALF_INPUT, end(0)],
        [TEXT, {"type": "content_block_delta", "index": 0, "delta": "So"}, end(0)],
    ],
    ids=str,
)
def test_message_with_an_unfinished_block_is_not_whole(events: list[Any], reason: str) -> None:
    """The end marks of the message do not make whole what never ended, or what is visibly no whole input."""
    closing = [{"type": "message_delta", "delta": {"stop_reason": reason}}, STOP]
    decoded = decode(ANTHROPIC, sse(START, *events, *closing))
    assert (decoded.execution_status, decoded.response_capture_status) == ("completed", "partial")
    assert "response_incomplete" in decoded.blockers
    assert errors(decoded) == ["stream_damaged"]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "content_filter"])
@pytest.mark.parametrize("events", [[TOOL, HALF_INPUT, end(0)], [TOOL, HALF_INPUT], [TEXT, SOME_TEXT]], ids=str)
def test_block_that_the_service_broke_off_is_no_loss(events: list[Any], reason: str) -> None:
    """Half a tool input at the limit of the output is all that the model wrote: complete, and not exportable."""
    closing = [{"type": "message_delta", "delta": {"stop_reason": reason}}, STOP]
    decoded = decode(ANTHROPIC, sse(START, *events, *closing))
    assert (decoded.execution_status, decoded.response_capture_status) == ("completed", "complete")
    assert list(decoded.blockers) == ["content_filtered" if reason == "content_filter" else "output_truncated"]
    assert errors(decoded) == []


@pytest.mark.parametrize(
    "events",
    [
        [TOOL, delta(0, "input_json_delta", partial_json='{"a":1}')],
        [block(0, "tool_use", id="t", name="f", input={"a": 1})],
    ],
)
def test_whole_tool_input_shows_itself(events: list[Any]) -> None:
    """An input that is a whole JSON object needs no stop to be whole."""
    closing = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, STOP]
    decoded = decode(ANTHROPIC, sse(START, *events, *closing))
    assert (decoded.response_capture_status, decoded.blockers) == ("complete", ())
    assert plain(decoded.output)["content"][0] == {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    assert codes(decoded) == ["block_unfinished"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start", "message": "x"},
        {"type": "content_block_start", "index": 9, "content_block": []},
        {"type": "content_block_delta", "index": 0, "delta": "x"},
        {"type": "message_delta", "delta": ["x"]},
    ],
    ids=str,
)
def test_known_event_of_unknown_shape_is_kept(event: Any) -> None:
    """An event that cannot be folded is kept like one of an unknown kind."""
    assert plain(decode(ANTHROPIC, sse(START, event)).output)["unknown_events"] == [event]


def test_whole_input_at_the_start_is_kept() -> None:
    """A gateway that sends the whole input with the block's start, and no deltas, is believed."""
    assert content(block(0, "tool_use", id="t", name="f", input={"a": 1}), end(0))[0]["input"] == {"a": 1}


def test_text_at_the_start_is_kept() -> None:
    """Text in the block's start comes before the deltas."""
    assert content(block(0, "text", text="Hel"), delta(0, "text_delta", text="lo"))[0]["text"] == "Hello"


def test_blocks_stand_in_the_order_of_their_index() -> None:
    """Blocks that interleave and begin out of order are sorted by index."""
    blocks = content(
        block(1, "text", text=""), block(0, "thinking", thinking=""), delta(1, "text_delta", text="b"),
        delta(0, "thinking_delta", thinking="a"), delta(1, "text_delta", text="c"),
    )  # fmt: skip
    assert blocks == [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "bc"}]


def test_surrogate_pair_cut_between_deltas() -> None:
    """A character whose two UTF-16 halves came in two deltas is whole again."""
    halves = [sse(delta(0, "text_delta", text="HALF")).replace(b"HALF", half) for half in (rb"\ud83d", rb"\ude00")]
    output = decode(ANTHROPIC, sse(START, block(0, "text", text=""), *halves)).output
    assert output["content"][0]["text"] == "😀"


def test_delta_without_its_start_is_kept_and_costs_completeness() -> None:
    """Text of a block that never began is kept; the response is known to lack something."""
    decoded = decode(
        ANTHROPIC,
        sse(
            START,
            delta(0, "text_delta", text="x"),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            STOP,
        ),
    )
    assert plain(decoded.output)["content"] == [{"type": "text", "text": "x"}]
    assert decoded.response_capture_status == "partial"
    assert "event_out_of_order" in codes(decoded)


def test_fallback_names_the_model_that_served() -> None:
    """After a fallback block the message bears the model that it names, as it does without streaming."""
    stream = sse(START, block(0, "fallback", **{"from": {"model": "m"}, "to": {"model": "n"}}), end(0))
    assert decode(ANTHROPIC, stream).model == "n"


def test_second_finish_reason_is_named() -> None:
    """Of two different stop reasons the last stands in the message, and both bar what they bar."""
    reasons = [{"type": "message_delta", "delta": {"stop_reason": word}} for word in ("max_tokens", "end_turn")]
    decoded = decode(ANTHROPIC, sse(START, *reasons, STOP))
    assert plain(decoded.output)["stop_reason"] == decoded.finish_reason == "end_turn"
    assert list(decoded.blockers) == ["output_truncated"]
    assert codes(decoded) == ["second_finish_reason"]


def test_repeated_start_before_any_block_is_harmless() -> None:
    """A `message_start` that is only sent twice costs nothing but a warning."""
    data = wire(ANTHROPIC, "text.sse")
    start, end_of_event, rest = data.partition(b"\n\n")
    decoded = decode(ANTHROPIC, start + end_of_event + data)
    assert rest
    assert decoded.output == decode(ANTHROPIC, data).output
    assert (decoded.response_capture_status, codes(decoded)) == ("complete", ["second_start"])


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "message_start", "message": "x"},
        {"type": "content_block_start", "index": 9},
        {"type": "content_block_start", "index": {"a": 1}, "content_block": []},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": [], "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": ["x"]}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
        {"type": "content_block_stop", "index": "zero"},
        {"type": "message_delta", "delta": [], "usage": []},
        {"type": "message_delta", "delta": {"stop_reason": 3}, "usage": "many"},
        {"type": "message_delta", "usage": {"input_tokens": {"a": 1}}},
        {"type": {"a": 1}},
        {},
    ],
    ids=str,
)
def test_unexpected_shapes_are_named(event: Any) -> None:
    """Values of other types than documented never raise, and what they stand beside is kept."""
    decoded = decode(ANTHROPIC, sse(START, block(0, "text", text=""), delta(0, "text_delta", text="x"), event, STOP))
    assert plain(decoded.output)["content"][0]["text"] == "x"


@pytest.mark.parametrize(
    "body",
    [
        {"type": "message", "id": 7, "content": "text", "usage": [], "stop_reason": {}},
        {"type": "message", "content": [None, 3, "x", {"type": 5}, {"type": "tool_use", "id": 4, "name": []}]},
        {"content": []},
    ],
)
def test_unexpected_shapes_in_a_body(body: Any) -> None:
    """The same for JSON bodies: ids and usage of wrong types are left out, the text stays."""
    decoded = decode(ANTHROPIC, json.dumps(body).encode())
    assert decoded.response_id is None
    assert decoded.usage is None
    assert plain(decoded.output) == body


def test_hundred_thousand_deltas() -> None:
    """A very long stream is joined once."""
    event = sse(delta(0, "text_delta", text="word "))
    decoded = decode(ANTHROPIC, sse(START, block(0, "text", text="")) + event * 100_000)
    assert len(decoded.output["content"][0]["text"]) == 500_000
