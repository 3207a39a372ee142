"""The capture addon as a regular (CONNECT) proxy, with TLS and HTTP/2 on either side."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import h2.errors
import pytest

from tests.support import http2
from tests.support.certificates import Authority, client_context, make_authority
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import Client, Exchange, eventually, upstream

REQUEST = b'{"model": "m", "input": "x"}'
EVENT = b"event: response.created\ndata: {}\n\n"
REGULAR = "regular@127.0.0.1:0"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The model service's own authority, which the proxy is told to trust."""
    return make_authority(tmp_path_factory.mktemp("authority"))


def trusting(proxy: Proxy, *protocols: str) -> ssl.SSLContext:
    """A client that trusts the proxy's authority."""
    return client_context(proxy.attempt.parent / "confdir" / "mitmproxy-ca-cert.pem", *protocols)


async def tunnel(proxy: Proxy, port: int, tls: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection to the service, through the proxy's CONNECT."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(
        b"CONNECT localhost:%d HTTP/1.1\r\nHost: localhost\r\nProxy-Authorization: Basic cHJveHk=\r\n\r\n" % port
    )
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    await writer.start_tls(tls, server_hostname="localhost")
    return reader, writer


async def answer_stream(exchange: Exchange) -> None:
    await exchange.start_stream()
    await exchange.chunk(EVENT)
    await exchange.chunk(EVENT)
    await exchange.end_stream()


async def test_a_call_through_connect(tmp_path: Path, authority: Authority) -> None:
    """The call is recorded as with a reverse proxy, with the https upstream it went to."""
    async with (
        upstream(answer_stream, tls=authority.server_context()) as service,
        running_proxy(tmp_path / "a", REGULAR, ssl_verify_upstream_trusted_ca=str(authority.ca)) as proxy,
    ):
        client = Client(*await tunnel(proxy, service.port, trusting(proxy)))
        await client.send("POST", "/v1/responses", {"X-Roller-Run": "r"}, REQUEST)
        reply = await client.read()
        client.close()
    assert reply.whole
    assert reply.body == EVENT * 2
    assert service.seen[0].values("x-roller-run") == []
    head = proxy.one("request_headers")
    assert (head["scheme"], head["host"], head["port"]) == ("https", "localhost", service.port)
    assert head["roller_headers"] == [["x-roller-run", "r"]]
    assert proxy.body(proxy.one("response")["body"]) == reply.body


async def test_a_plain_request_in_absolute_form(tmp_path: Path) -> None:
    """`POST http://host/path`, as clients send it to a proxy without TLS."""
    async with upstream(answer_stream) as service, running_proxy(tmp_path / "a", REGULAR) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", f"http://127.0.0.1:{service.port}/v1/responses", {}, REQUEST)
        assert (await client.read()).whole
        client.close()
    head = proxy.one("request_headers")
    assert (head["host"], head["port"], head["path"]) == ("127.0.0.1", service.port, "/v1/responses")


async def test_an_upstream_that_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    """A TLS failure is unreachable: no byte of the request went out."""
    async with (
        upstream(answer_stream, tls=authority.server_context()) as service,
        running_proxy(tmp_path / "a", REGULAR) as proxy,
    ):
        client = Client(*await tunnel(proxy, service.port, trusting(proxy)))
        await client.send("POST", "/v1/responses", {}, REQUEST)
        assert (await client.read()).status == 502
        client.close()
    failure = proxy.one("failure")
    assert (failure["unreachable"], failure["phase"], failure["cut_by"]) == (True, "connect", "upstream")
    assert service.seen == []


async def h2_client(proxy: Proxy, port: int) -> http2.Http2Client:
    """An HTTP/2 connection through CONNECT."""
    reader, writer = await tunnel(proxy, port, trusting(proxy, "h2"))
    return await http2.Http2Client.over(reader, writer)


async def answer_h2(stream: http2.Stream) -> None:
    await stream.start()
    await stream.data(stream.request.body)
    await stream.data(EVENT, end=True)


