"""The capture addon in a real proxy with real sockets: what reaches the model service, the client and the disk."""

import asyncio
import contextlib
import gzip
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from mitmproxy import http

from roller_capture.recording import body_file, event_log, file_closer
from tests.support.proxy import reverse, running_proxy
from tests.support.recording import Recording
from tests.support.upstream import HANG_GUARD, Client, Exchange, Reply, call, eventually, upstream

REQUEST = b'{"model": "m", "messages": [{"role": "user", "content": "\xc3\xa9"}]}'
EVENTS = [b"event: ping\ndata: %d\n\n" % number for number in range(4)]


async def answer_stream(exchange: Exchange) -> None:
    """An event stream that ends well."""
    await exchange.start_stream()
    for event in EVENTS:
        await exchange.chunk(event)
    await exchange.end_stream()


async def answer_json(exchange: Exchange) -> None:
    """A plain answer."""
    await exchange.answer(b'{"id": "msg_1"}')


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_streamed_call_is_recorded_whole(tmp_path: Path) -> None:
    """Request and response are on disk as they were on the wire, with one event for each step."""
    async with upstream(answer_stream) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, REQUEST, target="/v1/messages?beta=true")
    assert reply.whole
    assert reply.body == b"".join(EVENTS)
    assert service.seen[0].body == REQUEST
    assert service.seen[0].target == "/v1/messages?beta=true"
    kinds = [event["type"] for event in proxy.events()]
    assert kinds == [
        "recorder_started",
        "request_headers",
        "request",
        "response_headers",
        "response",
        "recorder_stopped",
    ]
    head, response = proxy.one("request_headers"), proxy.one("response")
    assert (head["protocol"], head["sequence"], head["path"]) == ("anthropic-messages", 1, "/v1/messages?beta=true")
    assert (head["host"], head["port"], head["scheme"]) == ("127.0.0.1", service.port, "http")
    assert proxy.body(proxy.one("request")["body"]) == REQUEST
    assert proxy.one("request")["complete"] is True
    assert proxy.body(response["body"]) == reply.body
    assert response["chunks"] >= 1
    assert response["first_byte_at"] <= response["ended_at"]
    assert response["masked"] is False
    assert proxy.info()["closed"] is True
    assert proxy.info()["error_count"] == 0


async def test_the_request_is_on_disk_before_the_service_sees_it(tmp_path: Path) -> None:
    """When the service gets the first byte, the body and its event are there (fact 6)."""
    on_disk: list[bytes] = []

    async def look(exchange: Exchange) -> None:
        recording = Recording(tmp_path / "a")
        on_disk.append(recording.body(recording.one("request")["body"]))
        await exchange.answer(b"{}")

    async with upstream(look) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        assert (await call(proxy.port, REQUEST)).whole
    assert on_disk == [REQUEST]


async def test_chunks_are_on_disk_before_the_client_sees_them_and_come_at_once(tmp_path: Path) -> None:
    """Each event arrives while the stream is still open, and is never ahead of the disk (facts 6 and 10)."""
    go_on = asyncio.Event()

    async def in_steps(exchange: Exchange) -> None:
        await exchange.start_stream()
        for event in EVENTS:
            await exchange.chunk(event)
            await go_on.wait()
            go_on.clear()
        await exchange.end_stream()

    async with upstream(in_steps) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        for count in range(1, len(EVENTS) + 1):
            expected = b"".join(EVENTS[:count])
            await client.read_until(lambda reply, expected=expected: len(reply.body) >= len(expected))
            assert client.reply.body == expected
            assert (proxy.work / "bodies/000001.response").read_bytes() == expected
            go_on.set()
        reply = await client.read()
        # The response event is awaited before the end of the message goes out.
        assert proxy.events("response")
        client.close()
    assert reply.whole


async def test_no_answer_waits_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes for ever to close, as on a network file system, is no call's concern; nothing is synced."""
    server_has_it = threading.Event()
    closed = 0
    real_close = file_closer._close

    def slow_close(descriptor: int, failed: Callable[[OSError], None]) -> None:
        nonlocal closed
        server_has_it.wait()
        real_close(descriptor, failed)
        closed += 1

    async with upstream(answer_stream) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        monkeypatch.setattr(file_closer, "_close", slow_close)
        for name in ("fsync", "fdatasync", "sync"):
            monkeypatch.setattr(os, name, lambda *_: pytest.fail("a sync"))
        for number in (1, 2, 3):
            assert (await call(proxy.port, REQUEST)).whole
            assert len(proxy.events("response")) == number
        assert closed == 0
        monkeypatch.undo()
        server_has_it.set()
    assert not any(proxy.events("recorder_error"))


