"""A canary in every place where a request or an answer can carry a credential: none reaches the disk or the log."""

import asyncio
import base64
import gzip
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import brotli
import pytest
import zstandard

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.vocabulary import DebugRetention
from tests.support.canaries import canary, leaks, spellings
from tests.support.proxy import Proxy, reverse, running_proxy
from tests.support.upstream import Client, Exchange, Handler, call, upstream

SECRET = canary(1)
REQUEST = b'{"model": "m", "messages": []}'
KEY = {"x-api-key": SECRET}
BASIC = base64.b64encode(f"someone:{SECRET}".encode()).decode()

PLACES: dict[str, tuple[dict[str, str], str]] = {
    "authorization": ({"Authorization": f"Bearer {SECRET}"}, ""),
    "authorization without a scheme": ({"Authorization": SECRET}, ""),
    "authorization, basic": ({"Authorization": f"Basic {BASIC}"}, ""),
    "proxy-authorization": ({"Proxy-Authorization": f"Basic {BASIC}"}, ""),
    "x-api-key": ({"X-API-Key": SECRET}, ""),
    "api-key": ({"api-key": SECRET}, ""),
    "x-goog-api-key": ({"x-goog-api-key": SECRET}, ""),
    "cookie": ({"Cookie": f"theme=dark; session={SECRET}; last=1"}, ""),
    "a header named like a secret": ({"X-Amz-Security-Token": SECRET}, ""),
    "a subscription key": ({"Ocp-Apim-Subscription-Key": SECRET}, ""),
    "any other header": ({"X-Anything": SECRET}, ""),
    "referer": ({"Referer": f"https://someone:{SECRET}@elsewhere.test/?key={quote(SECRET)}"}, ""),
    "a key repeated in headers whose values are stored": (
        {
            **KEY,
            "User-Agent": f"agent ({SECRET})",
            "X-Request-Id": SECRET,
            "X-Stainless-Lang": quote(SECRET, safe=""),
            "Content-Encoding": SECRET,
            "Accept": base64.b64encode(SECRET.encode()).decode(),
        },
        "",
    ),
    "a key repeated in native ids and in ours": ({**KEY, "Thread-Id": SECRET, "X-Roller-Run": SECRET}, ""),
    "query: key": ({}, f"?key={quote(SECRET, safe='')}&beta=true"),
    "query: access_token": ({}, f"?beta=true&access_token={quote(SECRET, safe='')}"),
    "query: a name that is known to be harmless": ({}, f"?api-version={quote(SECRET, safe='')}"),
    "query: a value without a name": ({}, f"?{quote(SECRET, safe='')}"),
    "query: a key as the name": (KEY, f"?{quote(SECRET, safe='')}=1"),
    "path: a key of the request": (KEY, f"/../{quote(SECRET, safe='')}/v1/messages"),
    "path: user information": ({}, f"/../go/https://someone:{quote(SECRET, safe='')}@elsewhere.test/v1/messages"),
}
UNMARKED = frozenset(
    (
        "any other header",
        "referer",
        "query: a name that is known to be harmless",
        "query: a value without a name",
    )
)
"""Where nothing says that the value is a secret: it is not stored, but an echo of it is not known for one."""

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
}


async def accept(exchange: Exchange) -> None:
    """A plain answer."""
    await exchange.answer(b"{}")


async def refuse(exchange: Exchange) -> None:
    """An error that repeats everything that was asked, in body and headers."""
    request = exchange.request
    text = json.dumps([request.target, [[name.decode(), value.decode()] for name, value in request.headers]])
    headers = {"Set-Cookie": f"session={SECRET}", "X-Request-Id": SECRET, "Location": f"/login?key={quote(SECRET)}"}
    await exchange.answer(text.encode(), status=401, headers=headers)


async def record(attempt: Path, handler: Handler, send: Callable[[int], object], harness: str = "codex") -> Proxy:
    """What is on disk after one request."""
    async with upstream(handler) as service, running_proxy(attempt, reverse(service.port), harness=harness) as proxy:
        await send(proxy.port)  # type: ignore[misc]
        assert service.seen
    return proxy


