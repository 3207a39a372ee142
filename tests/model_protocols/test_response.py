"""One response as a whole: what kind of body it is, its codings, and its JSON text."""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import zstandard

from roller_capture import json_text
from roller_capture.vocabulary import ExecutionStatus, Protocol, ResponseCaptureStatus
from tests.model_protocols.transcripts import (
    ALL,
    ANTHROPIC,
    BODIES,
    CHAT,
    RESPONSES,
    STREAMS,
    bytewise,
    codes,
    decode,
    label,
    plain,
    protocol_of,
    sse,
    wire,
)

WHOLE = {
    ANTHROPIC: wire(ANTHROPIC, "text.sse"),
    CHAT: wire(CHAT, "text_usage.sse"),
    RESPONSES: wire(RESPONSES, "text.sse"),
}


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
    ],
)
@pytest.mark.parametrize("path", ALL, ids=label)
def test_content_coding_does_not_matter(path: object, coding: str, encode: Callable[[bytes], bytes]) -> None:
    """An encoded body gives what the plain one gives (H15)."""
    data = path.read_bytes()  # type: ignore[attr-defined]
    protocol = protocol_of(path)  # type: ignore[arg-type]
    assert decode(protocol, bytewise(encode(data)), content_encoding=coding) == decode(protocol, data)


@pytest.mark.parametrize("content_type", ["application/json", "text/html", "", None, "text/event-stream"])
@pytest.mark.parametrize(
    ("protocol", "name"), [(ANTHROPIC, "text.sse"), (CHAT, "completion.json"), (RESPONSES, "response.json")]
)
def test_content_type_may_lie(protocol: Protocol, name: str, content_type: str | None) -> None:
    """Whether a body is JSON or a stream is told by its content."""
    data = wire(protocol, name)
    for body in (data, b"\xef\xbb\xbf" + data, b"\r\n \n" + data):
        decoded = decode(protocol, body, content_type=content_type)
        assert decoded.execution_status is ExecutionStatus.COMPLETED
        assert plain(decoded.output) == plain(decode(protocol, data).output)


def test_content_type_decides_where_the_content_says_nothing() -> None:
    """A stream that begins with a field nobody knows is a stream if its header says so."""
    body = b"x-trace: 1\n" + wire(ANTHROPIC, "text.sse")
    assert decode(ANTHROPIC, body, content_type="Text/Event-Stream; charset=utf-8").ended
    assert not decode(ANTHROPIC, body, content_type="text/plain").ended


@pytest.mark.parametrize("path", BODIES, ids=label)
def test_json_output_is_the_bodys_own_text(path: object) -> None:
    """A JSON body is published as it was written, on one line: spaces, escapes and number spelling stay (H16)."""
    data = path.read_bytes()  # type: ignore[attr-defined]
    decoded = decode(protocol_of(path), data)  # type: ignore[arg-type]
    assert isinstance(decoded.output, json_text.RawJson)
    assert decoded.output.text == data.strip().replace(b"\n", b" ")


def test_json_text_survives_what_parsers_lose() -> None:
    """Numbers beyond any type, lone surrogates and repeated keys of a body stay as they are."""
    text = rb'{"type":"message","content":[],"a":1e400,"a":123456789012345678901234567890,"b":"\ud83d"}'
    decoded = decode(ANTHROPIC, text)
    assert decoded.output == json_text.RawJson(text)
    plain(decoded.output)


def test_stream_and_json_give_the_same_record() -> None:
    """The same answer with and without streaming has the same facts and the same shape (H16)."""
    whole = plain(decode(RESPONSES, wire(RESPONSES, "terminal_without_output.sse")).output)
    streamed = decode(RESPONSES, wire(RESPONSES, "terminal_without_output.sse"))
    as_json = decode(RESPONSES, json_text.dumps(whole))
    assert plain(as_json.output) == whole
    for name in (
        "response_id",
        "model",
        "usage",
        "tool_refs",
        "finish_reason",
        "execution_status",
        "blockers",
        "ended",
    ):
        assert getattr(as_json, name) == getattr(streamed, name), name


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("body", [b'{"a":' * 2000, b'{"a":' * 950 + b"1" + b"}" * 950])
def test_json_nested_too_deep(protocol: Protocol, body: bytes) -> None:
    """A body nested deeper than anything can read is no completed answer, and no crash."""
    decoded = decode(protocol, body)
    assert decoded.execution_status is not ExecutionStatus.COMPLETED