async def test_an_exception_in_the_recorder_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream callable never raises, for mitmproxy would drop the chunk and go on (fact 1)."""
    async with upstream(answer_stream) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:

        def broken(self: object, data: bytes) -> None:  # noqa: ARG001
            raise RuntimeError("sk-never-on-disk")

        monkeypatch.setattr("roller_capture.recording.call_recorder.CallRecorder.response_chunk", broken)
        reply = await call(proxy.port, REQUEST)
    assert reply.whole
    assert reply.body == b"".join(EVENTS)
    errors = proxy.events("recorder_error")
    assert {error["code"] for error in errors} == {"internal_error"}
    assert {error["flow"] for error in errors} == {proxy.one("request_headers")["flow"]}
    assert proxy.info()["error_count"] == len(errors)
    assert b"never-on-disk" not in (proxy.work / "events.jsonl").read_bytes()


async def test_a_hook_that_fails_is_recorded_and_traffic_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request leaves a record, if only of our own fault, and our headers are taken off all the same."""

    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("roller_capture.addon.classify", broken)
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, REQUEST, headers={"X-Roller-Session": "s"})
    assert reply.body == b'{"id": "msg_1"}'
    assert service.seen[0].values("x-roller-session") == []
    error = proxy.one("recorder_error")
    assert (error["code"], error["where"]) == ("internal_error", "requestheaders")
    assert error["flow"]


class BrokenWrites:
    """`os` with a `write` that fails for some files."""

    def __init__(self, fails: Callable[[bytes], bool], limit: int | None = None) -> None:
        self._fails = fails
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        if self._fails(bytes(data)):
            if self._limit:
                written = os.write(descriptor, bytes(data)[: self._limit])
                self._limit = 0
                return written
            raise OSError(28, "No space left on device")
        return os.write(descriptor, data)


async def test_a_disk_error_in_a_body_is_an_error_of_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets every byte; the stored body is a true beginning; the next call is whole."""
    arrived = asyncio.Event()

    async def one_by_one(exchange: Exchange) -> None:
        await exchange.start_stream()
        for event in EVENTS:
            arrived.clear()
            await exchange.chunk(event)
            await arrived.wait()
        await exchange.end_stream()

    async with upstream(one_by_one) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:

        async def read() -> Reply:
            client = await Client.connect(proxy.port)
            await client.send("POST", "/v1/messages", {}, REQUEST)
            for count in range(1, len(EVENTS) + 1):
                await client.read_until(lambda reply: len(reply.body) >= len(b"".join(EVENTS[:count])))  # noqa: B023
                arrived.set()
            return await client.read()

        full = BrokenWrites(lambda data: data.startswith(b"event: ping\ndata: 2") or data.endswith(b"2\n\n"), limit=5)
        monkeypatch.setattr(body_file, "os", full)
        reply = await read()
        monkeypatch.undo()
        second = await read()
    assert reply.body == second.body == b"".join(EVENTS)
    error = proxy.one("recorder_error")
    assert (error["code"], error["where"]) == ("disk_error", "response body")
    assert error["flow"] == proxy.events("request_headers")[0]["flow"]
    first, whole = proxy.events("response")
    assert proxy.body(first["body"]) == b"".join(EVENTS[:2]) + EVENTS[2][:5]
    assert proxy.body(whole["body"]) == b"".join(EVENTS)
    assert proxy.info()["error_count"] == 1


async def test_events_that_the_disk_refuses_come_later_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk neither disturbs the traffic nor loses or glues an event, once there is room again."""
    async with upstream(answer_stream) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        monkeypatch.setattr(event_log, "os", BrokenWrites(lambda _: True, limit=20))
        reply = await call(proxy.port, REQUEST)
        monkeypatch.undo()
        assert (await call(proxy.port, REQUEST)).whole
    assert reply.body == b"".join(EVENTS)
    lines = (proxy.work / "events.jsonl").read_bytes().splitlines()
    torn = [line for line in lines if line and not line.endswith(b"}")]
    assert [len(line) for line in torn] == [20]
    events = [json.loads(line) for line in lines if line.endswith(b"}")]
    kinds = [event["type"] for event in events]
    assert kinds.count("request_headers") == kinds.count("request") == kinds.count("response") == 2
    (error,) = [event for event in events if event["type"] == "recorder_error"]
    assert (error["code"], error["where"]) == ("disk_error", "events.jsonl")
    assert proxy.info()["error_count"] == 1
    assert proxy.info()["closed"] is True


