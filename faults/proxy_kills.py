"""The proxy is killed: at every stage of a call, while streams run, and between an answer's last byte and its end mark.

Where a kill struck is told by what is on the disk afterwards, not by what was meant.
"""

import asyncio
import functools
import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from faults.failpoints import Moment, Strike
from faults.ground import AT_ONCE, Ground, RunningProxy, within
from faults.talks import TARGETS, Talk, new_talk
from faults.verdict import Expected
from tests.support.upstream import Client

KIND: Final = "proxy gets SIGKILL"
MID_STREAM: Final = "mid-stream"
BODY_TO_END: Final = "between body and end event"
_LEAST: Final = {MID_STREAM: 62, BODY_TO_END: 32}
"""Kills of the proxy that a full run has at least at these places."""

_HELD: Final = 56
_TOP_UP_FROM: Final = 1000
"""Numbers from here on are of those that top up."""

_MOST_ROUNDS: Final = 20
_KILLED: Final = Expected(reasons=frozenset({"recorder_not_closed"}))

_FAILPOINTS: Final = (
    ("write response", Moment.BEFORE, 14),
    ("write response", Moment.TORN, 10),
    ("fsync work/bodies/*.response", Moment.BEFORE, 2),
    ("write response", Moment.AFTER, 6),
    ("open work/bodies/*.response", Moment.BEFORE, 2),
    ("open work/bodies/*.response", Moment.AFTER, 2),
    ("write response_headers", Moment.TORN, 3),
    ("write request_headers", Moment.BEFORE, 2),
    ("write request_headers", Moment.TORN, 3),
    ("open work/bodies/*.request", Moment.AFTER, 2),
    ("write work/bodies/*.request", Moment.TORN, 3),
    ("write request", Moment.BEFORE, 2),
    ("write request", Moment.TORN, 3),
    ("write failure", Moment.BEFORE, 3),
    ("write failure", Moment.TORN, 3),
)
"""Calls of the recorder at which it is killed, and how often."""


async def run(ground: Ground) -> None:
    """All of them."""
    faults = [functools.partial(_held, ground, number) for number in range(ground.count(_HELD))]
    faults += [functools.partial(_racing, ground, number) for number in range(ground.count(46))]
    faults += [functools.partial(_uploading, ground, number) for number in range(ground.count(6))]
    for site, moment, times in _FAILPOINTS:
        faults += [
            functools.partial(_at_failpoint, ground, site, moment, number) for number in range(ground.count(times))
        ]
    await ground.together(faults)
    await _top_up(ground)


async def _top_up(ground: Ground) -> None:
    """Where the kills have struck is chance: these places get what they lack."""
    for place, least in _LEAST.items():
        wanted = ground.count(least)
        rounds = 0
        while ground.ledger.count(KIND, place) < wanted and rounds < _MOST_ROUNDS:
            first = _TOP_UP_FROM + rounds * AT_ONCE
            more = [functools.partial(_held, ground, first + one, place) for one in range(AT_ONCE)]
            await ground.together(more)
            rounds += 1


async def _held(ground: Ground, number: int, place: str | None = None) -> None:
    """With one to four answers waiting at chosen places, or all of them at this one, behind calls that have ended."""
    chance = ground.chance("held", number)
    folder = ground.folder("held")
    done = [new_talk(chance) for _ in range(chance.randrange(3))]
    open_ones = [new_talk(chance) for _ in range(chance.randint(1, 4))]
    for talk in open_ones:
        # -1: before the head of the answer; 0: behind it; the last: the body is whole and not ended.
        anywhere = (-1, 0, len(talk.pieces), *range(1, len(talk.pieces)))
        places = {MID_STREAM: range(1, len(talk.pieces)), BODY_TO_END: (len(talk.pieces),)}.get(place or "", anywhere)
        talk.hold_at = chance.choice(places)
    ground.service.expect(*done, *open_ones)
    async with ground.proxy(folder) as proxy:
        for talk in done:
            await talk.ask(proxy.port)
        asking = [asyncio.create_task(talk.ask(proxy.port)) for talk in open_ones]
        for talk, task in zip(open_ones, asking, strict=True):
            await within(talk.held, task)
        await asyncio.sleep(0.01 + chance.random() * 0.02)
        await proxy.end(signal.SIGKILL)
        for talk in open_ones:
            talk.go_on.set()
        await asyncio.gather(*asking)
    await _enter(ground, proxy, [*done, *open_ones], f"held {number}")


