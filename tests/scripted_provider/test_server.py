"""What goes wrong goes wrong exactly as scripted, and the record of truth says so."""

import gzip
import hashlib
import http.client
import json
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from roller_capture.scripted_provider import (
    Decide,
    Delivered,
    ErrorEvent,
    ModelRequest,
    Reply,
    ScriptedProvider,
    ToolUse,
    TruthRecord,
)

ENDPOINTS = {
    "anthropic-messages": "/v1/messages?beta=true",
    "openai-chat-completions": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
}
TERMINAL = {
    "anthropic-messages": b"event: message_stop",
    "openai-chat-completions": b"data: [DONE]",
    "openai-responses": b"event: response.completed",
}
LONG = "words and more words, " * 8
UNDO = {
    "gzip": lambda data: zlib.decompressobj(31).decompress(data),
    "deflate": lambda data: zlib.decompressobj().decompress(data),
    "br": lambda data: brotli.Decompressor().process(data),
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@contextmanager
def asked(
    provider: ScriptedProvider, path: str, body: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    """The open response to one request."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


@dataclass(frozen=True)
class Exchange:
    """One request, what came back, whether the message ended properly, and what the provider says of it."""

    response: http.client.HTTPResponse
    data: bytes
    ended: bool
    record: TruthRecord
    provider: ScriptedProvider


def exchange(
    reply: Reply | Decide,
    path: str = "/v1/messages",
    body: Mapping[str, Any] | bytes = b"{}",
    headers: Mapping[str, str] | None = None,
) -> Exchange:
    """One exchange with a provider that gives `reply`."""
    decide: Decide = (lambda _: reply) if isinstance(reply, Reply) else reply
    with ScriptedProvider(decide) as provider, asked(provider, path, body, headers) as response:
        data, ended = read_cut(response)
    return Exchange(response, data, ended, provider.truth.records[0], provider)


def stream(protocol: str, reply: Reply) -> Exchange:
    """One streamed exchange in a protocol."""
    return exchange(reply, ENDPOINTS[protocol], {"stream": True})


def read_cut(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    """All bytes that came, and whether the message ended properly."""
    try:
        return response.read(), True
    except http.client.IncompleteRead as error:
        return error.partial, False


@pytest.mark.parametrize("protocol", ENDPOINTS)
def test_a_whole_stream_ends_with_its_terminal_marker(protocol: str) -> None:
    """A plain reply goes out whole and is recorded as such."""
    seen = stream(protocol, Reply(text=LONG, owner="root"))
    assert seen.ended
    assert TERMINAL[protocol] in seen.data
    assert seen.record.nonce.encode() in seen.data
    assert seen.response.getheader("request-id") == f"req_{seen.record.nonce}"
    assert (seen.record.owner, seen.record.delivered, seen.record.answered_whole) == ("root", Delivered.COMPLETE, True)


@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("events", [0, 1, 4])
def test_a_cut_stream_holds_exactly_the_events_before_the_cut(protocol: str, events: int) -> None:
    """`cut_after` counts events, and the HTTP message does not end."""
    seen = stream(protocol, Reply(text=LONG, cut_after=events))
    assert (seen.data.count(b"data: "), seen.ended) == (events, False)
    assert (seen.record.events_sent, seen.record.delivered) == (events, Delivered.CUT)
    assert not seen.record.answered_whole


@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_closing_early_gives_all_content_without_the_end_of_the_message(protocol: str, streamed: bool) -> None:
    """The protocol has ended, HTTP has not."""
    seen = exchange(Reply(text="Short.", close_early=True), ENDPOINTS[protocol], {"stream": streamed})
    assert not seen.ended
    assert seen.record.nonce.encode() in seen.data
    assert (seen.record.terminal_sent, seen.record.delivered) == (True, Delivered.CUT)


@pytest.mark.parametrize("protocol", ENDPOINTS)
def test_an_error_event_is_the_last_of_its_stream(protocol: str) -> None:
    """An error in mid-stream ends a message that began with 200."""
    seen = stream(protocol, Reply(text=LONG, error_event=ErrorEvent(after=2)))
    last = json.loads(seen.data.rstrip().rpartition(b"data: ")[2])
    assert (seen.response.status, seen.ended) == (200, True)
    assert seen.record.nonce in json.dumps(last)
    assert TERMINAL[protocol] not in seen.data
    assert (seen.record.events_sent, seen.record.terminal_sent) == (3, False)


@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("coding", UNDO)
@pytest.mark.parametrize("cut_after", [None, 3])
def test_an_encoded_stream_can_be_read_up_to_its_cut(protocol: str, coding: str, cut_after: int | None) -> None:
    """Each event is flushed, so a reader of the bytes so far sees every event so far."""
    seen = stream(protocol, Reply(text=LONG, content_encoding=coding, cut_after=cut_after))
    text = UNDO[coding](seen.data)
    assert seen.response.getheader("content-encoding") == coding
    assert text.count(b"data: ") == seen.record.events_sent
    assert (TERMINAL[protocol] in text) is (cut_after is None)


@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("status", [400, 429, 500, 529])
def test_an_error_status_brings_error_json_with_the_nonce(protocol: str, status: int) -> None:
    """A failed call can still be told apart by its answer."""
    seen = stream(protocol, Reply(status=status))
    assert seen.response.status == status
    assert seen.record.nonce in json.loads(seen.data)["error"]["message"]
    assert (seen.record.status, seen.record.response_id, seen.record.answered_whole) == (status, None, False)


def test_an_error_body_can_be_a_page() -> None:
    """A gateway's HTML page, with the nonce filled in."""
    seen = exchange(
        Reply(status=502, error_body="<html>{nonce}</html>", error_content_type="text/html", headers={"x-a": "b"})
    )
    assert (seen.response.getheader("content-type"), seen.response.getheader("x-a")) == ("text/html", "b")
    assert seen.data.decode() == f"<html>{seen.record.nonce}</html>"


def test_a_dropped_request_gets_no_answer_at_all() -> None:
    """`drop` closes the connection before the response head."""
    with ScriptedProvider(lambda _: Reply(drop=True)) as provider, pytest.raises(http.client.RemoteDisconnected):  # noqa: SIM117
        with asked(provider, "/v1/messages", {}):
            pass
    assert provider.truth.records[0].delivered is Delivered.CUT


def test_an_answer_without_ids_has_none() -> None:
    """Providers that send no response id and no request id."""
    seen = exchange(Reply(text="x", send_response_id=False, send_request_id=False))
    assert "id" not in json.loads(seen.data)
    assert seen.response.getheader("request-id") is None
    assert seen.record.response_id is None


def test_finish_model_and_usage_can_be_set() -> None:
    """What the provider reports is the script's choice."""
    reply = Reply(text="x", finish="max_tokens", model="other", usage={"output_tokens": 7, "odd": 1})
    message = json.loads(exchange(reply, body={"model": "asked"}).data)
    assert (message["stop_reason"], message["model"]) == ("max_tokens", "other")
    assert (message["usage"]["output_tokens"], message["usage"]["odd"]) == (7, 1)


def test_a_held_answer_goes_on_when_released() -> None:
    """The stream stops after `hold_after` events until the event is set."""
    hold = threading.Event()
    reply = Reply(text=LONG, hold=hold, hold_after=2)
    with ScriptedProvider(lambda _: reply) as provider, asked(provider, "/v1/messages", {"stream": True}) as response:
        before = response.read1()
        while b"content_block_start" not in before:
            before += response.read1()
        hold.set()
        after = response.read()
    assert before.count(b"data: ") == 2
    assert TERMINAL["anthropic-messages"] in after
    assert provider.truth.records[0].delivered is Delivered.COMPLETE


def test_a_client_that_leaves_a_held_answer_is_noticed() -> None:
    """The record says that the client was gone."""
    with ScriptedProvider(lambda _: Reply(text=LONG, hold=threading.Event(), hold_after=2)) as provider:
        with asked(provider, "/v1/messages", {"stream": True}) as response:
            response.read1()
        assert provider.truth.wait_settled(20)
        assert provider.truth.records[0].delivered is Delivered.CLIENT_GONE


def test_stopping_breaks_off_a_held_answer() -> None:
    """`stop` leaves no open record behind."""
    provider = ScriptedProvider(lambda _: Reply(text=LONG, hold=threading.Event(), hold_after=2)).start()
    with asked(provider, "/v1/messages", {"stream": True}) as response:
        response.read1()
        provider.stop()
        _, ended = read_cut(response)
    assert not ended
    assert provider.truth.records[0].delivered is Delivered.STOPPED


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
        ("identity", bytes),
    ],
)
def test_an_encoded_request_is_decoded_for_the_script(coding: str, encode: Any) -> None:
    """The script sees JSON; the hash is that of the bytes on the wire."""
    seen: list[ModelRequest] = []

    def decide(request: ModelRequest) -> Reply:
        seen.append(request)
        return Reply(text="x")

    raw = encode(json.dumps({"model": "m"}).encode())
    record = exchange(decide, body=raw, headers={"content-encoding": coding}).record
    assert (seen[0].model, seen[0].raw) == ("m", raw)
    assert (record.request_bytes, record.request_sha256) == (len(raw), hashlib.sha256(raw).hexdigest())


