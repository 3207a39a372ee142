"""`collect` with a fake harness: the harness, its proxy, `collect` itself or all of them are killed or told to stop.

Then `--resume` goes on with the run: what was left is published, and the sample is run again where it has to be.
"""

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import random
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from faults.disk_faults import may_mount, remount, tmpfs
from faults.ground import Ground, within
from faults.talks import Talk, new_talk
from faults.verdict import Expected, Verdict, look_at
from roller_capture.collect.request import CollectRequest
from roller_capture.publication import MANIFEST, STAGING_PREFIX
from roller_capture.runs.check import check_run
from roller_capture.vocabulary import DebugRetention, Protocol
from tests.support.collecting import alive, collecting, fake_claude

_HARNESS: Final = "harness"
_PROXY: Final = "proxy of collect"
_COLLECT: Final = "collect"
_EVERYTHING: Final = "everything at once"
_BEFORE: Final = "before the answer"
_MIDWAY: Final = "in mid-answer"
_BETWEEN: Final = "between calls"
_FINISHING: Final = "while it finishes"

_CASES: Final = (
    *((_HARNESS, stage, signal.SIGKILL, 2) for stage in (_BEFORE, _MIDWAY, _BETWEEN)),
    *((_PROXY, stage, signal.SIGKILL, 2) for stage in (_MIDWAY, _BETWEEN)),
    *((_COLLECT, stage, signal.SIGKILL, 2) for stage in (_BEFORE, _MIDWAY, _BETWEEN)),
    (_COLLECT, _FINISHING, signal.SIGKILL, 5),
    *((_EVERYTHING, stage, signal.SIGKILL, 1) for stage in (_MIDWAY, _BETWEEN)),
    *((victim, _MIDWAY, signal.SIGTERM, 1) for victim in (_HARNESS, _PROXY)),
    *((_COLLECT, stage, signal.SIGTERM, 1) for stage in (_BEFORE, _MIDWAY, _BETWEEN)),
    (_COLLECT, _MIDWAY, signal.SIGINT, 1),
    *((_EVERYTHING, stage, signal.SIGTERM, 1) for stage in (_MIDWAY, _BETWEEN)),
)
"""Who, when, how, and how often."""

_LOOK_EVERY: Final = 0.01
_LONGEST: Final = 120.0
_TINY: Final = 320
_ROOM: Final = 64 * 1024
"""KiB."""


async def run(ground: Ground) -> None:
    """All of them."""
    faults: list[Callable[[], Awaitable[None]]] = [
        functools.partial(_struck, ground, victim, stage, number, one)
        for victim, stage, number, times in _CASES
        for one in range(ground.count(times))
    ]
    if may_mount(ground):
        faults += [functools.partial(_no_room, ground, one) for one in range(ground.count(2))]
    await ground.together(faults)