async def test_parallel_streams_do_not_mix(tmp_path: Path) -> None:
    """32 calls at once with different bodies: each pair on disk belongs together, byte for byte."""

    async def echo(exchange: Exchange) -> None:
        await exchange.start_stream()
        for _ in range(20):
            await exchange.chunk(exchange.request.body)
            await asyncio.sleep(0)
        await exchange.end_stream()

    bodies = [b'{"model":"m","n":%d,"messages":["%s"]}' % (number, b"x" * number * 97) for number in range(32)]
    async with upstream(echo) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        replies = await asyncio.gather(*(call(proxy.port, body) for body in bodies))
    assert [reply.body for reply in replies] == [body * 20 for body in bodies]
    responses = {event["flow"]: proxy.body(event["body"]) for event in proxy.events("response")}
    requests = {event["flow"]: proxy.body(event["body"]) for event in proxy.events("request")}
    assert sorted(requests.values()) == sorted(bodies)
    assert all(responses[flow] == body * 20 for flow, body in requests.items())
    assert sorted(event["sequence"] for event in proxy.events("request_headers")) == list(range(1, 33))


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
async def test_content_codings_stay_on_both_ways(tmp_path: Path, coding: str) -> None:
    """What is stored and forwarded is the coded body, request and response alike (fact 8)."""
    import brotli

    encode = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotli.compress}[coding]
    coded_request, coded_response = encode(REQUEST), encode(b'{"id": "msg"}')

    async def coded(exchange: Exchange) -> None:
        await exchange.answer(coded_response, headers={"Content-Encoding": coding})

    async with upstream(coded) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, coded_request, target="/v1/responses", headers={"Content-Encoding": coding})
    assert service.seen[0].body == coded_request
    assert service.seen[0].values("content-encoding") == [coding]
    assert reply.body == coded_response
    assert proxy.body(proxy.one("request")["body"]) == coded_request
    assert proxy.body(proxy.one("response")["body"]) == coded_response
    assert proxy.one("request_headers")["content_encoding"] == coding


async def test_roller_headers_are_recorded_and_taken_off(tmp_path: Path) -> None:
    """Any case, repeated ones too; native identity headers go on; order and case of all others stay."""
    fields = [
        (b"X-Roller-Session", b"s1"),
        (b"X-CamelCase", b"kept"),
        (b"x-roller-run", b"r1"),
        (b"Thread-Id", b"t1"),
        (b"X-ROLLER-RUN", b"r2"),
        (b"x-again", b"1"),
        (b"x-again", b"2"),
        (b"x-raw", b"caf\xe9"),
    ]
    async with (
        upstream(answer_json) as service,
        running_proxy(tmp_path / "a", reverse(service.port), harness="codex") as proxy,
    ):
        assert (await call(proxy.port, REQUEST, target="/v1/responses", headers=fields)).whole
    kept = [field for field in fields if not field[0].lower().startswith(b"x-roller")]
    assert service.seen[0].headers[1:-1] == kept
    head = proxy.one("request_headers")
    assert head["roller_headers"] == [["x-roller-session", "s1"], ["x-roller-run", "r1"], ["x-roller-run", "r2"]]
    assert ["thread-id", "t1"] in head["headers"]
    assert "x-camelcase" in head["other_headers"]
    assert "kept" not in json.dumps(head["headers"])


async def test_no_credential_is_on_disk(tmp_path: Path) -> None:
    """Neither from headers, cookies, queries and echoes, in whatever spelling; the client still gets the echo."""
    secrets = ["sk-ant-SECRET/0001", "cookie-SECRET-0002", "query-SECRET-0003", "header-SECRET-0004"]

    async def echo(exchange: Exchange) -> None:
        request = exchange.request
        text = json.dumps({"error": [request.target, [value.decode() for _, value in request.headers]]})
        await exchange.start_stream(status=401, headers={"Set-Cookie": f"sid={secrets[1]}", "X-Request-Id": "req_1"})
        for start in range(0, len(text), 7):
            await exchange.chunk(text[start : start + 7].encode())
            await asyncio.sleep(0)
        await exchange.end_stream()

    headers = {
        "Authorization": f"Bearer {secrets[0]}",
        "Cookie": f"a=1; sid={secrets[1]}",
        "X-Gateway-Token": secrets[3],
        "User-Agent": f"agent ({secrets[0]})",
    }
    async with upstream(echo) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        for target in ("/v1/messages", "/other/thing"):
            reply = await call(proxy.port, REQUEST, target=f"{target}?key={secrets[2]}&beta=true", headers=headers)
            assert reply.whole
            assert all(secret in reply.body.decode() for secret in secrets)
    everything = b"".join(path.read_bytes() for path in proxy.work.rglob("*") if path.is_file())
    assert b"SECRET" not in everything
    response = proxy.one("response")
    assert response["masked"] is True
    assert len(proxy.body(response["body"])) == len(json.dumps(json.loads(proxy.body(response["body"]))))
    assert proxy.one("request_headers")["path"] == "/v1/messages?key=REDACTED&beta=true"
    assert proxy.one("response_headers")["headers"].count(["x-request-id", "req_1"]) == 1


