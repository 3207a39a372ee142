"""Responses beyond what the transcripts show."""

import json
from typing import Any

import pytest

from tests.model_protocols.transcripts import RESPONSES, codes, decode, errors, plain, sse

CREATED = {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}}


def added(index: Any, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: Any, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def completed(*output: Any) -> dict[str, Any]:
    return {
        "type": "response.completed",
        "response": {"id": "r", "model": "m", "status": "completed", "output": output},
    }


def items(*events: Any) -> list[Any]:
    output = plain(decode(RESPONSES, sse(CREATED, *events)).output)["output"]
    assert isinstance(output, list)
    return output


def test_output_is_rebuilt_in_order_of_output_index() -> None:
    """Finished items stand in order of their index, whatever order they came in (H9)."""
    finished = [done(index, type="message", id=f"m{index}") for index in (2, 0, 1)]
    decoded = decode(RESPONSES, sse(CREATED, *finished, completed()))
    assert [item["id"] for item in plain(decoded.output)["output"]] == ["m0", "m1", "m2"]
    assert codes(decoded) == ["terminal_output_rebuilt"]


def test_items_that_the_terminal_event_left_out_are_not_lost() -> None:
    """A terminal output that lists fewer items than were streamed is completed from the stream."""
    streamed = [done(0, type="reasoning", id="a"), done(1, type="function_call", id="b", call_id="c", name="f")]
    decoded = decode(RESPONSES, sse(CREATED, *streamed, completed({"type": "reasoning", "id": "a"})))
    assert [item["id"] for item in plain(decoded.output)["output"]] == ["a", "b"]
    assert [ref.tool_call_id for ref in decoded.tool_refs] == ["c"]


def test_terminal_event_alone_is_enough() -> None:
    """The terminal response stands for itself when nothing else came."""
    decoded = decode(RESPONSES, sse(completed({"type": "message", "id": "a"})))
    assert (decoded.execution_status, decoded.response_capture_status, decoded.response_id) == (
        "completed", "complete", "r",
    )  # fmt: skip
    assert codes(decoded) == []


CALL = {"type": "function_call", "id": "i", "call_id": "c", "name": "f"}
CUT_CALL = [
    added(0, **CALL, arguments="", status="in_progress"),
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"command":"rm'},
]
WHOLE_CALL = {**CALL, "arguments": '{"command":"rm x"}', "status": "completed"}


@pytest.mark.parametrize(
    "events",
    [
        [*CUT_CALL, completed()],
        [*CUT_CALL, {"type": "response.completed"}],
        [*CUT_CALL, completed({**CALL, "arguments": "", "status": "in_progress"})],
        [*CUT_CALL, done(1, type="message", id="m"), completed({"type": "message", "id": "m"})],
        [added(0, type="message", id="m", content=[]), completed()],
        [added(0, type="web_search_call", id="w", status="in_progress"), completed()],
    ],
    ids=str,
)
def test_response_with_an_unfinished_item_is_not_whole(events: list[Any]) -> None:
    """An item that neither ended nor is listed by the terminal response as ended may lack its end."""
    decoded = decode(RESPONSES, sse(CREATED, *events))
    assert (decoded.execution_status, decoded.response_capture_status) == ("completed", "partial")
    assert list(decoded.blockers) == ["response_incomplete"]
    assert errors(decoded) == ["stream_damaged"]


@pytest.mark.parametrize(
    "events",
    [
        [*CUT_CALL, completed(WHOLE_CALL)],
        [*CUT_CALL, done(1, type="message", id="m"), completed(WHOLE_CALL)],
        [*CUT_CALL, done(0, **WHOLE_CALL), completed()],
        [*CUT_CALL, done(0, **{**WHOLE_CALL, "status": "in_progress"}), completed()],
        [*CUT_CALL, done(0, **{**WHOLE_CALL, "arguments": "no JSON"}), completed()],
    ],
    ids=str,
)
def test_item_that_ended_or_is_listed_is_whole(events: list[Any]) -> None:
    """One of both is enough, and arguments are text: JSON or not."""
    decoded = decode(RESPONSES, sse(CREATED, *events))
    assert (decoded.response_capture_status, decoded.blockers) == ("complete", ())
    assert plain(decoded.output)["output"][0]["arguments"] in (WHOLE_CALL["arguments"], "no JSON")


def test_item_that_the_service_broke_off_is_no_loss() -> None:
    """`response.incomplete` says itself that its last item has no end."""
    event = {"type": "response.incomplete", "response": {"id": "r", "status": "incomplete", "output": []}}
    decoded = decode(RESPONSES, sse(CREATED, *CUT_CALL, event))
    assert (decoded.response_capture_status, list(decoded.blockers)) == ("complete", ["output_truncated"])


def test_listed_item_that_says_otherwise_than_its_deltas_is_named() -> None:
    """Where no finished item came, the deltas are compared with the terminal response."""
    decoded = decode(RESPONSES, sse(CREATED, *CUT_CALL, completed({**WHOLE_CALL, "arguments": "other"})))
    assert codes(decoded) == ["delta_final_mismatch"]


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_call.searching",
        "file_search_call.in_progress",
        "code_interpreter_call.interpreting",
        "image_generation_call.partial_image",
        "mcp_call.failed",
        "mcp_list_tools.completed",
    ],
)
def test_progress_of_the_services_own_tools_is_no_unknown_event(kind: str) -> None:
    """What the finished item says anyway is not kept a second time."""
    event = {"type": f"response.{kind}", "output_index": 0, "partial_image_b64": "x" * 1000}
    decoded = decode(RESPONSES, sse(CREATED, event, completed()))
    assert "unknown_events" not in plain(decoded.output)
    assert codes(decoded) == []