class _Rig:
    """One run directory with one sample of two turns: the first ends well, the second one meets the fault."""

    def __init__(self, ground: Ground, folder: Path, chance: random.Random, stage: str) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        (folder / "workdir").mkdir()
        self.first, self.second = (_plain_talk(chance) for _ in range(2))
        if stage == _BEFORE:
            self.second.hold_at = -1
        elif stage == _MIDWAY:
            self.second.hold_at = chance.randrange(1, len(self.second.pieces))
        word = " HANG-ONCE" if stage == _BETWEEN else ""
        ground.service.expect(self.first, self.second)
        self.request = CollectRequest(
            harness="claude-code",
            run_dir=folder / "run",
            prompts=(f"{self.first.mark}: go", f"{self.second.mark}: go on{word}"),
            api_base=f"http://127.0.0.1:{ground.service.port}",
            capture_calls=True,
            harness_bin=fake_claude(folder / "bin"),
            workdir=folder / "workdir",
            capture_debug=DebugRetention.FULL,
        )
        self.process: subprocess.Popen[str] | None = None
        self.talks: list[Talk] = []

    @property
    def attempt(self) -> Path:
        """The one that meets the fault."""
        return self.folder / "run" / "samples" / "sample-0001" / "capture" / "attempt-0001"

    def start(self, *, resume: bool = False) -> "subprocess.Popen[str]":
        """Starts `collect`."""
        variables = {"ANTHROPIC_API_KEY": "sk-real-key-canary-0123456789", "TMPDIR": str(self.folder / "tmp")}
        self.process = collecting(dataclasses.replace(self.request, resume=resume), environment=variables)
        return self.process

    async def reached(self, stage: str) -> None:
        """Waits until the run has come so far."""
        if stage in (_BEFORE, _MIDWAY):
            await within(self.second.held)
            await asyncio.sleep(0.03)
        elif stage == _BETWEEN:
            await self._until((self.folder / "workdir" / "hanging").exists)
        else:
            await self._until(lambda: b'"closed":true' in _read(self.attempt / "work" / "attempt.json"))

    async def _until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(_LONGEST):
            process = self.process
            while not true() and process is not None and process.poll() is None:  # noqa: ASYNC110 - nor has a file
                await asyncio.sleep(_LOOK_EVERY)

    def pids(self, victim: str) -> list[int]:
        """Those to strike."""
        assert self.process is not None
        found = {_HARNESS: self.harness_pids()[-1:], _PROXY: self.proxy_pids(), _COLLECT: [self.process.pid]}
        return [pid for pids in found.values() for pid in pids] if victim == _EVERYTHING else found[victim]

    def note_truth(self) -> None:
        """When the first `collect` has ended: which calls it made, and which of them have ended. A turn begins when the
        one before it has its answer, and the harness hangs when it has its own."""
        done = [self.first] if self.second.asked else []
        done += [self.second] if (self.folder / "workdir" / "hanging").exists() else []
        for talk in done:
            talk.whole, talk.got, talk.status = True, talk.answer, 200
        self.talks = [talk for talk in (self.first, self.second) if talk.asked]

    def harness_pids(self) -> list[int]:
        """Of all turns, in their order."""
        started = sorted((self.folder / "workdir").glob("started-*.json"), key=os.path.getmtime)
        return [int(path.stem.removeprefix("started-")) for path in started]

    def proxy_pids(self) -> list[int]:
        """Of the attempt's recorders."""
        events = [json.loads(line) for line in _read(self.attempt / "work" / "events.jsonl").splitlines()]
        return [event["pid"] for event in events if event["type"] == "recorder_started"]


def _plain_talk(chance: random.Random) -> Talk:
    """What the fake harness understands."""
    talk = new_talk(chance, protocol=Protocol.ANTHROPIC_MESSAGES, stream=False, words=120)
    while talk.coding is not None:
        talk = new_talk(chance, protocol=Protocol.ANTHROPIC_MESSAGES, stream=False, words=120)
    talk.request = b""
    return talk


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