async def test_other_traffic_passes_unstored_and_is_listed(tmp_path: Path) -> None:
    """Its kind is named; no body of it is on disk, not even in a failed one."""
    requests = [
        ("HEAD", "/", b"", "probe"),
        ("GET", "/v1/models", b"", "model_list"),
        ("POST", "/v1/messages/count_tokens", REQUEST, "count_tokens"),
        ("POST", "/v1/embeddings", b'{"model": "e", "input": "PRIVATE"}', "embeddings"),
        ("POST", "/oauth/token", b"refresh_token=PRIVATE", "other"),
        ("POST", "/mcp", b'{"jsonrpc": "2.0", "method": "PRIVATE"}', "other"),
    ]
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        for method, target, body, _ in requests:
            reply = await call(proxy.port, body, method=method, target=target)
            assert reply.status == 200
    events = proxy.events("other_request")
    assert [(e["method"], e["path"], e["kind"], e["status"]) for e in events] == [
        (method, target, kind, 200) for method, target, _, kind in requests
    ]
    assert not proxy.events("request_headers", "unrecognised_model_request")
    assert list((proxy.work / "bodies").iterdir()) == []
    assert b"PRIVATE" not in (proxy.work / "events.jsonl").read_bytes()


async def test_streams_of_other_traffic_are_not_held_back(tmp_path: Path) -> None:
    """A notification stream of another server comes through event by event, and is not kept in memory."""
    go_on = asyncio.Event()

    async def notify(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENTS[0])
        await go_on.wait()
        await exchange.end_stream()

    async with upstream(notify) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("GET", "/notifications", {})
        assert (await client.read_until(lambda reply: bool(reply.body))).body == EVENTS[0]
        go_on.set()
        assert (await client.read()).whole
        client.close()


@pytest.mark.parametrize(
    ("target", "body", "headers"),
    [
        ("/v2/chat", REQUEST, {}),
        ("/v1beta/models/gemini-2:generateContent", b'{"contents": []}', {}),
        ("/v1/completions", b'{"model": "m", "prompt": "x"}', {}),
        ("/v2/ask", gzip.compress(b'{"model": "m", "input": "x"}'), {"Content-Encoding": "gzip"}),
    ],
    ids=["chat", "gemini", "completions", "gzip"],
)
async def test_a_model_request_on_an_unknown_endpoint_is_named_and_kept(
    tmp_path: Path, target: str, body: bytes, headers: dict[str, str]
) -> None:
    """Nothing that asks a model passes unseen."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, body, target=target, headers=headers)
    assert reply.body == b'{"id": "msg_1"}'
    event = proxy.one("unrecognised_model_request")
    assert event["path"] == target
    assert proxy.body(event["body"]) == body
    assert proxy.body(event["response_body"]) == reply.body
    assert not proxy.events("other_request")


# --- how calls end ---


async def cut_chunked(exchange: Exchange) -> None:
    await exchange.start_stream()
    await exchange.chunk(EVENTS[0])
    await asyncio.sleep(0.02)
    exchange.cut()


async def reset_chunked(exchange: Exchange) -> None:
    await exchange.start_stream()
    await exchange.chunk(EVENTS[0])
    await asyncio.sleep(0.02)
    exchange.reset()


async def cut_content_length(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + EVENTS[0])
    await asyncio.sleep(0.02)
    exchange.cut()


async def cut_before_head(exchange: Exchange) -> None:
    exchange.cut()


async def garbage(exchange: Exchange) -> None:
    await exchange.send(b"\x00\x01 this is no HTTP\r\n\r\n")
    exchange.cut()


@pytest.mark.parametrize(
    ("handler", "stored"),
    [
        (cut_chunked, EVENTS[0]),
        (reset_chunked, EVENTS[0]),
        (cut_content_length, EVENTS[0]),
        (cut_before_head, None),
        (garbage, None),
    ],
    ids=["cut-chunked", "reset", "cut-content-length", "no-head", "no-http"],
)
async def test_a_service_that_breaks_off(
    tmp_path: Path, handler: Callable[[Exchange], Any], stored: bytes | None
) -> None:
    """The failure names the upstream and holds what came; the client sees a break too (facts 2, 3, 9)."""
    async with upstream(handler) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, REQUEST)
        assert proxy.info()["error_count"] == 0
    assert reply.status == 502 if stored is None else not reply.whole
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"], failure["unreachable"]) == ("upstream", "response", False)
    assert (failure["body"] and proxy.body(failure["body"])) == stored
    assert not proxy.events("response")
    assert proxy.info()["closed"] is True


@pytest.mark.parametrize("leave", [Client.close, Client.reset])
async def test_a_client_that_leaves(tmp_path: Path, leave: Callable[[Client], None]) -> None:
    """The failure names the client and holds what the service had sent until then (fact 9)."""
    gone = asyncio.Event()

    async def patient(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENTS[0])
        await gone.wait()

    async with upstream(patient) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        await client.read_until(lambda reply: bool(reply.body))
        leave(client)
        await eventually(lambda: bool(proxy.events("failure")))
        gone.set()
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"]) == ("client", "response")
    assert proxy.body(failure["body"]) == EVENTS[0]


async def test_a_client_that_leaves_before_the_answer(tmp_path: Path) -> None:
    """No response head ever came: no body, and still the client's doing."""
    gone = asyncio.Event()

    async def silent(exchange: Exchange) -> None:
        await gone.wait()
        exchange.cut()

    async with upstream(silent) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        await eventually(lambda: bool(service.seen))
        client.close()
        await eventually(lambda: bool(proxy.events("failure")))
        gone.set()
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"], failure["body"]) == ("client", "response", None)
    assert proxy.one("request")["complete"] is True