@pytest.mark.parametrize("protocol", Protocol)
def test_deepest_accepted_event_can_be_written(protocol: Protocol) -> None:
    """What the parser accepts in an event can be published in the output."""
    deep = b'{"x":' * 880 + b"1" + b"}" * 880
    body = {
        ANTHROPIC: b'data: {"type":"message_start","message":{"content":[],"deep":%s}}\n\n',
        CHAT: b'data: {"choices":[{"index":0,"delta":{"deep":%s}}]}\n\n' * 2,
        RESPONSES: b'data: {"type":"response.created","response":{"deep":%s}}\n\n',
    }[protocol].replace(b"%s", deep)
    output = json_text.dumps(decode(protocol, body).output)
    assert output.count(b'"x"') == 880


def test_text_that_is_not_utf8_is_replaced_and_said() -> None:
    """Bytes that are no UTF-8 become U+FFFD, as every client reads them, with a warning; whole events are not lost."""
    stream = wire(ANTHROPIC, "text.sse").replace(b"fjord", b"fj\xffrd")
    decoded = decode(ANTHROPIC, stream)
    assert "fj�rd" in plain(decoded.output)["content"][0]["text"]
    assert codes(decoded) == ["text_not_utf8"]
    body = decode(ANTHROPIC, wire(ANTHROPIC, "message.json").replace(b"Plain", b"Pl\xffin"))
    assert plain(body.output)["content"][0]["text"] == "Pl�in."
    assert codes(body) == ["text_not_utf8"]


def test_character_cut_at_the_end_is_no_encoding_fault() -> None:
    """A stream cut inside a character is cut, not badly encoded."""
    data = wire(ANTHROPIC, "text.sse")
    assert "text_not_utf8" not in codes(decode(ANTHROPIC, data[: data.index("😀".encode()) + 2]))


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize(
    "padding",
    [
        b": keep-alive\n\n",
        b"data:\n\n",
        b"data: \n\n",
        b"event: ping\ndata: {}\n\n",
        b'data: {"type": "ping"}\n\n',
        b"data: keep-alive\n\n",
        b"retry: 1\n\n",
        b"event: message\n\n",
    ],
)
def test_padding_changes_nothing(protocol: Protocol, padding: bytes) -> None:
    """Comments, empty data, pings and words between the events cost neither output nor status."""
    data = WHOLE[protocol]
    whole, padded = decode(protocol, data), decode(protocol, padding + data.replace(b"\n\n", b"\n\n" + padding))
    for member in ("output", "execution_status", "response_capture_status", "blockers", "errors", "usage"):
        assert getattr(padded, member) == getattr(whole, member), member


@pytest.mark.parametrize("protocol", Protocol)
def test_error_event_of_plain_text(protocol: Protocol) -> None:
    """An error event fails the call also when its data is no JSON."""
    decoded = decode(protocol, b"event: error\ndata: out of memory\n\n")
    assert decoded.execution_status is ExecutionStatus.FAILED
    assert decoded.errors[0].message == "out of memory"


@pytest.mark.parametrize("protocol", Protocol)
def test_type_of_the_payload_beats_the_event_line(protocol: Protocol) -> None:
    """Where both disagree, the payload's own `type` is the event's meaning."""
    data = WHOLE[protocol]
    lying = b"".join(b"event: novel\n" + line + b"\n\n" for line in data.split(b"\n") if line.startswith(b"data:"))
    assert decode(protocol, lying).output == decode(protocol, data).output


def test_event_line_counts_where_the_payload_has_no_type() -> None:
    """Events whose payload has no `type` are read by their `event:` line."""
    stream = (
        b'event: message_start\ndata: {"message":{"id":"msg_1","content":[]}}\n\n'
        b'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"}}\n\nevent: message_stop\ndata: {}\n\n'
    )
    decoded = decode(ANTHROPIC, stream)
    assert (decoded.response_id, decoded.finish_reason, decoded.ended) == ("msg_1", "end_turn", True)


def test_events_behind_the_marker_are_named_and_not_mixed_in() -> None:
    """What follows a terminal marker does not change the output."""
    data = wire(ANTHROPIC, "text.sse")
    decoded = decode(ANTHROPIC, data + wire(ANTHROPIC, "refusal.sse"))
    assert decoded.output == decode(ANTHROPIC, data).output
    assert set(codes(decoded)) == {"event_after_terminal"}
    assert codes(decode(ANTHROPIC, data + sse({"type": "ping"}, b"data: [DONE]\n\n"))) == []