def test_an_upload_that_breaks_off_is_no_request() -> None:
    """Half a body never reaches the script, and is no fault of it."""
    provider = ScriptedProvider(lambda _: Reply(text="x"))
    with provider, socket.create_connection(("127.0.0.1", provider.port), timeout=20) as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert (provider.truth.records, provider.script_errors) == ((), [])


def test_a_chunked_upload_is_read_whole() -> None:
    """Chunk extensions and trailers included; the connection stays usable."""
    upload = (
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        b'8;ext=1\r\n{"model"\r\n5\r\n:"m"}\r\n0\r\nx-trailer: 1\r\n\r\n'
    )
    probe = b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with (
        ScriptedProvider(lambda _: Reply(text="x")) as provider,
        socket.create_connection(("127.0.0.1", provider.port), timeout=20) as connection,
    ):
        connection.sendall(upload + probe)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200") == 2
    assert provider.truth.records[0].model == "m"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 404),
        ("GET", "/v1/models", 200),
        ("OPTIONS", "/v1/messages", 404),
        ("POST", "/v1/messages/count_tokens?beta=true", 200),
        ("POST", "/v1/elsewhere", 404),
    ],
)
def test_other_traffic_is_no_model_request(method: str, path: str, status: int) -> None:
    """Probes, lists and counts are answered and listed apart."""
    with ScriptedProvider(lambda _: Reply(text="x")) as provider:
        connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=20)
        connection.request(method, path, b"{}" if method == "POST" else None)
        assert connection.getresponse().status == status
        connection.close()
    assert provider.truth.records == ()
    assert [(other.method, other.path, other.status) for other in provider.truth.others] == [(method, path, status)]