async def test_a_client_that_leaves_while_it_uploads(tmp_path: Path) -> None:
    """It is a call all the same, with a failure in phase `request`; nothing went upstream."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send_head("POST", "/v1/messages", {}, 100_000)
        await client.send_raw(b"{" * 5_000)
        await eventually(lambda: bool(proxy.events("request_headers")))
        client.close()
        await eventually(lambda: bool(proxy.events("failure")))
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"], failure["body"]) == ("client", "request", None)
    assert not proxy.events("request")
    assert service.seen == []


async def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    """With a lazy connection the call is seen; every further one of the connection as well (fact 5)."""
    async with running_proxy(tmp_path / "a", reverse(free_port()), connection_strategy="eager") as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        assert (await client.read()).status == 502
        client.close()
        assert (await call(proxy.port, REQUEST)).status == 502
    failures = proxy.events("failure")
    assert len(failures) == 2
    for failure in failures:
        assert (failure["unreachable"], failure["phase"], failure["cut_by"]) == (True, "connect", "upstream")
        assert failure["body"] is None
    assert len(proxy.events("request")) == 2


async def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    """A DNS failure is unreachable too."""
    mode = "reverse:http://no-such-host.invalid:80@127.0.0.1:0"
    async with running_proxy(tmp_path / "a", mode) as proxy:
        assert (await call(proxy.port, REQUEST)).status == 502
    assert proxy.one("failure")["unreachable"] is True


async def test_a_service_that_refuses_a_big_body_early(tmp_path: Path) -> None:
    """Since the request is buffered, the real 413 arrives and is recorded, not a break (fact 7)."""

    async def too_large(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        exchange.cut()

    body = b'{"model":"m","messages":["' + b"x" * 3_000_000 + b'"]}'
    async with upstream(too_large) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, body)
    assert (reply.status, reply.body) == (413, b"big")
    assert proxy.one("response_headers")["status"] == 413
    assert proxy.body(proxy.one("request")["body"]) == body


async def test_responses_without_body(tmp_path: Path) -> None:
    """No callable is ever called for them, and their end is an end (fact 2)."""

    async def empty(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 529 Overloaded\r\nContent-Length: 0\r\nRetry-After: 2\r\n\r\n")

    async with upstream(empty) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        assert (await call(proxy.port, REQUEST)).status == 529
    response = proxy.one("response")
    assert proxy.body(response["body"]) == b""
    assert (response["chunks"], response["first_byte_at"]) == (0, None)
    assert ["retry-after", "2"] in proxy.one("response_headers")["headers"]


class KillInStream:
    """Another addon that kills a flow while its response streams."""

    def response(self, flow: http.HTTPFlow) -> None:
        flow.kill()


async def test_a_flow_that_another_addon_kills(tmp_path: Path) -> None:
    """It may end in `response` with an error set: that is no good end (fact 3)."""
    async with (
        upstream(answer_stream) as service,
        running_proxy(tmp_path / "a", reverse(service.port), addons=(KillInStream(),)) as proxy,
    ):
        reply = await call(proxy.port, REQUEST)
    assert not reply.whole
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"]) == ("proxy", "response")
    assert not proxy.events("response")


class AnswerHere:
    """Another addon that answers in place of the service."""

    def request(self, flow: http.HTTPFlow) -> None:
        flow.response = http.Response.make(200, b'{"local": true}', {"content-type": "application/json"})


async def test_an_answer_by_another_addon_is_recorded(tmp_path: Path) -> None:
    """No chunk passes then, but the body is what the client got."""
    async with running_proxy(tmp_path / "a", reverse(free_port()), addons=(AnswerHere(),)) as proxy:
        reply = await call(proxy.port, REQUEST)
    assert proxy.body(proxy.one("response")["body"]) == reply.body == b'{"local": true}'


async def test_a_stop_in_mid_stream(tmp_path: Path) -> None:
    """Open calls are cut by the proxy, once, and the later `error` adds nothing (fact 4)."""
    gone = asyncio.Event()

    async def patient(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENTS[0])
        await gone.wait()
        with contextlib.suppress(ConnectionError):
            await exchange.chunk(EVENTS[1])
            await exchange.end_stream()

    async with upstream(patient) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        await client.read_until(lambda reply: bool(reply.body))
        await proxy.stop()
        gone.set()
        reply = await client.read()
    # What came after the stop is not on disk, so the client must not have it either.
    assert (reply.body, reply.whole) == (EVENTS[0], False)
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"]) == ("proxy", "response")
    assert proxy.body(failure["body"]) == EVENTS[0]
    assert proxy.one("recorder_stopped")["open_flows"] == [failure["flow"]]
    assert proxy.events()[-1]["type"] == "recorder_stopped"
    assert proxy.info()["closed"] is True


async def test_nothing_passes_after_the_stop(tmp_path: Path) -> None:
    """A connection that outlives the recorder gets no answer, for nobody would record it."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        assert (await client.read()).whole
        await proxy.stop()
        await client.send("POST", "/v1/messages", {}, REQUEST)
        reply = await client.read()
    assert reply.status == 0
    assert len(service.seen) == 1
    assert len(proxy.events("request_headers")) == 1