def test_warnings_are_bounded() -> None:
    """A hostile stream of ten thousand unknown events gives a bounded list, names cut short."""
    events = [{"type": f"novel_{number}" + "x" * 1000} for number in range(10_000)]
    decoded = decode(RESPONSES, sse(*events))
    assert len(decoded.warnings) == 100
    assert max(len(warning.detail) for warning in decoded.warnings) <= 80


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("other", Protocol)
def test_stream_of_another_protocol_is_no_answer(protocol: Protocol, other: Protocol) -> None:
    """A stream of another protocol than the endpoint's is not read as this one's, is not completed, and not lost."""
    if protocol is not other:
        decoded = decode(protocol, WHOLE[other])
        assert decoded.execution_status is ExecutionStatus.INTERRUPTED
        assert plain(decoded.output) == {"unknown_events": payloads(WHOLE[other])}


def payloads(stream: bytes) -> list[object]:
    """The JSON objects of a stream."""
    return [json.loads(line[5:]) for line in stream.splitlines() if line[5:].strip().startswith(b"{")]


UNKNOWN = [
    b'{"type":"weather","sky":"grey"}',
    b'{"n":1e400,"a":1,"a":2,"s":"\\ud83d"}',
    b"[1, 2]",
    b'{"type":"weather"}',
]


@pytest.mark.parametrize("protocol", Protocol)
def test_unknown_events_are_kept_in_their_own_text(protocol: Protocol) -> None:
    """Payloads of unknown events stand in order under `unknown_events`, spelled as they came, and cost no status."""
    data = WHOLE[protocol]
    start, gap, rest = data.partition(b"\n\n")
    events = [b"event: novel\ndata: " + text + b"\n\n" for text in UNKNOWN]
    body = b"".join([*events[:2], start, gap, *events[2:], rest])
    whole, decoded = decode(protocol, body), decode(protocol, data)
    assert whole.output == {**decoded.output, "unknown_events": json_text.RawJson(b"[" + b",".join(UNKNOWN) + b"]")}
    for member in ("execution_status", "response_capture_status", "blockers", "errors", "usage", "tool_refs"):
        assert getattr(whole, member) == getattr(decoded, member), member
    assert {"unknown_event", "unexpected_shape"} == set(codes(whole))


@pytest.mark.parametrize("path", STREAMS, ids=label)
def test_streams_of_known_events_have_no_unknown_ones(path: Path) -> None:
    """The member stands only where there are any."""
    assert ("unknown_events" in plain(decode(protocol_of(path), path.read_bytes()).output)) == (
        path.stem == "unknown_kinds"
    )


@pytest.mark.parametrize("protocol", Protocol)
def test_unknown_event_behind_the_marker_is_kept(protocol: Protocol) -> None:
    """What a gateway sends of its own behind the terminal marker is named and kept too."""
    decoded = decode(protocol, WHOLE[protocol] + sse({"type": "billing", "cost": 1}))
    assert plain(decoded.output)["unknown_events"] == [{"type": "billing", "cost": 1}]
    assert codes(decoded) == ["event_after_terminal", "unknown_event"]
    assert decoded.response_capture_status is ResponseCaptureStatus.COMPLETE


@pytest.mark.parametrize("protocol", Protocol)
def test_unknown_event_in_several_lines_is_one_line(protocol: Protocol) -> None:
    """Line breaks between the tokens of a kept payload become spaces: the record stays one line."""
    output = decode(protocol, b'data: {"type":\ndata: "weather"}\n\n').output
    assert output == {"unknown_events": json_text.RawJson(b'[{"type": "weather"}]')}


@pytest.mark.parametrize("protocol", Protocol)
def test_unknown_events_take_no_more_than_they_took_in_the_body(protocol: Protocol) -> None:
    """Fifty thousand tiny events are kept as one text, not as fifty thousand objects."""
    body = b"data: {}\n\n" * 50_000
    [kept] = decode(protocol, body).output.values()
    assert isinstance(kept, json_text.RawJson)
    assert len(kept.text) < len(body)
    assert kept.text.count(b"{}") == 50_000