@pytest.mark.parametrize(
    "kind",
    [
        "response.audio.delta",
        "response.novel_call.delta",
        "response.novel_call.searching",
        "response.web_search_call.novel",
        "response.output_text.novel",
        "response.function_call_arguments.added",
        "response.content_part.delta",
        "novel",
    ],
)
def test_unknown_events_are_kept_whole(kind: str) -> None:
    """Also when their name begins or ends like a known one, and when their item is finished without them."""
    event = {"type": kind, "output_index": 0, "delta": "AAA", "text": "BBB", "part": {"text": "CCC"}}
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "x"}]}
    decoded = decode(RESPONSES, sse(CREATED, added(0, **item), event, done(0, **item), completed(item)))
    assert plain(decoded.output)["unknown_events"] == [event]
    assert plain(decoded.output)["output"] == [item]
    assert codes(decoded) == ["unknown_event"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.in_progress", "response": []},
        {"type": "response.output_item.added", "output_index": 0},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.output_text.delta", "output_index": 0, "delta": {"a": 1}},
        {"type": "response.function_call_arguments.done", "output_index": 0},
        {"type": "response.content_part.added", "output_index": 0, "part": 5},
    ],
    ids=str,
)
def test_known_event_of_unknown_shape_is_kept(event: Any) -> None:
    """An event that cannot be folded is kept like one of an unknown kind."""
    assert plain(decode(RESPONSES, sse(CREATED, event)).output)["unknown_events"] == [event]


@pytest.mark.parametrize(
    ("event", "member", "kind"),
    [
        ("function_call_arguments", "arguments", "function_call"),
        ("custom_tool_call_input", "input", "custom_tool_call"),
        ("mcp_call_arguments", "arguments", "mcp_call"),
        ("code_interpreter_call_code", "code", "code_interpreter_call"),
        ("code_interpreter_call.code", "code", "code_interpreter_call"),
    ],
)
def test_cut_calls_keep_what_they_have(event: str, member: str, kind: str) -> None:
    """A call cut inside its input keeps the text so far, and its id: its tool may have run."""
    start = added(0, type=kind, id="i", call_id="c", name="f", **{member: ""})
    deltas = [{"type": f"response.{event}.delta", "output_index": 0, "delta": piece} for piece in ("ab", "cd")]
    assert items(start, *deltas) == [{"type": kind, "id": "i", "call_id": "c", "name": "f", member: "abcd"}]
    whole = {"type": f"response.{event}.done", "output_index": 0, member: "abcdef"}
    assert items(start, *deltas, whole)[0][member] == "abcdef"
    decoded = decode(RESPONSES, sse(CREATED, start, *deltas))
    assert [(ref.tool_call_id, ref.item_id, ref.name) for ref in decoded.tool_refs] == [("c", "i", "f")]
    assert "tool_input_incomplete" in codes(decoded)


@pytest.mark.parametrize(
    ("stem", "list_name", "index_name", "member", "part"),
    [
        ("output_text", "content", "content_index", "text", "output_text"),
        ("refusal", "content", "content_index", "refusal", "refusal"),
        ("reasoning_text", "content", "content_index", "text", "reasoning_text"),
        ("reasoning_summary_text", "summary", "summary_index", "text", "summary_text"),
    ],
)
def test_cut_texts_keep_what_they_have(stem: str, list_name: str, index_name: str, member: str, part: str) -> None:
    """Texts cut inside a part stand in it, also in the second part, and also without the part's own start."""
    at = {"output_index": 0, "item_id": "i"}
    deltas = [
        {"type": f"response.{stem}.delta", **at, index_name: index, "delta": piece}
        for index, piece in [(0, "a"), (1, "b"), (0, "c")]
    ]
    expected = [{"type": part, member: "ac"}, {"type": part, member: "b"}]
    assert items(added(0, type="x", id="i", **{list_name: []}), *deltas)[0][list_name] == expected
    [item] = items(*deltas)
    assert (item["id"], item[list_name]) == ("i", expected)


def test_item_is_found_by_id_where_no_index_is_sent() -> None:
    """Events without `output_index` go by `item_id`."""
    events = [
        {
            "type": "response.output_item.added",
            "item": {"type": "function_call", "id": one, "call_id": one, "arguments": ""},
        }
        for one in "ab"
    ]
    deltas = [{"type": "response.function_call_arguments.delta", "item_id": one, "delta": one * 2} for one in "bab"]
    assert [item["arguments"] for item in items(*events, *deltas)] == ["aa", "bbbb"]