async def test_nothing_is_kept_of_ended_flows(tmp_path: Path) -> None:
    """Memory stays flat: no state of a flow outlives it, however it ended."""
    turn = iter((answer_stream, cut_chunked, answer_json, cut_before_head))

    async def mixed(exchange: Exchange) -> None:
        await next(turn)(exchange)

    async with upstream(mixed) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        for target in ("/v1/messages", "/v1/responses", "/v2/chat", "/v1/chat/completions"):
            await call(proxy.port, REQUEST, target=target)
        assert proxy.addon is not None
        session = proxy.addon._live()
        await eventually(lambda: not session.recorder.exchanges)
        assert not session.flows
        await eventually(lambda: not session.connect_errors)


# --- large, streamed requests ---


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests above 1,000 bytes are streamed, as above 32 MiB in real life."""
    monkeypatch.setattr("roller_capture.addon.LARGEST_BUFFERED_REQUEST", 1_000)


BIG = b'{"model":"m","messages":["' + b"y" * 5_000 + b'"]}'


@pytest.mark.usefixtures("small_buffer")
async def test_a_large_request_is_streamed_and_recorded(tmp_path: Path) -> None:
    """Its body is on disk piece by piece, and whole."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        reply = await call(proxy.port, BIG)
    assert reply.whole
    assert service.seen[0].body == BIG
    request = proxy.one("request")
    assert (proxy.body(request["body"]), request["complete"]) == (BIG, True)


