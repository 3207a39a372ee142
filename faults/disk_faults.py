"""Full, read-only and failing disks, under the recorder and under the finalizer.

Where this may mount, the disk is a small tmpfs. A limit on file sizes (`RLIMIT_FSIZE`) and writes that fail by a
wrapped `os.write` need no rights.
"""

import asyncio
import contextlib
import functools
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from faults.failpoints import DISK_FAULTS, Strike
from faults.ground import Ground, RunningProxy
from faults.talks import Talk, new_talk
from faults.verdict import Expected, Verdict, look_at, refusal
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import finalize_attempt

_LOSSY: Final = Expected(lossy=True, events_lost=True)
_RECORDER_SIZES: Final = (280, 320, 400, 500, 700, 1000, 1400, 2000)
_FINALIZER_ROOM: Final = (0, 4, 8, 16, 32, 64, 128, 256)
_ROOM: Final = 64 * 1024
"""All in KiB."""

_FILE_LIMITS: Final = (2_000, 8_000, 20_000, 60_000)


async def run(ground: Ground) -> None:
    """All of them."""
    async with ground.proxy(ground.folder("certificates")):
        pass  # mitmproxy makes its own on first use, which no limit is to meet
    faults: list[Callable[[], Awaitable[None]]] = [
        functools.partial(_limited, ground, limit) for limit in _FILE_LIMITS[: ground.count(len(_FILE_LIMITS))]
    ]
    for number in DISK_FAULTS:
        faults += [functools.partial(_failing, ground, number, nth) for nth in range(ground.count(4))]
    if may_mount(ground):
        faults += [functools.partial(_full_recorder, ground, size) for size in _RECORDER_SIZES]
        faults += [functools.partial(_full_finalizer, ground, room) for room in _FINALIZER_ROOM]
        faults += [functools.partial(_read_only, ground, number) for number in range(ground.count(2))]
    await ground.together(faults)


