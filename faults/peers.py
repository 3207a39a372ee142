"""Services and clients that misbehave, each beside calls that go well."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from faults.ground import Ground, RunningProxy, within
from faults.talks import TARGETS, Play, Talk, new_talk
from faults.verdict import Expected
from tests.support.upstream import Client, Exchange, head, reset

_UPSTREAM: Final = "upstream misbehaves"
_CLIENT: Final = "client leaves"
_PATIENCE: Final = 0.3
"""Seconds until a client gives up an answer that does not come."""

_ERROR: Final = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'


async def run_upstreams(ground: Ground) -> None:
    """Every behaviour, twice."""
    faults: list[Callable[[], Awaitable[None]]] = []
    for name, play in _PLAYS.items():
        faults += [functools.partial(_upstream, ground, name, play, number) for number in range(ground.count(2))]
    faults += [functools.partial(_early, ground, name, size) for name, size in _EARLY.items()]
    await ground.together(faults)


async def run_clients(ground: Ground) -> None:
    """Every stage, by FIN and by RST."""
    faults: list[Callable[[], Awaitable[None]]] = []
    for stage, leave in _STAGES.items():
        for hard in (False, True):
            faults += [
                functools.partial(_client, ground, stage, leave, number, hard=hard) for number in range(ground.count(2))
            ]
    await ground.together(faults)


async def _upstream(ground: Ground, name: str, play: Play, number: int) -> None:
    chance = ground.chance(name, number)
    folder = ground.folder("upstream")
    before, beside, after = (new_talk(chance) for _ in range(3))
    victim = new_talk(chance, stream=True)
    victim.play_instead, victim.odd = play, True
    if name in _CODED:
        victim.coding = "gzip"
    ground.service.expect(before, beside, after, victim)
    async with ground.proxy(folder) as proxy:
        await before.ask(proxy.port)
        with contextlib.suppress(TimeoutError):
            await asyncio.gather(_impatient(victim, proxy.port), beside.ask(proxy.port))
        victim.go_on.set()
        await after.ask(proxy.port)
        await proxy.end()
    await _enter(ground, _UPSTREAM, name, proxy, [before, beside, victim, after])


async def _impatient(talk: Talk, port: int) -> None:
    client = await Client.connect(port)
    with contextlib.suppress(OSError):
        await client.send("POST", TARGETS[talk.protocol], talk.headers, talk.request)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.read(), _PATIENCE if talk.play_instead in _HANGING else 30)
    talk.note(client)
    client.close()


async def _enter(ground: Ground, kind: str, place: str, proxy: RunningProxy, talks: list[Talk]) -> None:
    verdict = await ground.conclude(proxy.order.attempt, talks, Expected())
    if printed := proxy.child.printed():
        verdict.problems.append(f"it printed {printed[-400:]!r}")
    healthy = [talk for talk in talks if not talk.odd]
    verdict.problems += [f"{talk.mark}: a call beside it was disturbed" for talk in healthy if not talk.whole]
    ground.ledger.enter(kind, place, verdict, proxy.order.attempt)


# --- what services do ---


async def _hang(exchange: Exchange, talk: Talk) -> None:
    del exchange
    await talk.go_on.wait()


async def _hang_midway(exchange: Exchange, talk: Talk) -> None:
    await _half(exchange, talk)
    await talk.go_on.wait()


async def _half(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers=talk.answer_headers)
    for piece in talk.pieces[: len(talk.pieces) // 2]:
        await exchange.chunk(piece)


async def _reset_at_once(exchange: Exchange, _: Talk) -> None:
    exchange.reset()


async def _close_at_once(exchange: Exchange, _: Talk) -> None:
    exchange.cut()


async def _reset_midway(exchange: Exchange, talk: Talk) -> None:
    await _half(exchange, talk)
    await asyncio.sleep(0.02)
    exchange.reset()


async def _close_midway(exchange: Exchange, talk: Talk) -> None:
    await _half(exchange, talk)
    exchange.cut()


async def _close_before_the_end(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers=talk.answer_headers)
    await exchange.chunk(talk.answer)
    exchange.cut()


def _raw(*parts: bytes, close: bool = True) -> Play:
    async def play(exchange: Exchange, _: Talk) -> None:
        for part in parts:
            await exchange.send(part)
            await asyncio.sleep(0.005)
        if close:
            exchange.cut()

    return play


def _lying(difference: int) -> Play:
    """A content length that is off by so many bytes."""

    async def play(exchange: Exchange, talk: Talk) -> None:
        fields = {**talk.answer_headers, "Content-Length": str(len(talk.answer) + difference)}
        await exchange.send(head(200, fields) + talk.answer)
        exchange.cut()

    return play


async def _bad_chunk(exchange: Exchange, talk: Talk) -> None:
    await _half(exchange, talk)
    await exchange.send(b"zz\r\nnot a chunk\r\n")
    exchange.cut()


async def _short_chunk(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers=talk.answer_headers)
    await exchange.send(b"ffff\r\n" + talk.answer[:100])
    exchange.cut()


async def _both_lengths(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers={**talk.answer_headers, "Content-Length": "10"})
    await exchange.chunk(talk.answer)
    await exchange.end_stream()


async def _endless_headers(exchange: Exchange, _: Talk) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    with contextlib.suppress(ConnectionError):
        for number in range(20_000):
            await exchange.send(b"x-header-%d: %s\r\n" % (number, b"y" * 500))
    exchange.cut()


async def _dribble(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers=talk.answer_headers)
    for position in range(len(talk.answer)):
        await exchange.chunk(talk.answer[position : position + 1])
    await exchange.end_stream()


async def _huge_chunk(exchange: Exchange, talk: Talk) -> None:
    await exchange.start_stream(headers=talk.answer_headers)
    await exchange.chunk(b": " + b"z" * (4 << 20) + b"\n\n")
    await exchange.chunk(talk.answer)
    await exchange.end_stream()


async def _twice(exchange: Exchange, talk: Talk) -> None:
    whole = head(200, {**talk.answer_headers, "Content-Length": str(len(talk.answer))}) + talk.answer
    await exchange.send(whole + whole)
    exchange.cut()


async def _interim_first(exchange: Exchange, talk: Talk) -> None:
    await exchange.send(head(103, {"Link": "</x>"}))
    await exchange.answer(talk.answer, headers=talk.answer_headers)


def _answer(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Play:
    async def play(exchange: Exchange, _: Talk) -> None:
        await exchange.answer(body, status=status, headers={"Content-Type": kind, **headers})

    return play


_PLAYS: Final[Mapping[str, Play]] = {
    "hangs": _hang,
    "hangs in mid-stream": _hang_midway,
    "resets before its answer": _reset_at_once,
    "closes before its answer": _close_at_once,
    "resets in mid-stream": _reset_midway,
    "closes in mid-stream": _close_midway,
    "closes between last event and end": _close_before_the_end,
    "sends garbage": _raw(bytes(range(256)) * 20),
    "sends half a status line": _raw(b"HTTP/1.1 20"),
    "sends half of its headers": _raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/ev", b"ent-str"),
    "sends an odd status": _raw(b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}"),
    "sends a header without a colon": _raw(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n{}"),
    "claims a length that is negative": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "claims a length that is too long": _lying(50),
    "claims a length that is too short": _lying(-50),
    "claims both kinds of length": _both_lengths,
    "sends a chunk that is none": _bad_chunk,
    "sends half of a chunk": _short_chunk,
    "sends endless headers": _endless_headers,
    "sends byte by byte": _dribble,
    "sends a chunk of 4 MiB": _huge_chunk,
    "answers twice": _twice,
    "sends an interim answer first": _interim_first,
    "says gzip and is plain": _answer(200, b'{"id": "x"}', **{"Content-Encoding": "gzip"}),
    "says gzip and is garbage": _answer(200, bytes(range(1, 250)), **{"Content-Encoding": "gzip"}),
    "answers 500": _answer(500, _ERROR),
    "answers 429 without a body": _answer(429, b""),
    "answers 200 without a body": _answer(200, b""),
    "answers 204": _raw(b"HTTP/1.1 204 No Content\r\n\r\n", close=False),
    "answers 200 with HTML": _answer(200, b"<html>Bad gateway</html>", "text/html"),
}
_HANGING: Final = (_hang, _hang_midway, _PLAYS["answers 204"])
_CODED: Final = ("says gzip and is plain", "says gzip and is garbage")

_EARLY: Final = {
    "answers before the body is read": 200_000,
    "answers a streamed request before it is read": 34 * 1024 * 1024,
}
"""Bytes of the request: above 32 MiB the proxy streams it."""


async def _early(ground: Ground, name: str, size: int) -> None:
    """The answer is sent when the head of the request is there, and the connection is closed."""
    chance = ground.chance(name)
    folder = ground.folder("early")
    talk = new_talk(chance, stream=True)
    talk.odd = True
    talk.request = talk.request[:-1] + b', "padding": "' + b"p" * size + b'"}'
    seen = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head(413, {"Content-Type": "application/json", "Content-Length": str(len(_ERROR))}) + _ERROR)
            await writer.drain()
            seen.set()
            await asyncio.sleep(0.1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, family=socket.AF_INET)
    port = server.sockets[0].getsockname()[1]
    async with ground.proxy(folder, upstream_port=port) as proxy:
        asking = asyncio.create_task(talk.ask(proxy.port))
        await within(seen, asking)
        await asking
        await proxy.end()
    server.close()
    await _enter(ground, _UPSTREAM, name, proxy, [talk])


# --- when clients leave ---

Leave = Callable[[Client, Talk], Awaitable[None]]


async def _client(ground: Ground, stage: str, leave: Leave, number: int, *, hard: bool) -> None:
    chance = ground.chance(stage, number, hard)
    folder = ground.folder("client")
    before, beside = new_talk(chance), new_talk(chance, words=300)
    victim = new_talk(chance, stream=True)
    victim.odd = True
    ground.service.expect(before, beside, victim)
    async with ground.proxy(folder) as proxy:
        await before.ask(proxy.port)
        others = asyncio.create_task(beside.ask(proxy.port))
        client = await Client.connect(proxy.port)
        await leave(client, victim)
        victim.note(client)
        if hard:
            reset(client.writer)
        else:
            client.close()
        await others
        victim.go_on.set()
        await asyncio.sleep(0.05)
        await proxy.end()
    await _enter(ground, _CLIENT, f"{stage}, by {'RST' if hard else 'FIN'}", proxy, [before, beside, victim])


async def _after_connecting(client: Client, _: Talk) -> None:
    del client


async def _in_its_headers(client: Client, talk: Talk) -> None:
    await client.send_raw(f"POST {TARGETS[talk.protocol]} HTTP/1.1\r\nHost: model.te".encode())


async def _before_its_body(client: Client, talk: Talk) -> None:
    await client.send_head("POST", TARGETS[talk.protocol], talk.headers, len(talk.request))
    await asyncio.sleep(0.02)


async def _in_its_body(client: Client, talk: Talk) -> None:
    await _before_its_body(client, talk)
    await client.send_raw(talk.request[: len(talk.request) // 2])
    await asyncio.sleep(0.02)


def _held_at(place: Callable[[Talk], int]) -> Leave:
    async def leave(client: Client, talk: Talk) -> None:
        talk.hold_at = place(talk)
        await client.send("POST", TARGETS[talk.protocol], talk.headers, talk.request)
        await within(talk.held)
        expected = sum(map(len, talk.pieces[: max(0, talk.hold_at)]))
        if expected:
            await client.read_until(lambda reply: len(reply.body) >= expected)

    return leave


async def _after_the_end(client: Client, talk: Talk) -> None:
    await client.send("POST", TARGETS[talk.protocol], talk.headers, talk.request)
    await client.read()


_STAGES: Final[Mapping[str, Leave]] = {
    "after connecting": _after_connecting,
    "in its headers": _in_its_headers,
    "before its body": _before_its_body,
    "in its body": _in_its_body,
    "before the answer": _held_at(lambda _: -1),
    "behind the head of the answer": _held_at(lambda _: 0),
    "in mid-stream": _held_at(lambda talk: len(talk.pieces) // 2),
    "after the terminal event": _held_at(lambda talk: len(talk.pieces)),
    "after the end": _after_the_end,
}