def test_a_body_that_is_no_json_reaches_the_script_empty() -> None:
    """A hostile request is answered and recorded like any other."""
    with ScriptedProvider(lambda request: Reply(text=str(dict(request.body)))) as provider:
        for body in (b"\xff\x00", b"[1]", b'"x"', b""):
            with asked(provider, "/v1/messages", body) as response:
                assert "{}" in response.read().decode()
    assert [record.number for record in provider.truth.records] == [1, 2, 3, 4]


def test_a_script_that_raises_is_a_500_and_is_told() -> None:
    """A broken script never looks like a broken capture."""
    seen = exchange(lambda request: Reply(text=request.body["missing"]))
    assert seen.response.status == 500
    assert seen.provider.script_errors == ["request 1: KeyError: 'missing'"]


def test_the_written_record_holds_no_credential(tmp_path: Path) -> None:
    """One line per request in the file, credential headers without their values."""
    log = tmp_path / "truth.jsonl"
    with ScriptedProvider(lambda _: Reply(text="x", tools=(ToolUse("t", {}, "given-id"),)), log) as provider:
        secrets = {"authorization": "Bearer s3cret", "x-api-key": "s3cret", "x-agent": "a"}
        with asked(provider, "/v1/messages", {"messages": []}, secrets) as response:
            response.read()
    [line] = log.read_text(encoding="utf-8").splitlines()
    assert "s3cret" not in line
    assert json.loads(line)["headers"]["x-agent"] == "a"
    assert json.loads(line)["tools"] == [["t", "given-id"]]
    assert provider.truth.records[0].headers["x-api-key"] == "s3cret"


def test_the_record_tells_which_answers_a_request_carried() -> None:
    """In the whole request, and in each tool result apart: the truth about what reached whom."""
    with ScriptedProvider(lambda _: Reply(text="x", tools=(ToolUse("t", {}),), finish="max_tokens")) as provider:
        with asked(provider, "/v1/messages", {}) as response:
            response.read()
        [first] = provider.truth.records
        result = {"type": "tool_result", "tool_use_id": first.tool_ids[0], "content": f"said [{first.nonce}]"}
        with asked(provider, "/v1/messages", {"messages": [{"role": "user", "content": [result]}]}) as response:
            response.read()
    second = provider.truth.records[1]
    assert (first.tools, first.finish) == ((("t", f"toolu_01{first.nonce}0"),), "max_tokens")
    assert (first.nonces_seen, first.results_seen) == (frozenset(), {})
    assert second.nonces_seen == {first.nonce}
    assert second.results_seen == {first.tool_ids[0]: {first.nonce}}


@pytest.mark.parametrize("wrong", [{"hold_after": 1}, {"hold": threading.Event()}, {"content_encoding": "lzma"}])
def test_a_reply_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Mistakes in a script show where they are made."""
    with pytest.raises(ValueError, match=r"hold|coding"):
        Reply(**wrong)