async def _racing(ground: Ground, number: int) -> None:
    """At a random moment of streams at full speed, soon after one of them has begun."""
    chance = ground.chance("racing", number)
    folder = ground.folder("racing")
    talks = [new_talk(chance, words=chance.choice((1500, 4000))) for _ in range(chance.randint(2, 5))]
    ground.service.expect(*talks)
    async with ground.proxy(folder) as proxy:
        asking = [asyncio.create_task(talk.ask(proxy.port)) for talk in talks]
        sending = [asyncio.create_task(talk.begun.wait()) for talk in talks]
        await asyncio.wait([*sending, *asking], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.005 + chance.random() * 0.04)
        await proxy.end(signal.SIGKILL)
        await asyncio.gather(*asking)
        for task in sending:
            task.cancel()
    await _enter(ground, proxy, talks, f"racing {number}")


async def _uploading(ground: Ground, number: int) -> None:
    """While a client sends its request."""
    chance = ground.chance("uploading", number)
    folder = ground.folder("uploading")
    done, talk = new_talk(chance), new_talk(chance)
    ground.service.expect(done, talk)
    async with ground.proxy(folder) as proxy:
        await done.ask(proxy.port)
        client = await Client.connect(proxy.port)
        await client.send_head("POST", TARGETS[talk.protocol], talk.headers, len(talk.request))
        await client.send_raw(talk.request[: chance.randrange(len(talk.request))])
        await asyncio.sleep(0.02)
        await proxy.end(signal.SIGKILL)
        await client.read()
        client.close()
    await _enter(ground, proxy, [done, talk], f"uploading {number}")


async def _at_failpoint(ground: Ground, site: str, moment: Moment, number: int) -> None:
    """By its own hand, at one of its file system calls."""
    chance = ground.chance(site, moment, number)
    folder = ground.folder("failpoint")
    talks = [new_talk(chance) for _ in range(chance.randint(2, 4))]
    ground.service.expect(*talks)
    strike = Strike(site, chance.randint(1, len(talks)), moment)
    async with ground.proxy(folder, strike=strike) as proxy:
        leaving = "failure" in site
        if leaving:
            await _ask_and_leave(proxy, talks, chance)
        else:
            await asyncio.gather(*(talk.ask(proxy.port) for talk in talks))
        if await _dead(proxy):
            await _enter(ground, proxy, talks, f"{site} {moment} {number}")
        # Else nothing of this kind was written so often: no kill, so nothing to enter.


async def _ask_and_leave(proxy: RunningProxy, talks: list[Talk], chance: random.Random) -> None:
    """Clients that leave in mid-stream."""
    for talk in talks:
        talk.hold_at = chance.randrange(1, len(talk.pieces))
        try:
            client = await Client.connect(proxy.port)
            await client.send("POST", TARGETS[talk.protocol], talk.headers, talk.request)
            await client.read_until(lambda reply: bool(reply.body))
            talk.note(client)
            client.close()
        except OSError:
            pass
        talk.go_on.set()
        await asyncio.sleep(0.02)


async def _dead(proxy: RunningProxy) -> bool:
    for _ in range(100):
        if proxy.child.exit_code is not None:
            return True
        await asyncio.sleep(0.01)
    return False


async def _enter(ground: Ground, proxy: RunningProxy, talks: list[Talk], where: str) -> None:
    attempt = proxy.order.attempt
    place = struck_at(attempt, talks)
    verdict = await ground.conclude(attempt, talks, _KILLED)
    if printed := proxy.child.printed():
        verdict.problems.append(f"it printed {printed[:200]!r}")
    ground.ledger.enter(KIND, place, verdict, f"{where}: {attempt}")


def struck_at(attempt: Path, talks: list[Talk]) -> str:
    """How far the open call that had come farthest was, by the files alone."""
    stages = list(_stages(attempt, talks))
    order = (MID_STREAM, BODY_TO_END, "answer begun", "waiting for the answer", "request being stored")
    return next((stage for stage in order if stage in stages), "no call open")


def _stages(attempt: Path, talks: list[Talk]) -> Iterator[str]:
    work = attempt / "work"
    by_flow: dict[str, set[str]] = {}
    sequences: dict[str, int] = {}
    for line in (work / "events.jsonl").read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("flow"):
            by_flow.setdefault(event["flow"], set()).add(event["type"])
            sequences[event["flow"]] = event.get("sequence", sequences.get(event["flow"], 0))
    for flow, kinds in by_flow.items():
        if kinds & {"response", "failure"}:
            continue
        stored = _bytes(work / "bodies" / f"{sequences[flow]:06d}.response")
        asked = _bytes(work / "bodies" / f"{sequences[flow]:06d}.request")
        talk = next((talk for talk in talks if talk.request == asked), None)
        if talk is not None and stored and stored == talk.answer:
            yield BODY_TO_END
        elif stored:
            yield MID_STREAM
        elif "response_headers" in kinds:
            yield "answer begun"
        elif "request" in kinds:
            yield "waiting for the answer"
        else:
            yield "request being stored"


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