def publish(attempt: Path) -> None:
    """Publishes it with all its debug material."""
    finalize_attempt(attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert validate_attempt(attempt, deep=True) == []


@pytest.mark.parametrize(
    ("place", "handler"),
    [
        (place, handler)
        for place in PLACES
        for handler in (accept, refuse)
        if handler is accept or place not in UNMARKED
    ],
)
@pytest.mark.parametrize("endpoint", ["/v1/messages", "/v1/elsewhere"])
async def test_a_secret_of_a_request(
    tmp_path: Path, place: str, endpoint: str, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """It reaches the service, and nothing else, neither while it is recorded nor when it is published."""
    caplog.set_level(logging.INFO)
    headers, more = PLACES[place]
    await record(tmp_path / "a", handler, lambda port: call(port, REQUEST, target=endpoint + more, headers=headers))
    assert leaks(tmp_path / "a", [SECRET]) == []
    publish(tmp_path / "a")
    assert leaks(tmp_path / "a", [SECRET]) == []
    assert SECRET not in caplog.text


@pytest.mark.parametrize("coding", [None, *CODINGS])
@pytest.mark.parametrize("status", [200, 401, 503])
async def test_a_key_that_an_answer_repeats(tmp_path: Path, status: int, coding: str | None) -> None:
    """In an error, and in error events of a stream with status 200: in every spelling and coding, in small pieces."""
    body = b"".join(
        b'event: error\ndata: {"type":"error","error":{"type":"%s","message":"bad key %s, really"}}\n\n' % (name, text)
        for name, text in ((name.encode(), text) for name, text in spellings(SECRET).items())
    )
    sent = body if coding is None else CODINGS[coding](body)

    async def answer(exchange: Exchange) -> None:
        await exchange.start_stream(status=status, headers={} if coding is None else {"Content-Encoding": coding})
        for start in range(0, len(sent), 5):
            await exchange.chunk(sent[start : start + 5])
            await asyncio.sleep(0)
        await exchange.end_stream()

    got: list[bytes] = []

    async def send(port: int) -> None:
        got.append((await call(port, REQUEST, headers=KEY)).body)

    proxy = await record(tmp_path / "a", answer, send)
    assert got == [sent], "the client gets what the service sent"
    response = proxy.one("response")
    assert response["masked"] == (True if coding is None else "decoded")
    assert len(proxy.body(response["body"])) == len(body)
    assert leaks(tmp_path / "a", [SECRET]) == []
    publish(tmp_path / "a")
    assert leaks(tmp_path / "a", [SECRET]) == []
    (line,) = (tmp_path / "a" / "calls.jsonl").read_bytes().splitlines()
    assert "credential_masked" in [error["code"] for error in json.loads(line)["errors"]]


@pytest.mark.parametrize("key", ["ollama-7", "sk-no-key-required-at-all", "roller-dummy-0123456789abcdef"])
@pytest.mark.parametrize("coding", [None, "gzip"])
async def test_an_answer_that_is_no_echo_stays_what_it_was(tmp_path: Path, key: str, coding: str | None) -> None:
    """Placeholders for keys are words that an agent may write about, and a made-up key opens nothing."""
    body = json.dumps({"content": f"export KEY={key}"}).encode()
    body = body if coding is None else CODINGS[coding](body)

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(body, headers={} if coding is None else {"Content-Encoding": coding})

    proxy = await record(tmp_path / "a", answer, lambda port: call(port, REQUEST, headers={"x-api-key": key}))
    response = proxy.one("response")
    assert response["masked"] is False
    assert proxy.body(response["body"]) == body


TRAFFIC: dict[str, tuple[str, str, Sequence[tuple[str, str]]]] = {
    "a refused websocket": ("GET", "/v1/responses", (("Connection", "Upgrade"), ("Upgrade", "websocket"))),
    "a websocket elsewhere": ("GET", "/live", (("Connection", "Upgrade"), ("Upgrade", "websocket"))),
    "a probe": ("HEAD", "/", ()),
    "a model list": ("GET", "/v1/models", ()),
    "a token count": ("POST", "/v1/messages/count_tokens", ()),
    "an unknown method": ("FETCH", "/v1/messages", ()),
}


@pytest.mark.parametrize("kind", TRAFFIC)
async def test_a_secret_of_other_traffic(tmp_path: Path, kind: str) -> None:
    """What is no model call is listed, and its credentials are not."""
    method, path, fields = TRAFFIC[kind]
    headers = {**KEY, "Cookie": f"a={SECRET}", "Authorization": f"Bearer {SECRET}", **dict(fields)}
    async with upstream(refuse) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send(method, f"{path}?token={quote(SECRET, safe='')}", headers, b"")
        await client.read_until(lambda reply: reply.status > 0)
        client.close()
    assert len(proxy.events("other_request")) == 1
    assert leaks(tmp_path / "a", [SECRET]) == []


START = "POST /v1/messages HTTP/1.1\r\nHost: x\r\n"
KEY_LINE = f"x-api-key: {SECRET}\r\n"
BROKEN: dict[str, bytes] = {
    "no HTTP at all": f"{SECRET}\r\n\r\n".encode(),
    "a malformed header": f"POST /v1/messages?key={SECRET} HTTP/1.1\r\n{KEY_LINE}{SECRET}\r\n\r\n".encode(),
    "two lengths": f"{START}{KEY_LINE}Content-Length: 3\r\nContent-Length: 4\r\n\r\n".encode(),
    "a bad length": f"{START}{KEY_LINE}Content-Length: {SECRET}\r\n\r\n".encode(),
    "a bad version": f"POST /v1/messages HTTP/{SECRET}\r\nHost: x\r\nx-api-key: {SECRET}\r\n\r\n".encode(),
    "a request that breaks off": f"{START}{KEY_LINE}Content-Length: 10\r\n\r\nabc".encode(),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_secret_of_a_broken_request(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """The words in which the proxy refuses it quote nothing."""
    caplog.set_level(logging.WARNING)  # what a quiet mitmdump, and so collect's, says
    async with upstream(accept) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        await client.send_raw(BROKEN[kind])
        await asyncio.sleep(0.05)
        client.close()
    assert leaks(proxy.attempt, [SECRET]) == []
    assert SECRET not in caplog.text


async def test_a_secret_of_a_request_that_cannot_be_delivered(tmp_path: Path) -> None:
    """Nor do the words about an upstream that is not there."""
    async with running_proxy(tmp_path / "a", reverse(9)) as proxy:
        reply = await call(proxy.port, REQUEST, target=f"/v1/messages?key={quote(SECRET, safe='')}", headers=KEY)
    assert reply.status == 502
    assert proxy.one("failure")["unreachable"] is True
    assert leaks(tmp_path / "a", [SECRET]) == []


async def test_a_secret_of_a_tunnel(tmp_path: Path) -> None:
    """A regular proxy gets its own credential with CONNECT."""
    async with running_proxy(tmp_path / "a", "regular@127.0.0.1:0") as proxy:
        client = await Client.connect(proxy.port)
        await client.send_raw(
            f"CONNECT model.invalid:443 HTTP/1.1\r\nProxy-Authorization: Basic {BASIC}\r\n\r\n".encode()
        )
        await asyncio.sleep(0.05)
        client.close()
    assert leaks(tmp_path / "a", [SECRET]) == []


async def test_more_secrets_than_can_be_looked_for(tmp_path: Path) -> None:
    """Then nothing is told apart: no header value is stored, no part of an error, and the traffic is not held up."""
    cookies = ";".join(f"name{number}={canary(number)}-{number}" for number in range(20_000))
    target = "/v1/messages?" + "&".join(f"token{number}=secret-{number:06d}" for number in range(1000))
    async with upstream(accept) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        client = await Client.connect(proxy.port)
        async with asyncio.timeout(20):
            await client.send("POST", target, {"Cookie": cookies, "User-Agent": canary(7)}, REQUEST)
            await client.read()
        client.close()
    assert leaks(tmp_path / "a", [canary(7)]) == []
    assert set(dict(proxy.one("request_headers")["headers"])["user-agent"]) == {"*"}
