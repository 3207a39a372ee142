"""The truth table of design section 5, row by row, from wire bytes to statuses, blockers and errors."""

import gzip
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import brotli
import pytest

from roller_capture.vocabulary import HttpEnd, Protocol
from tests.model_protocols.transcripts import ANTHROPIC, CHAT, RESPONSES, decode, errors, sse, wire

COMPLETED, FAILED, INTERRUPTED = "completed", "failed", "interrupted"
COMPLETE, PARTIAL, MISSING = "complete", "partial", "missing"
NOT_COMPLETED, INCOMPLETE = "execution_not_completed", "response_incomplete"


class Row(NamedTuple):
    protocol: Protocol
    body: bytes
    execution: str
    capture: str
    blockers: list[str]
    errors: Sequence[str] = ()
    options: Mapping[str, Any] = MappingProxyType({})


def anthropic(stop: str | None) -> bytes:
    return sse(
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}},
        {"type": "message_delta", "delta": {"stop_reason": stop}},
        {"type": "message_stop"},
    )


def chat(*finishes: str | None, tool_calls: Any = None, done: bool = True) -> bytes:
    deltas = {"tool_calls": tool_calls} if tool_calls else {"content": "x"}
    choices = [{"index": n, "delta": deltas, "finish_reason": finish} for n, finish in enumerate(finishes)]
    return sse({"id": "c", "model": "m", "choices": choices}) + (b"data: [DONE]\n\n" if done else b"")


def responses(word: str, **members: Any) -> bytes:
    response = {"id": "resp_1", "object": "response", "model": "m", "status": word, "output": [], **members}
    return sse({"type": f"response.{word}", "response": response})


def amazon(*payloads: bytes) -> bytes:
    """Amazon's binary event stream: lengths and a checksum before the headers of each message, and one behind it."""
    return b"".join(
        struct.pack(">III", 32 + len(data), 16, 0) + b"\x0b:event-type\x07\0\x01c" + data + b"\0\0\0\0"
        for data in payloads
    )