async def test_http2_on_both_sides(tmp_path: Path, authority: Authority) -> None:
    """Eight streams of one connection at once: eight calls, bytes equal, our headers gone."""
    bodies = [b'{"model":"m","input":%d}' % number for number in range(8)]
    async with (
        http2.upstream(answer_h2, authority.server_context("h2")) as service,
        running_proxy(tmp_path / "a", REGULAR, ssl_insecure=True, harness="codex") as proxy,
    ):
        client = await h2_client(proxy, service.port)
        fields = [
            ("x-roller-run", "r1"),
            ("x-roller-run", "r2"),
            ("thread-id", "t"),
            ("authorization", "Bearer key-123"),
        ]
        streams = [await client.send("/v1/responses", body, fields) for body in bodies]
        await client.read_until(lambda: all(reply.whole for reply in client.replies.values()))
        client.writer.close()
    assert [client.replies[stream].body for stream in streams] == [body + EVENT for body in bodies]
    assert sorted(request.body for request in service.seen) == bodies
    assert all(request.values("x-roller-run") == [] for request in service.seen)
    assert all(request.values("thread-id") == ["t"] for request in service.seen)
    for head in proxy.events("request_headers"):
        assert head["http_version"] == "HTTP/2.0"
        assert head["roller_headers"] == [["x-roller-run", "r1"], ["x-roller-run", "r2"]]
        assert ["thread-id", "t"] in head["headers"]
    assert sorted(proxy.body(event["body"]) for event in proxy.events("response")) == [body + EVENT for body in bodies]


async def test_an_http2_client_of_an_http1_service(tmp_path: Path, authority: Authority) -> None:
    """Each call is recorded once, whatever the other side speaks."""
    async with (
        upstream(answer_stream, tls=authority.server_context("http/1.1")) as service,
        running_proxy(tmp_path / "a", REGULAR, ssl_insecure=True) as proxy,
    ):
        client = await h2_client(proxy, service.port)
        stream = await client.send("/v1/responses", REQUEST, [])
        await client.read_until(lambda: client.replies[stream].whole)
        client.writer.close()
    assert client.replies[stream].body == EVENT * 2
    assert proxy.one("request_headers")["http_version"] == "HTTP/2.0"
    assert proxy.one("response_headers")["http_version"] == "HTTP/1.1"


async def _reset_by_service(stream: http2.Stream) -> None:
    await stream.start()
    await stream.data(EVENT)
    await stream.reset(h2.errors.ErrorCodes.INTERNAL_ERROR)


async def _wait_for_ever(stream: http2.Stream) -> None:
    await stream.start()
    await stream.data(EVENT)
    await asyncio.Event().wait()


async def _nothing(client: http2.Http2Client, stream: int) -> None:
    del client, stream


async def _cancel(client: http2.Http2Client, stream: int) -> None:
    await client.cancel(stream)


async def _leave(client: http2.Http2Client, stream: int) -> None:
    del stream
    client.writer.close()


@pytest.mark.parametrize(
    ("handler", "act", "side"),
    [
        (_reset_by_service, _nothing, "upstream"),
        (_wait_for_ever, _cancel, "client"),
        (_wait_for_ever, _leave, "client"),
    ],
)
async def test_http2_streams_that_break(
    tmp_path: Path,
    authority: Authority,
    handler: http2.Handler,
    act: Callable[[http2.Http2Client, int], Awaitable[None]],
    side: str,
) -> None:
    """A reset of one stream on a living connection, and a connection that ends: the right side is named (fact 9)."""
    async with (
        http2.upstream(handler, authority.server_context("h2")) as service,
        running_proxy(tmp_path / "a", REGULAR, ssl_insecure=True) as proxy,
    ):
        client = await h2_client(proxy, service.port)
        stream = await client.send("/v1/responses", REQUEST, [])
        await client.read_until(lambda: bool(client.replies[stream].body) or client.replies[stream].broken)
        await act(client, stream)
        await eventually(lambda: bool(proxy.events("failure")))
        client.writer.close()
    failure = proxy.one("failure")
    assert (failure["cut_by"], failure["phase"]) == (side, "response")
    assert proxy.body(failure["body"]) == EVENT


async def test_a_cancelled_http2_stream_of_an_http1_service(tmp_path: Path, authority: Authority) -> None:
    """Only the client speaks HTTP/2, so only it can have reset the stream."""
    gone = asyncio.Event()

    async def patient(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENT)
        await gone.wait()

    async with (
        upstream(patient, tls=authority.server_context("http/1.1")) as service,
        running_proxy(tmp_path / "a", REGULAR, ssl_insecure=True) as proxy,
    ):
        client = await h2_client(proxy, service.port)
        stream = await client.send("/v1/responses", REQUEST, [])
        await client.read_until(lambda: bool(client.replies[stream].body))
        await client.cancel(stream)
        await eventually(lambda: bool(proxy.events("failure")))
        gone.set()
        client.writer.close()
    assert proxy.one("failure")["cut_by"] == "client"