@pytest.mark.usefixtures("small_buffer")
async def test_a_large_request_that_is_cut(tmp_path: Path) -> None:
    """What had come is kept, and said to be incomplete."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send_head("POST", "/v1/messages", {}, 100_000)
        await client.send_raw(BIG)
        path = proxy.work / "bodies/000001.request"
        await eventually(lambda: path.exists() and path.stat().st_size == len(BIG))
        client.close()
        await eventually(lambda: bool(proxy.events("failure")))
    request, failure = proxy.one("request"), proxy.one("failure")
    assert (proxy.body(request["body"]), request["complete"]) == (BIG, False)
    assert (failure["phase"], failure["cut_by"]) == ("request", "client")


@pytest.mark.usefixtures("small_buffer")
@pytest.mark.parametrize("finish", [True, False])
async def test_a_response_that_overtakes_its_request(tmp_path: Path, *, finish: bool) -> None:
    """`response` stands before `request`, which still says whether the body came whole."""

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(early, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with running_proxy(tmp_path / "a", reverse(port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send_head("POST", "/v1/messages", {}, len(BIG))
        await client.send_raw(BIG[:2_000])
        await eventually(lambda: bool(proxy.events("response")))
        if finish:
            await client.send_raw(BIG[2_000:])
        else:
            client.close()
        await eventually(lambda: bool(proxy.events("request")))
        client.close()
    server.close()
    request = proxy.one("request")
    assert request["complete"] is finish
    assert proxy.body(request["body"]) == (BIG if finish else BIG[:2_000])
    assert not proxy.events("failure")


# --- websockets ---

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "WebSocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_websocket_on_a_model_endpoint_is_refused(tmp_path: Path, method: str) -> None:
    """426, at once and without asking the service; the connection can be used for the fallback."""
    async with upstream(answer_json) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send(method, "/v1/responses", UPGRADE)
        assert (await client.read()).status == 426
        await client.send("POST", "/v1/responses", {}, REQUEST)
        assert (await client.read()).status == 200
        client.close()
    assert [request.method for request in service.seen] == ["POST"]
    assert proxy.one("other_request")["kind"] == "websocket_refused"
    assert proxy.one("other_request")["status"] == 426
    assert len(proxy.events("request_headers")) == 1


async def switch(exchange: Exchange) -> None:
    """Turns the connection into a websocket and sends one text frame."""
    await exchange.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x02hi"
    )
    await asyncio.sleep(0.1)


async def test_a_websocket_elsewhere_passes_and_is_listed(tmp_path: Path) -> None:
    """It is no model traffic."""
    async with upstream(switch) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("GET", "/notifications", UPGRADE)
        assert b"hi" in await asyncio.wait_for(_read_until(client, b"hi"), 5)
        client.close()
    assert proxy.one("other_request")["status"] == 101
    assert not proxy.events("websocket_passed")


async def _read_until(client: Client, wanted: bytes) -> bytes:
    data = b""
    while wanted not in data:
        piece = await client.reader.read(1 << 16)
        if not piece:
            break
        data += piece
    return data


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_websocket_that_passes_all_the_same_is_an_error(tmp_path: Path, method: str) -> None:
    """A service that switches protocols unasked, on a model endpoint."""
    async with upstream(switch) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send(method, "/v1/responses?key=abcdefgh", {}, REQUEST if method == "POST" else b"")
        await eventually(lambda: bool(proxy.events("websocket_passed")))
        client.close()
    assert proxy.one("websocket_passed")["path"] == "/v1/responses?key=REDACTED"


# --- several recorders, several listeners ---


async def test_two_recorders_in_a_row_continue_each_other(tmp_path: Path) -> None:
    """The second goes on counting, after a torn line too, and keeps the capture's id and start."""
    async with upstream(answer_json) as service:
        async with running_proxy(tmp_path / "a", reverse(service.port)) as first:
            assert (await call(first.port, REQUEST)).whole
        before = first.info()
        with (first.work / "events.jsonl").open("ab") as log:
            log.write(b'{"type":"requ')
        async with running_proxy(tmp_path / "a", reverse(service.port)) as second:
            assert (await call(second.port, REQUEST)).whole
    after = second.info()
    assert (after["recorders"], after["closed"]) == (2, True)
    assert (after["capture_id"], after["started_at"]) == (before["capture_id"], before["started_at"])
    lines = [line for line in (second.work / "events.jsonl").read_bytes().split(b"\n") if line.endswith(b"}")]
    events = [json.loads(line) for line in lines]
    assert [e["recorder"] for e in events if e["type"] == "recorder_started"] == [1, 2]
    assert [e["sequence"] for e in events if e["type"] == "request_headers"] == [1, 2]
    assert sorted(path.name for path in (second.work / "bodies").iterdir()) == [
        "000001.request",
        "000001.response",
        "000002.request",
        "000002.response",
    ]


async def test_several_listeners_record_into_one_attempt(tmp_path: Path) -> None:
    """Each call names its own upstream."""
    async with (
        upstream(answer_json) as one,
        upstream(answer_stream) as two,
        running_proxy(tmp_path / "a", reverse(one.port), reverse(two.port)) as proxy,
    ):
        for port in proxy.ports:
            assert (await call(port, REQUEST)).whole
    assert {head["port"] for head in proxy.events("request_headers")} == {one.port, two.port}
    assert len(proxy.info()["options"]["listeners"]) == 2


async def test_options_that_would_hide_calls_are_overruled(tmp_path: Path) -> None:
    """Also when they are set while the proxy runs."""
    hiding = {"connection_strategy": "eager", "stream_large_bodies": "1"}
    async with (
        upstream(answer_stream) as service,
        running_proxy(tmp_path / "a", reverse(service.port), **hiding) as proxy,
    ):
        assert proxy.master is not None
        assert proxy.master.options.connection_strategy == "lazy"
        proxy.master.options.update(**hiding)
        assert proxy.master.options.connection_strategy == "lazy"
        assert proxy.master.options.stream_large_bodies is None
        assert (await call(proxy.port, REQUEST)).whole
    assert proxy.body(proxy.one("request")["body"]) == REQUEST
    assert proxy.body(proxy.one("response")["body"]) == b"".join(EVENTS)