CALL = [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}]
WHOLE = wire(ANTHROPIC, "text.sse")
HALF = WHOLE[: len(WHOLE) // 2]
HTML = b"<!DOCTYPE html><html><body>Bad gateway</body></html>"
CUT = {"http_end": HttpEnd.CUT_BY_UPSTREAM}
LEFT = {"http_end": HttpEnd.CUT_BY_CLIENT}

NO_BLOCKER = ["end_turn", "tool_use", "stop_sequence", "pause_turn", "refusal"]
ROWS: dict[str, Row] = {
    # 2xx and terminal marker
    **{
        f"whole {protocol}": Row(protocol, wire(protocol, name), COMPLETED, COMPLETE, [])
        for protocol, name in [(ANTHROPIC, "text.sse"), (CHAT, "text_usage.sse"), (RESPONSES, "text.sse")]
    },
    "201": Row(ANTHROPIC, WHOLE, COMPLETED, COMPLETE, [], options={"status": 201}),
    "client leaves behind the marker": Row(ANTHROPIC, WHOLE + b": bye", COMPLETED, COMPLETE, [], options=LEFT),
    "service breaks off behind the marker": Row(ANTHROPIC, WHOLE, COMPLETED, COMPLETE, [], options=CUT),
    "client leaves behind the marker, inside the coding": Row(
        ANTHROPIC, gzip.compress(WHOLE)[:-4], COMPLETED, COMPLETE, [], options=LEFT | {"content_encoding": "gzip"}
    ),
    "what stopped it, beside the finish word": Row(
        CHAT, chat("stop").replace(b'"index"', b'"matched_stop": 128009, "index"'), COMPLETED, COMPLETE, []
    ),
    # finish words
    **{f"anthropic {word}": Row(ANTHROPIC, anthropic(word), COMPLETED, COMPLETE, []) for word in NO_BLOCKER},
    **{
        f"chat {word}": Row(CHAT, chat(word, tool_calls=CALL), COMPLETED, COMPLETE, [])
        for word in ["stop", "tool_calls", "function_call"]
    },
    "responses completed": Row(RESPONSES, responses("completed"), COMPLETED, COMPLETE, []),
    "anthropic max_tokens": Row(ANTHROPIC, anthropic("max_tokens"), COMPLETED, COMPLETE, ["output_truncated"]),
    "anthropic context window": Row(
        ANTHROPIC, anthropic("model_context_window_exceeded"), COMPLETED, COMPLETE, ["output_truncated"]
    ),
    "chat length": Row(CHAT, chat("length"), COMPLETED, COMPLETE, ["output_truncated"]),
    "chat length in a tool call": Row(CHAT, chat("length", tool_calls=CALL), COMPLETED, COMPLETE, ["output_truncated"]),
    "responses incomplete": Row(RESPONSES, responses("incomplete"), COMPLETED, COMPLETE, ["output_truncated"]),
    "responses incomplete, filtered": Row(
        RESPONSES,
        responses("incomplete", incomplete_details={"reason": "content_filter"}),
        COMPLETED,
        COMPLETE,
        ["output_truncated", "content_filtered"],
    ),
    "chat content_filter": Row(CHAT, chat("content_filter"), COMPLETED, COMPLETE, ["content_filtered"]),
    "anthropic content_filter": Row(ANTHROPIC, anthropic("content_filter"), COMPLETED, COMPLETE, ["content_filtered"]),
    "anthropic unknown word": Row(ANTHROPIC, anthropic("bored"), COMPLETED, COMPLETE, ["finish_unknown"]),
    "anthropic no word": Row(ANTHROPIC, anthropic(None), COMPLETED, COMPLETE, ["finish_unknown"]),
    "chat unknown word": Row(CHAT, chat("bored"), COMPLETED, COMPLETE, ["finish_unknown"]),
    "responses unknown word": Row(
        RESPONSES, b'{"object":"response","status":"bored","output":[]}', COMPLETED, COMPLETE, ["finish_unknown"]
    ),
    "all blockers of several choices": Row(
        CHAT,
        chat("stop", "length", "content_filter", "bored"),
        COMPLETED,
        COMPLETE,
        ["output_truncated", "content_filtered", "finish_unknown"],
    ),
    # Chat Completions' end
    "chat without [DONE]": Row(CHAT, chat("stop", done=False), COMPLETED, COMPLETE, []),
    "chat cut behind its finish": Row(
        CHAT, chat("stop", done=False), INTERRUPTED, PARTIAL, [INCOMPLETE], ["response_cut"], CUT
    ),
    "chat left behind its finish": Row(
        CHAT, chat("stop", done=False), INTERRUPTED, PARTIAL, [INCOMPLETE], ["response_cut"], LEFT
    ),
    "chat torn behind its finish": Row(
        CHAT, chat("stop", done=False) + b'data: {"cho', INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    "chat [DONE] without blank line": Row(CHAT, chat("stop", done=False) + b"data: [DONE]", COMPLETED, COMPLETE, []),
    "chat [DONE] without finish": Row(
        CHAT, chat(None), INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    "chat [DONE] with one choice unfinished": Row(
        CHAT, chat("stop", None), INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    "chat only [DONE]": Row(CHAT, b"data: [DONE]\n\n", INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]),
    "chat tool_calls without call": Row(CHAT, chat("tool_calls"), COMPLETED, PARTIAL, ["tool_call_missing"]),
    "chat tool_calls without id": Row(
        CHAT,
        chat("tool_calls", tool_calls=[{"index": 0, "function": {"name": "f"}}]),
        COMPLETED,
        PARTIAL,
        ["tool_call_missing"],
    ),
    "chat tool_calls without name": Row(
        CHAT, chat("tool_calls", tool_calls=[{"index": 0, "id": "call_1"}]), COMPLETED, PARTIAL, ["tool_call_missing"]
    ),
    "chat tool_calls, one nameless": Row(
        CHAT, chat("tool_calls", tool_calls=[*CALL, {"index": 1}]), COMPLETED, PARTIAL, ["tool_call_missing"]
    ),
    "chat json tool_calls without call": Row(
        CHAT,
        b'{"choices":[{"index":0,"message":{"content":null},"finish_reason":"tool_calls"}]}',
        COMPLETED,
        PARTIAL,
        ["tool_call_missing"],
    ),
    # failed
    "anthropic error event": Row(
        ANTHROPIC, wire(ANTHROPIC, "error_midway.sse"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    "anthropic error event, then cut": Row(
        ANTHROPIC, wire(ANTHROPIC, "error_midway.sse"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"], CUT
    ),
    "chat error chunk": Row(
        CHAT, wire(CHAT, "error_midway.sse"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    "responses failed": Row(
        RESPONSES, wire(RESPONSES, "failed.sse"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    "responses error event": Row(
        RESPONSES, wire(RESPONSES, "error_event.sse"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    "responses cancelled": Row(
        RESPONSES, responses("cancelled"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    **{
        f"{status} json": Row(
            ANTHROPIC,
            wire(ANTHROPIC, "error.json"),
            FAILED,
            COMPLETE,
            [NOT_COMPLETED],
            ["http_error"],
            {"status": status},
        )
        for status in (400, 401, 429, 500, 529)
    },
    "502 html": Row(ANTHROPIC, HTML, FAILED, COMPLETE, [NOT_COMPLETED], ["http_error"], {"status": 502}),
    "503 empty": Row(ANTHROPIC, b"", FAILED, COMPLETE, [NOT_COMPLETED], ["http_error"], {"status": 503}),
    "400 event stream": Row(
        ANTHROPIC,
        wire(ANTHROPIC, "error_midway.sse"),
        FAILED,
        COMPLETE,
        [NOT_COMPLETED],
        ["http_error"],
        {"status": 400},
    ),
    "500 with a whole answer": Row(
        ANTHROPIC, WHOLE, FAILED, COMPLETE, [NOT_COMPLETED], ["http_error"], {"status": 500}
    ),
    "302": Row(ANTHROPIC, b"", FAILED, COMPLETE, [NOT_COMPLETED], ["http_error"], {"status": 302}),
    "500 cut": Row(
        ANTHROPIC,
        b"Internal Ser",
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["http_error", "response_cut"],
        CUT | {"status": 500},
    ),
    "500 cut in its JSON": Row(
        ANTHROPIC,
        b'{"type":"err',
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["http_error", "response_cut"],
        CUT | {"status": 500},
    ),
    "500 cut before its body": Row(
        ANTHROPIC, b"", INTERRUPTED, MISSING, [INCOMPLETE], ["http_error", "response_cut"], CUT | {"status": 500}
    ),
    "error json with 200": Row(
        ANTHROPIC, wire(ANTHROPIC, "error.json"), FAILED, COMPLETE, [NOT_COMPLETED], ["provider_error"]
    ),
    "html with 200": Row(ANTHROPIC, HTML, FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"]),
    "html as event stream": Row(
        CHAT, HTML, FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"], {"content_type": "text/event-stream"}
    ),
    "html with 200, cut": Row(
        ANTHROPIC, HTML[:30], INTERRUPTED, PARTIAL, [INCOMPLETE], ["response_unparseable", "response_cut"], CUT
    ),
    "text with 200": Row(CHAT, b"no healthy upstream", FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"]),
    "binary with 200": Row(CHAT, b"\0\0\0\x8c\x07:binary", FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"]),
    # what other services answer with, on an endpoint that should not
    "amazon's event stream": Row(
        ANTHROPIC,
        amazon(b'{"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="}', b"{}"),
        FAILED,
        COMPLETE,
        [NOT_COMPLETED],
        ["response_unparseable"],
        {"content_type": "application/vnd.amazon.eventstream"},
    ),
    "json lines": Row(
        CHAT,
        b'{"message":{"content":"a"},"done":false}\n{"message":{"content":""},"done":true}\n',
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["terminal_marker_missing"],
        {"content_type": "application/x-ndjson"},
    ),
    "json array with 200": Row(RESPONSES, b"[]", FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"]),
    "another json with 200": Row(
        RESPONSES, b'{"models":[]}', FAILED, COMPLETE, [NOT_COMPLETED], ["response_unparseable"]
    ),
    # no response
    "unreachable": Row(
        ANTHROPIC,
        b"",
        FAILED,
        MISSING,
        [NOT_COMPLETED],
        ["upstream_unreachable"],
        {"status": None, "http_end": HttpEnd.UNREACHABLE},
    ),
    **{
        f"no head, {end}": Row(
            ANTHROPIC, b"", INTERRUPTED, MISSING, [INCOMPLETE], ["response_cut"], {"status": None, "http_end": end}
        )
        for end in (
            HttpEnd.CUT_BY_CLIENT,
            HttpEnd.CUT_BY_UPSTREAM,
            HttpEnd.CUT,
            HttpEnd.PROXY_STOPPED,
            HttpEnd.PROXY_KILLED,
        )
    },
    # interrupted
    **{
        f"{protocol} {text} {end}": Row(
            protocol, wire(protocol, name)[:cut], INTERRUPTED, PARTIAL, [INCOMPLETE], [error], options
        )
        for protocol, name in [(CHAT, "text_usage.sse"), (RESPONSES, "text.sse")]
        for text, cut in [("half", 700), ("head", 12)]
        for end, error, options in [
            ("cut", "response_cut", CUT),
            ("left", "response_cut", LEFT),
            ("clean", "terminal_marker_missing", {}),
        ]
    },
    **{
        f"half, {end}": Row(ANTHROPIC, HALF, INTERRUPTED, PARTIAL, [INCOMPLETE], ["response_cut"], {"http_end": end})
        for end in (
            HttpEnd.CUT_BY_CLIENT,
            HttpEnd.CUT_BY_UPSTREAM,
            HttpEnd.CUT,
            HttpEnd.PROXY_STOPPED,
            HttpEnd.PROXY_KILLED,
        )
    },
    "head only, cut": Row(ANTHROPIC, b"", INTERRUPTED, MISSING, [INCOMPLETE], ["response_cut"], CUT),
    "clean end without marker": Row(ANTHROPIC, HALF, INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]),
    "empty with 200": Row(ANTHROPIC, b"", INTERRUPTED, MISSING, [INCOMPLETE], ["terminal_marker_missing"]),
    "white space with 200": Row(ANTHROPIC, b"\n\n", INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]),
    "comments only": Row(CHAT, b": hi\n\n", INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]),
    "json cut short": Row(
        ANTHROPIC, wire(ANTHROPIC, "message.json")[:60], INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    "json cut by the service": Row(
        ANTHROPIC, wire(ANTHROPIC, "message.json")[:60], INTERRUPTED, PARTIAL, [INCOMPLETE], ["response_cut"], CUT
    ),
    "json whole, then cut": Row(ANTHROPIC, wire(ANTHROPIC, "message.json"), COMPLETED, COMPLETE, [], [], CUT),
    "json chat without finish": Row(
        CHAT, b'{"choices":[{"index":0,"message":{}}]}', INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    "json response queued": Row(
        RESPONSES, wire(RESPONSES, "queued.json"), INTERRUPTED, PARTIAL, [INCOMPLETE], ["terminal_marker_missing"]
    ),
    # content coding
    "coding without its end": Row(
        ANTHROPIC,
        gzip.compress(WHOLE)[:-4],
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["content_coding_incomplete"],
        {"content_encoding": "gzip"},
    ),
    "coding without its end, 500": Row(
        ANTHROPIC,
        gzip.compress(b"Internal Server Error")[:-4],
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["http_error", "content_coding_incomplete"],
        {"content_encoding": "gzip", "status": 500},
    ),
    "coding without its end, error event": Row(
        ANTHROPIC,
        gzip.compress(wire(ANTHROPIC, "error_midway.sse"))[:-4],
        FAILED,
        PARTIAL,
        [NOT_COMPLETED, INCOMPLETE],
        ["provider_error", "content_coding_incomplete"],
        {"content_encoding": "gzip"},
    ),
    "coding wrong": Row(
        ANTHROPIC,
        brotli.compress(WHOLE),
        INTERRUPTED,
        PARTIAL,
        [INCOMPLETE],
        ["response_unparseable", "content_coding_invalid"],
        {"content_encoding": "gzip"},
    ),
    "coding claimed, body plain": Row(
        ANTHROPIC, WHOLE, INTERRUPTED, PARTIAL, [INCOMPLETE], ["content_coding_invalid"], {"content_encoding": "gzip"}
    ),
    "coding unknown": Row(
        ANTHROPIC, WHOLE, INTERRUPTED, PARTIAL, [INCOMPLETE], ["content_coding_unknown"], {"content_encoding": "dcb"}
    ),
    # capture
    "too large": Row(
        ANTHROPIC, WHOLE, INTERRUPTED, PARTIAL, ["capture_error"], ["decoded_body_too_large"], {"limit": 300}
    ),
    "too large behind the marker": Row(
        ANTHROPIC,
        WHOLE + b":" * 99,
        COMPLETED,
        PARTIAL,
        ["capture_error"],
        ["decoded_body_too_large"],
        {"limit": len(WHOLE)},
    ),
    "too large, 500": Row(
        ANTHROPIC,
        HTML,
        FAILED,
        PARTIAL,
        [NOT_COMPLETED, "capture_error"],
        ["http_error", "decoded_body_too_large"],
        {"limit": 9, "status": 500},
    ),
    # damage
    "anthropic tool input cut, then the marker": Row(
        ANTHROPIC,
        wire(ANTHROPIC, "tool_input_cut.sse") + b"\n\n" + anthropic("tool_use").partition(b"\n\n")[2],
        COMPLETED,
        PARTIAL,
        [INCOMPLETE],
        ["stream_damaged"],
    ),
    "anthropic tool input no JSON": Row(
        ANTHROPIC, wire(ANTHROPIC, "tool_input_not_json.sse"), COMPLETED, PARTIAL, [INCOMPLETE], ["stream_damaged"]
    ),
    "anthropic tool input no JSON, max_tokens": Row(
        ANTHROPIC,
        wire(ANTHROPIC, "tool_input_not_json.sse").replace(b'"stop_reason":"tool_use"', b'"stop_reason":"max_tokens"'),
        COMPLETED,
        COMPLETE,
        ["output_truncated"],
    ),
    "anthropic tool input cut, then an error": Row(
        ANTHROPIC,
        wire(ANTHROPIC, "tool_input_cut.sse") + b'\n\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
        FAILED,
        COMPLETE,
        [NOT_COMPLETED],
        ["provider_error"],
    ),
    "responses call cut, then the marker": Row(
        RESPONSES,
        wire(RESPONSES, "cut_in_call.sse") + b"\n\n" + responses("completed"),
        COMPLETED,
        PARTIAL,
        [INCOMPLETE],
        ["stream_damaged"],
    ),
    "responses call cut, then incomplete": Row(
        RESPONSES,
        wire(RESPONSES, "cut_in_call.sse") + b"\n\n" + responses("incomplete"),
        COMPLETED,
        COMPLETE,
        ["output_truncated"],
    ),
    "responses call cut, then failed": Row(
        RESPONSES,
        wire(RESPONSES, "cut_in_call.sse") + b"\n\n" + responses("failed"),
        FAILED,
        COMPLETE,
        [NOT_COMPLETED],
        ["provider_error"],
    ),
    "an event that is no JSON": Row(
        ANTHROPIC, b"data: {oops}\n\n" + WHOLE, COMPLETED, PARTIAL, [INCOMPLETE], ["stream_damaged"]
    ),
    "two messages in one": Row(
        ANTHROPIC, wire(ANTHROPIC, "second_start.sse"), COMPLETED, PARTIAL, [INCOMPLETE], ["stream_damaged"]
    ),
    "no message_start": Row(
        ANTHROPIC,
        WHOLE[WHOLE.index(b"event: content_block_start") :],
        COMPLETED,
        PARTIAL,
        [INCOMPLETE],
        ["stream_damaged"],
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_row(row: Row) -> None:
    """What happened gives exactly these statuses, blockers and errors."""
    decoded = decode(row.protocol, row.body, **row.options)
    assert (decoded.execution_status, decoded.response_capture_status) == (row.execution, row.capture)
    assert list(decoded.blockers) == row.blockers
    assert errors(decoded) == list(row.errors)


def test_disk_error_behind_the_marker_is_no_interruption() -> None:
    """What the response meant was read; that its file is damaged bars export all the same."""

    def broken() -> Any:
        yield WHOLE
        raise OSError(5, "Input/output error")

    decoded = decode(ANTHROPIC, broken())
    assert (decoded.execution_status, decoded.response_capture_status) == (COMPLETED, PARTIAL)
    assert list(decoded.blockers) == ["capture_error"]
    assert errors(decoded) == ["disk_error"]


@pytest.mark.parametrize("protocol", Protocol)
def test_disk_error_is_named(protocol: Protocol) -> None:
    """A body that cannot be read to its end is partial, with what was read."""

    def broken() -> Any:
        yield wire(ANTHROPIC, "cut.sse")
        raise OSError(5, "Input/output error")

    decoded = decode(protocol, broken())
    assert (decoded.execution_status, decoded.response_capture_status) == (INTERRUPTED, PARTIAL)
    assert list(decoded.blockers) == ["capture_error"]
    assert errors(decoded) == ["disk_error"]


@pytest.mark.parametrize(
    ("protocol", "name", "options", "message"),
    [
        (ANTHROPIC, "error_midway.sse", {}, "overloaded_error: Overloaded"),
        (ANTHROPIC, "error.json", {"status": 429}, "HTTP 429: rate_limit_error: Slow down"),
        (CHAT, "error_midway.sse", {}, "502: Provider disconnected"),
        (CHAT, "bare_error.sse", {}, "server_error (overloaded): The server is overloaded"),
        (CHAT, "error.json", {"status": 404}, "HTTP 404: invalid_request_error (model_not_found): Invalid model"),
        (RESPONSES, "failed.sse", {}, "server_error: The model broke"),
        (RESPONSES, "error_event.sse", {}, "rate_limit_exceeded: Slow down"),
    ],
)
def test_providers_own_words_are_kept(protocol: Protocol, name: str, options: dict[str, Any], message: str) -> None:
    """Error type, code and text of the provider stand in the error (H7, H11, H24)."""
    assert decode(protocol, wire(protocol, name), **options).errors[0].message == message


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("body", [b'{"detail":"Not allowed"}', b'{"message":"Not allowed","code":5}'])
def test_bare_error_bodies(protocol: Protocol, body: bytes) -> None:
    """A JSON object that is no answer but has a text says that text, with 200 and with an error status."""
    assert [(error.code, error.message) for error in decode(protocol, body).errors] == [
        ("provider_error", "Not allowed")
    ]
    assert decode(protocol, body, status=403).errors[0].message == "HTTP 403: Not allowed"