async def _struck(ground: Ground, victim: str, stage: str, number: signal.Signals, one: int) -> None:
    chance = ground.chance("collect", victim, stage, number, one)
    rig = _Rig(ground, ground.folder("collect"), chance, stage)
    process = rig.start()
    await rig.reached(stage)
    if stage == _FINISHING:
        await asyncio.sleep(chance.random() * 0.12)
    processes = rig.harness_pids() + rig.proxy_pids()
    for pid in rig.pids(victim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    _out, err = await asyncio.to_thread(process.communicate)
    rig.note_truth()
    rig.second.go_on.set()
    rig.second.hold_at = None
    verdict = Verdict()
    if "Traceback" in err:
        verdict.problems.append(f"a traceback: {err[err.index('Traceback') :][:1500]!r}")
    if victim in (_COLLECT, _EVERYTHING) and number is not signal.SIGKILL and process.returncode != 128 + number:
        verdict.problems.append(f"it ended with {process.returncode}: {err[-200:]!r}")
    place = stage if stage != _FINISHING else f"{stage} ({_came_to(rig.attempt)})"
    if (rig.attempt / MANIFEST).exists():
        verdict.problems += _problems_of_published(rig)
    await _resume(rig, verdict)
    verdict.problems += [f"process {pid} still runs" for pid in processes if alive(pid)]
    verdict.problems += [f"left over: {path}" for path in (rig.folder / "tmp").iterdir()]
    name = signal.Signals(number).name
    ground.ledger.enter(f"{victim} gets {name}", place, verdict, rig.folder)


def _came_to(attempt: Path) -> str:
    if not (attempt / MANIFEST).exists():
        return "nothing published yet"
    return "published" if _is_tidy(attempt) else "published, not tidied up"


def _is_tidy(attempt: Path) -> bool:
    """Neither the working files nor what they are called while they are removed."""
    return all(path.name != "work" and not path.name.startswith(STAGING_PREFIX) for path in attempt.iterdir())


def _problems_of_published(rig: _Rig) -> list[str]:
    """Before Resume has touched it: published at all means published whole."""
    early = Verdict()
    if _is_tidy(rig.attempt):
        look_at(rig.attempt, rig.talks, Expected(partial=False), early)
    return early.problems


async def _resume(rig: _Rig, verdict: Verdict) -> None:
    """Goes on with the run; afterwards every attempt is published, the books agree, and the newest one is completed."""
    process = rig.start(resume=True)
    _out, err = await asyncio.to_thread(process.communicate)
    if process.returncode != 0:
        verdict.problems.append(f"Resume ended with {process.returncode}: {err[-400:]!r}")
    report = await asyncio.to_thread(functools.partial(check_run, rig.request.run_dir, deep=True))
    (sample,) = report.samples
    verdict.problems += [f"run: {item.file}: {item.message}" for item in report.findings]
    verdict.problems += [f"run: {place}: {message}" for place, message in sample.problems()]
    if sample.attempts and sample.attempts[-1].manifest is not None:
        status = sample.attempts[-1].manifest["execution_status"]
        verdict.problems += [] if status == "completed" else [f"the sample is {status} at last"]
    if (rig.attempt / MANIFEST).exists():
        await asyncio.to_thread(look_at, rig.attempt, rig.talks, Expected(partial=False), verdict)
    elif rig.attempt.exists():
        verdict.problems.append("the attempt was not published")


async def _no_room(ground: Ground, one: int) -> None:
    """The run directory's disk is full; with room, Resume goes on."""
    chance = ground.chance("collect", "no room", one)
    folder = ground.folder("collect-full")
    with tmpfs(folder, _ROOM):
        rig = _Rig(ground, folder, chance, _FINISHING)
        taken = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1024
        remount(folder, f"size={taken + _TINY + one * 60}k")
        process = rig.start()
        _out, err = await asyncio.to_thread(process.communicate)
        rig.note_truth()
        verdict = Verdict()
        if "Traceback" in err or process.returncode not in (0, 1, 2):
            verdict.problems.append(f"it ended with {process.returncode}: {err[-400:]!r}")
        remount(folder, f"size={_ROOM}k")
        lossy = Expected(lossy=True, events_lost=True, partial=False)
        if rig.attempt.exists():
            await _resume_lossy(rig, lossy, verdict)
    ground.ledger.enter("disk full (tmpfs)", "under collect", verdict, folder)


async def _resume_lossy(rig: _Rig, lossy: Expected, verdict: Verdict) -> None:
    process = rig.start(resume=True)
    _out, err = await asyncio.to_thread(process.communicate)
    if process.returncode != 0:
        verdict.problems.append(f"Resume ended with {process.returncode}: {err[-400:]!r}")
    if (rig.attempt / MANIFEST).exists():
        await asyncio.to_thread(look_at, rig.attempt, rig.talks, lossy, verdict)