async def read_all(port: int, request: bytes, *, until: bytes | None = None) -> bytes:
    """Raw bytes to the proxy, and all that comes back, to its end or to `until`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(HANG_GUARD):
            return await (reader.readuntil(until) if until else reader.read())
    finally:
        writer.close()


CHUNKED_REQUEST = (
    b"POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n" % (len(REQUEST), REQUEST)
)


async def test_trailers_of_a_response_are_forwarded_and_named(tmp_path: Path) -> None:
    """mitmproxy alone crashes on them, and the client waits for ever; the connection then goes on to be used."""

    async def with_trailers(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENTS[0])
        await exchange.send(b"0\r\nX-Checksum: abc\r\nX-Api-Key: secret-of-the-service\r\n\r\n")

    async with upstream(with_trailers) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        got = await read_all(proxy.port, CHUNKED_REQUEST + b"\r\n", until=b"service\r\n\r\n")
        assert got.endswith(b"\r\n0\r\nx-checksum: abc\r\nx-api-key: secret-of-the-service\r\n\r\n")
        client = await Client.connect(proxy.port)
        for _ in range(2):
            await client.send("POST", "/v1/messages", {}, REQUEST)
            assert (await client.read()).whole
        client.close()
        await eventually(lambda: len(proxy.events("response")) == 3)
    assert {tuple(event["trailers"]) for event in proxy.events("response")} == {("x-checksum", "x-api-key")}
    assert proxy.body(proxy.events("response")[0]["body"]) == EVENTS[0]
    assert b"secret-of-the-service" not in (proxy.work / "events.jsonl").read_bytes()


async def test_trailers_of_a_request_are_forwarded(tmp_path: Path) -> None:
    """All but ours."""
    seen = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        await reader.readuntil(b"\r\n\r\n")
        seen = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with running_proxy(tmp_path / "a", reverse(port)) as proxy:
        request = CHUNKED_REQUEST + b"X-Roller-Late: 1\r\nX-Checksum: abc\r\n\r\n"
        assert (await read_all(proxy.port, request)).endswith(b"{}")
        await eventually(lambda: bool(proxy.events("response")))
    server.close()
    assert seen.endswith(b"\r\n0\r\nx-checksum: abc\r\n\r\n")
    assert proxy.body(proxy.one("request")["body"]) == REQUEST
    assert "trailers" not in proxy.one("response")


@pytest.mark.parametrize(
    ("rest", "validate"),
    [
        (b"Content-Length: -5\r\n\r\n", True),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", True),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n", True),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\nfoo", True),
        (b"A b: c\r\nContent-Length: 2\r\n\r\n{}", True),
        # What mitmproxy cannot read it refuses in another place than what it does not trust.
        (b"Content-Length: -5\r\n\r\n", False),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", False),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\nfoo", False),
    ],
)
async def test_a_malformed_request_is_refused_by_the_proxy(tmp_path: Path, rest: bytes, *, validate: bool) -> None:
    """It closes the connection itself, which must not look like a client that left."""
    async with (
        upstream(answer_stream) as service,
        running_proxy(tmp_path / "a", reverse(service.port), validate_inbound_headers=validate) as proxy,
    ):
        request = b"POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nConnection: close\r\n" + rest
        assert (await read_all(proxy.port, request))[:12] in (b"HTTP/1.1 400", b"")
        await eventually(lambda: bool(proxy.events("failure", "response")))
    assert service.seen == []
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"]) == ("proxy", "request")
    assert failure["message"].startswith("the proxy refused the request: ")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"],
        [b"HTTP/1.1 10", b"3 Early Hints\r\nli", b"nk: </a>\r\n\r", b"\n"],
    ],
    ids=["one", "two at once", "in pieces"],
)
async def test_the_answer_behind_an_interim_one_arrives(tmp_path: Path, pieces: list[bytes]) -> None:
    """mitmproxy would take the interim head for the answer, and never send the real one."""

    async def interim(exchange: Exchange) -> None:
        for piece in pieces:
            await exchange.send(piece)
            await asyncio.sleep(0.05)
        await exchange.answer(b"{}")

    async with upstream(interim) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        got = await read_all(proxy.port, CHUNKED_REQUEST + b"\r\n", until=b"{}")
        assert got.startswith(b"HTTP/1.1 200")
        await eventually(lambda: bool(proxy.events("failure", "response")))
    assert proxy.events("failure") == []
    assert proxy.one("response_headers")["status"] == 200
    assert proxy.body(proxy.one("response")["body"]) == b"{}"
