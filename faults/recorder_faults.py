"""The recorder is told to stop, its clock is set back, and others work on its attempt before, beside and after it."""

import asyncio
import functools
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from faults.ground import Ground, RunningProxy, within
from faults.talks import Talk, new_talk
from faults.verdict import Expected, Verdict
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ENDS: Final = (
    (signal.SIGTERM, signal.SIGTERM),
    (signal.SIGKILL, signal.SIGTERM),
    (signal.SIGTERM, signal.SIGKILL),
    (signal.SIGKILL, signal.SIGKILL),
    (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM),
    (signal.SIGINT, signal.SIGTERM, signal.SIGKILL),
)


async def run_signals(ground: Ground) -> None:
    """Each with answers under way at any stage."""
    await ground.together(functools.partial(_signalled, ground, number) for number in range(ground.count(20)))


async def run_proxies_in_a_row(ground: Ground) -> None:
    """Two or three proxies on one attempt, ended in any way."""
    faults: list[Callable[[], Awaitable[None]]] = [
        functools.partial(_in_a_row, ground, ends, number) for ends in _ENDS for number in range(ground.count(2))
    ]
    faults += [functools.partial(_at_the_same_time, ground, number) for number in range(ground.count(3))]
    await ground.together(faults)


async def run_clocks(ground: Ground) -> None:
    """The wall clock jumps back, by a second to years, at any moment."""
    await ground.together(functools.partial(_clock, ground, number) for number in range(ground.count(12)))


async def _open_talks(ground: Ground, proxy: RunningProxy, talks: list[Talk]) -> list[asyncio.Task[None]]:
    ground.service.expect(*talks)
    asking = [asyncio.create_task(talk.ask(proxy.port)) for talk in talks]
    for talk, task in zip(talks, asking, strict=True):
        if talk.hold_at is not None:
            await within(talk.held, task)
    return asking


async def _signalled(ground: Ground, number: int) -> None:
    chance = ground.chance("signal", number)
    folder = ground.folder("signalled")
    done, talks = new_talk(chance), [new_talk(chance) for _ in range(3)]
    for talk in talks:
        talk.hold_at = chance.choice((-1, 0, len(talk.pieces), *range(1, len(talk.pieces))))
    ground.service.expect(done)
    name = _SIGNALS[number % len(_SIGNALS)]
    async with ground.proxy(folder) as proxy:
        await done.ask(proxy.port)
        asking = await _open_talks(ground, proxy, talks)
        code = await proxy.end(name)
        for talk in talks:
            talk.go_on.set()
        await asyncio.gather(*asking)
    # Nobody handles SIGHUP: it is a kill.
    killed = name is signal.SIGHUP
    reasons = frozenset({"recorder_not_closed"} if killed else {"call_incomplete"})
    if all(talk.hold_at == len(talk.pieces) for talk in talks):
        reasons -= {"call_incomplete"}
    verdict = await ground.conclude(proxy.order.attempt, [done, *talks], Expected(reasons=reasons))
    if not killed and code != 0:
        verdict.problems.append(f"it ended with {code}")
    if not killed and "recorder_not_closed" in verdict.named:
        verdict.problems.append("it was told to stop, and did not close")
    _printed(proxy, verdict)
    ground.ledger.enter(f"proxy gets {name.name}", "answers under way", verdict, proxy.order.attempt)


def _printed(proxy: RunningProxy, verdict: Verdict) -> None:
    if printed := proxy.child.printed():
        verdict.problems.append(f"it printed {printed[-400:]!r}")


async def _in_a_row(ground: Ground, ends: tuple[signal.Signals, ...], number: int) -> None:
    chance = ground.chance("row", ends, number)
    folder = ground.folder("row")
    talks: list[Talk] = []
    for end in ends:
        done, held = new_talk(chance), new_talk(chance)
        held.hold_at = chance.choice((-1, 0, *range(1, len(held.pieces))))
        ground.service.expect(done)
        async with ground.proxy(folder) as proxy:
            await done.ask(proxy.port)
            asking = await _open_talks(ground, proxy, [held])
            await proxy.end(end)
            held.go_on.set()
            await asyncio.gather(*asking)
        talks += [done, held]
    last_killed = ends[-1] is signal.SIGKILL
    expected = Expected(reasons=frozenset({"recorder_not_closed"} if last_killed else {"call_incomplete"}))
    verdict = await ground.conclude(folder / "attempt", talks, expected)
    _printed(proxy, verdict)
    names = " then ".join(end.name.removeprefix("SIG") for end in ends)
    ground.ledger.enter("proxies in a row", names, verdict, folder)


async def _at_the_same_time(ground: Ground, number: int) -> None:
    """A second proxy, and a finalizer, are refused in one line while the first one records; it is not disturbed."""
    chance = ground.chance("same time", number)
    folder = ground.folder("same-time")
    held, after = new_talk(chance), new_talk(chance)
    held.hold_at = len(held.pieces) // 2
    refusals = []
    async with ground.proxy(folder) as proxy:
        asking = await _open_talks(ground, proxy, [held])
        second = RunningProxy(proxy.order, folder / "printed-second")
        try:
            await second.start()
        except RollerError as error:
            refusals.append(str(error))
        try:
            await asyncio.to_thread(finalize_attempt, proxy.order.attempt, FinalizeRequest())
        except RollerError as error:
            refusals.append(str(error))
        held.go_on.set()
        await asyncio.gather(*asking)
        ground.service.expect(after)
        await after.ask(proxy.port)
        await proxy.end()
    verdict = await ground.conclude(proxy.order.attempt, [held, after])
    if len(refusals) != 2 or not all("in use by a recorder" in text and "\n" not in text for text in refusals):
        verdict.problems.append(f"not refused in one line: {refusals}")
    if not held.whole or not after.whole:
        verdict.problems.append("the first proxy was disturbed")
    _printed(proxy, verdict)
    verdict.named["in use by a recorder"] += len(refusals)
    ground.ledger.enter("proxies at the same time", "second proxy and finalizer", verdict, folder)


async def _clock(ground: Ground, number: int) -> None:
    chance = ground.chance("clock", number)
    folder = ground.folder("clock")
    back = chance.choice((1.0, 3600.0, 86400.0 * 400, 1e9, 3e9))
    talks = [new_talk(chance) for _ in range(6)]
    ground.service.expect(*talks)
    async with ground.proxy(folder, clock_back=back, clock_after=chance.randrange(40)) as proxy:
        for talk in talks[:3]:
            await talk.ask(proxy.port)
        await asyncio.gather(*(talk.ask(proxy.port) for talk in talks[3:]))
        await proxy.end(chance.choice((signal.SIGTERM, signal.SIGKILL)))
    verdict = await ground.conclude(proxy.order.attempt, talks)
    verdict.problems += [f"{talk.mark}: the call was disturbed" for talk in talks if not talk.whole]
    _printed(proxy, verdict)
    ground.ledger.enter("clock set back", "while it records", verdict, f"{back} {proxy.order.attempt}")