def may_mount(ground: Ground) -> bool:
    """Whether a tmpfs can be mounted; if not, that part is not run, and the tables say so by having no such rows."""
    folder = ground.folder("mount")
    try:
        with tmpfs(folder, 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def tmpfs(folder: Path, size: int) -> Iterator[None]:
    """A disk of so many KiB. Raises `subprocess.CalledProcessError` where that is not allowed."""
    _mount("-t", "tmpfs", "-o", f"size={size}k,mode=0700", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    """Changes it while it is in use."""
    _mount("-o", f"remount,{options}", str(folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, stderr=subprocess.DEVNULL)


def _many_talks(ground: Ground, *what: object, count: int = 12) -> list[Talk]:
    chance = ground.chance(*what)
    talks = [new_talk(chance, words=chance.choice((40, 400, 1500))) for _ in range(count)]
    ground.service.expect(*talks)
    return talks


async def _all_ask(proxy: RunningProxy, talks: list[Talk]) -> None:
    """Two at a time, so that one meets the trouble of the other."""
    for number in range(0, len(talks), 2):
        await asyncio.gather(*(talk.ask(proxy.port) for talk in talks[number : number + 2]))


def _undisturbed(talks: list[Talk], verdict: Verdict) -> None:
    """Whatever the disk does, the traffic goes on."""
    verdict.problems += [f"{talk.mark}: the traffic was disturbed" for talk in talks if talk.got != talk.answer]


async def _full_recorder(ground: Ground, size: int) -> None:
    folder = ground.folder("full")
    talks = _many_talks(ground, "full", size)
    with tmpfs(folder, size):
        async with ground.proxy(folder) as proxy:
            await _all_ask(proxy, talks)
            await proxy.end()
        verdict = await asyncio.to_thread(_with_and_without_room, folder, talks, _LOSSY)
    _undisturbed(talks, verdict)
    ground.ledger.enter("disk full (tmpfs)", "under the recorder", verdict, f"{size} KiB")


async def _full_finalizer(ground: Ground, room: int) -> None:
    """All is recorded; then there is so much room left."""
    folder = ground.folder("no-room")
    talks = _many_talks(ground, "no room", room)
    with tmpfs(folder, _ROOM):
        async with ground.proxy(folder) as proxy:
            await _all_ask(proxy, talks)
            await proxy.end()
        used = os.statvfs(folder)
        taken = (used.f_blocks - used.f_bfree) * used.f_frsize // 1024
        remount(folder, f"size={taken + room}k")
        verdict = await asyncio.to_thread(_with_and_without_room, folder, talks, Expected())
    _undisturbed(talks, verdict)
    ground.ledger.enter("disk full (tmpfs)", "under the finalizer", verdict, f"{room} KiB")


def _with_and_without_room(folder: Path, talks: list[Talk], expected: Expected) -> Verdict:
    """A first finalize on the full disk is refused in one line, or publishes; one with room publishes at the latest."""
    attempt = folder / "attempt"
    verdict = _refused_first(attempt, expected)
    remount(folder, f"size={_ROOM}k")
    return _at_last(attempt, talks, expected, verdict)


def _refused_first(attempt: Path, expected: Expected) -> Verdict:
    verdict = Verdict()
    try:
        finalize_attempt(attempt, expected.request)
        verdict.named["published at once"] += 1
    except RollerError as error:
        verdict.named[refusal(str(error))] += 1
        if "\n" in str(error) or error.exit_code != 1:
            verdict.problems.append(f"not one line with exit code 1: {error}")
        left = sorted(path.name for path in attempt.iterdir())
        if left != ["work"]:
            verdict.problems.append(f"a refused finalize left {left}")
    except Exception as error:  # noqa: BLE001 - a traceback is what is looked for
        verdict.problems.append(f"finalize raised {type(error).__name__}: {error}")
    return verdict


def _at_last(attempt: Path, talks: list[Talk], expected: Expected, verdict: Verdict) -> Verdict:
    try:
        finalize_attempt(attempt, expected.request)
        look_at(attempt, talks, expected, verdict)
    except RollerError as error:
        verdict.problems.append(f"with room it was refused: {error}")
    return verdict


async def _read_only(ground: Ground, number: int) -> None:
    """Neither recorder nor finalizer can write; each says so in one line, and afterwards everything goes on."""
    folder = ground.folder("read-only")
    talks = _many_talks(ground, "read-only", number, count=4)
    refusals = []
    with tmpfs(folder, _ROOM):
        remount(folder, "ro")
        try:
            async with ground.proxy(folder):
                pass
        except RollerError as error:
            refusals.append(str(error))
        remount(folder, "rw")
        (ground.directory / f"{folder.name}.printed").unlink()
        async with ground.proxy(folder) as proxy:
            await _all_ask(proxy, talks)
            await proxy.end()
        remount(folder, "ro")
        verdict = await asyncio.to_thread(_refused_first, proxy.order.attempt, Expected())
        remount(folder, "rw")
        verdict = await asyncio.to_thread(_at_last, proxy.order.attempt, talks, Expected(), verdict)
    if len(refusals) != 1 or refusals[0].count("\n"):
        verdict.problems.append(f"the recorder did not say it in one line: {refusals}")
    if "published at once" in verdict.named:
        verdict.problems.append("something was published on a read-only disk")
    ground.ledger.enter("disk read-only (tmpfs)", "recorder, then finalizer", verdict, folder)


async def _limited(ground: Ground, limit: int) -> None:
    folder = ground.folder("limited")
    talks = _many_talks(ground, "limit", limit)
    async with ground.proxy(folder, file_limit=limit) as proxy:
        await _all_ask(proxy, talks)
        await proxy.end()
    verdict = await ground.conclude(proxy.order.attempt, talks, _LOSSY)
    _undisturbed(talks, verdict)
    ground.ledger.enter("files limited (RLIMIT_FSIZE)", "under the recorder", verdict, f"{limit} bytes")


async def _failing(ground: Ground, number: int, nth: int) -> None:
    """From some write on none succeeds any more."""
    chance = ground.chance("failing", number, nth)
    folder = ground.folder("failing")
    talks = _many_talks(ground, "failing", number, nth)
    strike = Strike("write *", 3 + chance.randrange(200), number=number, fails=True)
    async with ground.proxy(folder, strike=strike) as proxy:
        await _all_ask(proxy, talks)
        await proxy.end()
    verdict = await ground.conclude(proxy.order.attempt, talks, _LOSSY)
    _undisturbed(talks, verdict)
    printed = proxy.child.printed()
    if printed.count("roller-capture: recording failed") != 1 or printed.count("\n") != 1:
        verdict.problems.append(f"it did not say so in one line: {printed[-400:]!r}")
    ground.ledger.enter("writes fail (wrapped)", f"recorder: {DISK_FAULTS[number]}", verdict, f"{strike} {folder}")