@pytest.mark.parametrize(
    "final",
    [{"arguments": "other"}, {"arguments": ""}],
)
def test_finished_item_beats_its_deltas(final: dict[str, Any]) -> None:
    """What the finished item says counts; that the deltas said something else is named."""
    stream = sse(
        CREATED,
        added(0, type="function_call", id="i", arguments=""),
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        done(0, type="function_call", id="i", **final),
    )
    decoded = decode(RESPONSES, stream)
    assert plain(decoded.output)["output"][0]["arguments"] == final["arguments"]
    assert codes(decoded) == ["delta_final_mismatch"]


def test_second_item_at_one_index_is_kept_too() -> None:
    """Two items that claim one place both stand in the output."""
    decoded = decode(RESPONSES, sse(CREATED, added(0, type="message", id="a"), added(0, type="message", id="b")))
    assert [item["id"] for item in plain(decoded.output)["output"]] == ["a", "b"]
    assert "event_out_of_order" in codes(decoded)


def test_annotations_of_a_cut_text_are_kept() -> None:
    """Annotations stand in their part also when the item never finished."""
    at = {"output_index": 0, "content_index": 0}
    [item] = items(
        added(0, type="message", id="i", content=[]),
        {"type": "response.output_text.delta", **at, "delta": "x", "logprobs": [{"token": "x"}]},
        {"type": "response.output_text.annotation.added", **at, "annotation": {"url": "u"}},
    )
    assert item["content"] == [
        {"type": "output_text", "text": "x", "annotations": [{"url": "u"}], "logprobs": [{"token": "x"}]}
    ]


@pytest.mark.parametrize("response", [None, 5, {}, {"id": "r"}, {"id": "r", "status": "in_progress", "error": None}])
def test_failed_event_fails_whatever_its_response_says(response: Any) -> None:
    """The event's own type is enough for a failure."""
    decoded = decode(RESPONSES, sse(CREATED, {"type": "response.failed", "response": response}))
    assert (decoded.execution_status, decoded.finish_reason) == ("failed", "failed")
    assert decoded.errors[0].message == "response failed"


def test_unfinished_response_has_no_finish_reason() -> None:
    """`in_progress` is a state, no finish."""
    assert decode(RESPONSES, sse(CREATED)).finish_reason is None


def test_status_inside_the_terminal_event_counts_too() -> None:
    """A `response.completed` whose response says that it failed is failed."""
    event = completed()
    event["response"] |= {"status": "failed", "error": {"code": "server_error", "message": "broke"}}
    decoded = decode(RESPONSES, sse(event))
    assert (decoded.execution_status, decoded.errors[0].message) == ("failed", "server_error: broke")


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "response.created"},
        {"type": "response.in_progress", "response": []},
        {"type": "response.output_item.added", "output_index": 0},
        {"type": "response.output_item.added", "output_index": [], "item": {"id": {}}},
        {"type": "response.output_item.done", "output_index": "0", "item": {"id": 5, "content": 7}},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.content_part.added", "output_index": 0, "content_index": -4, "part": {}},
        {"type": "response.content_part.done", "output_index": 0, "content_index": {}, "part": []},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": "x", "delta": {"a": 1}},
        {"type": "response.output_text.delta", "output_index": {}, "item_id": [], "delta": "y", "logprobs": 5},
        {"type": "response.output_text.done", "output_index": 0, "text": 5},
        {"type": "response.output_text.annotation.added", "output_index": 0},
        {"type": "response.function_call_arguments.done", "output_index": 0},
        {"type": "response.novel.delta", "output_index": 0, "delta": 5},
        {"type": "response.", "response": 5},
        {"type": 7},
    ],
    ids=str,
)
def test_unexpected_shapes_are_named(odd: Any) -> None:
    """Values of other types than documented never raise, and what they stand beside is kept."""
    start = added(0, type="message", id="i", content=[{"type": "output_text", "text": "x"}])
    assert "x" in json.dumps(items(start, odd, odd))
    finished = sse(CREATED, start, odd, done(0, type="message", id="i", content=[]), completed())
    assert decode(RESPONSES, finished).execution_status == "completed"


@pytest.mark.parametrize(
    "body",
    [
        {"object": "response", "id": [], "status": 5, "output": "x", "usage": 3, "error": None},
        {"output": [None, 4, {"type": "function_call", "call_id": 5, "id": {}, "name": 3}], "incomplete_details": 4},
    ],
)
def test_unexpected_shapes_in_a_body(body: Any) -> None:
    """The same for JSON bodies."""
    decoded = decode(RESPONSES, json.dumps(body).encode())
    assert (decoded.response_id, decoded.usage) == (None, None)
    assert plain(decoded.output) == body


def test_hundred_thousand_deltas() -> None:
    """A very long stream is joined once."""
    event = sse({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "word "})
    [item] = decode(RESPONSES, sse(CREATED, added(0, type="message", content=[])) + event * 100_000).output["output"]
    assert len(item["content"][0]["text"]) == 500_000
