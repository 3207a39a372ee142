"""The finalizer, or `prune`, is killed, interrupted or refused by the disk at each of its file system calls.

Afterwards the working files are as they were, or the attempt is published whole; the next run ends the job, and what it
publishes is byte for byte what an undisturbed run publishes.
"""

import asyncio
import errno
import functools
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from faults import finalizer_child
from faults.children import Child
from faults.failpoints import Moment, Strike
from faults.finalizer_child import WORKS
from faults.ground import Ground
from faults.talks import Talk, new_talk
from faults.verdict import Verdict, fingerprint, refusal
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.publication import CALLS, MANIFEST, RAW
from roller_capture.replay import validate_published
from roller_capture.working_files import WORK_DIR

_NOT_COMPARED: Final = frozenset({"lock", "reserve"})
_PRUNE: Final = "prune"
_ERRORS: Final = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE)


async def run(ground: Ground) -> None:
    """Every step of every work."""
    recorded, talks = await _record(ground)
    faults = []
    for work in WORKS:
        source = await _prepared(ground, work, recorded)
        plain = ground.folder("undisturbed")
        steps = await _steps(ground, work, source, plain)
        scene = _Scene(ground, work, source, fingerprint(plain / "attempt"), talks)
        faults += [
            functools.partial(_struck, scene, number, strike) for number, strike in _strikes(ground, work, steps)
        ]
    await ground.together(faults)


class _Scene:
    """What the faults of one work share: `source` is copied for each, `expected` is what has to come out."""

    def __init__(self, ground: Ground, work: str, source: Path, expected: dict[str, str], talks: list[Talk]) -> None:
        self.ground = ground
        self.work = work
        self.source = source
        self.before = _of_work(source)
        self.expected = expected
        self.talks = talks


async def _record(ground: Ground) -> tuple[Path, list[Talk]]:
    """An attempt with calls of each protocol, one of them cut, and the agent's own log."""
    chance = ground.chance("publication")
    folder = ground.folder("recorded")
    talks = [new_talk(chance) for _ in range(5)]
    cut = new_talk(chance, words=100)
    cut.hold_at = 4
    ground.service.expect(*talks, cut)
    async with ground.proxy(folder) as proxy:
        for talk in talks:
            await talk.ask(proxy.port)
        asking = asyncio.create_task(cut.ask(proxy.port))
        await cut.held.wait()
        await proxy.end()
        cut.go_on.set()
        await asking
    native = folder / "attempt" / "work" / "native"
    native.mkdir()
    outputs = [{"event": "output", "session": "agent-1", "response_id": f"resp_{talk.mark}"} for talk in talks]
    events = [
        {"event": "session", "session": "agent-1"},
        *outputs,
        {"event": "ended", "session": "agent-1", "status": "failed"},
    ]
    (native / "roller-events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return folder / "attempt", [*talks, cut]


async def _prepared(ground: Ground, work: str, recorded: Path) -> Path:
    """What the work begins with."""
    if work != _PRUNE:
        return recorded
    folder = ground.folder("to-prune")
    await _steps(ground, next(iter(WORKS)), recorded, folder)
    return folder / "attempt"


async def _steps(ground: Ground, work: str, source: Path, folder: Path) -> list[str]:
    """The calls that an undisturbed run makes."""
    shutil.copytree(source, folder / "attempt")
    log = ground.folder("steps") / "steps.json"
    child = Child(log.with_name("printed"), finalizer_child.run, work, folder / "attempt", None, log).start()
    if await child.ended() != 0:
        raise RuntimeError(child.printed())
    steps: list[str] = json.loads(log.read_bytes())
    return steps


def _strikes(ground: Ground, work: str, steps: list[str]) -> Iterator[tuple[int, Strike]]:
    """At every step a kill, at every other write a torn one, at every fourth step a signal or a failing disk."""
    chance = ground.chance(work)
    for number, site in enumerate(steps, 1):
        if chance.random() > ground.times:
            continue
        yield number, Strike("*", number)
        if site.startswith("write ") and number % 2:
            yield number, Strike("*", number, Moment.TORN)
        if number % 4 == 1:
            yield number, Strike("*", number, number=chance.choice(_ERRORS), fails=True)
        elif number % 4 == 3:
            yield number, Strike("*", number, number=chance.choice((signal.SIGTERM, signal.SIGINT)))
    yield len(steps), Strike("*", len(steps), Moment.AFTER)


async def _struck(scene: _Scene, number: int, strike: Strike) -> None:
    ground = scene.ground
    folder = ground.folder("struck")
    attempt = folder / "attempt"
    await asyncio.to_thread(shutil.copytree, scene.source, attempt)
    child = Child(ground.directory / f"{folder.name}.printed", finalizer_child.run, scene.work, attempt, strike, None)
    code = await child.start().ended()
    printed = child.printed()
    place = _came_to(scene.work, attempt)
    verdict = await asyncio.to_thread(_judged, scene, attempt)
    verdict.problems += _word(strike, code, printed)
    if printed.startswith("error: ") and "RollerError" not in printed:
        verdict.named[refusal(printed)] += 1
    kind = f"{scene.work}: disk fails" if strike.fails else f"{scene.work} gets {signal.Signals(strike.number).name}"
    ground.ledger.enter(kind, place, verdict, f"{strike} step {number}: {attempt}")
    await asyncio.to_thread(shutil.rmtree, folder)


def _came_to(work: str, attempt: Path) -> str:
    """How far it was, by what is on the disk."""
    staged = any(path.name.startswith(".") for path in (*attempt.iterdir(), *attempt.parent.iterdir()))
    names = {path.name for path in attempt.iterdir()}
    if work == _PRUNE:
        done = "done" if not staged else "the old one not removed"
        return done if RAW not in names else "staging" if staged else "nothing staged"
    if MANIFEST in names:
        return "not tidied up" if staged or WORK_DIR in names else "done"
    if any(name.startswith(CALLS) for name in names):  # compressed or not
        return "moving into place"
    return "staging" if staged else "nothing staged"


def _word(strike: Strike, code: int, printed: str) -> Iterator[str]:
    """How the child ended."""
    if not strike.fails:
        is_interrupt = strike.number == signal.SIGINT and "KeyboardInterrupt" in printed
        if code != -strike.number and not is_interrupt and code != 0:
            yield f"it ended with {code}: {printed[-300:]!r}"
    elif code not in (0, 1):
        yield f"exit code {code}"
    elif code == 1 and (printed.count("\n") != 1 or not printed.startswith("error: ")):
        yield f"no clear line: {printed[-600:]!r}"


def _judged(scene: _Scene, attempt: Path) -> Verdict:
    verdict = Verdict()
    published = (attempt / MANIFEST).exists()
    if published:
        verdict.problems += [f"half published: {item.file}: {item.message}" for item in _findings(attempt)]
    elif scene.work == _PRUNE:
        verdict.problems.append("the published attempt is gone")
    elif _of_work(attempt) != scene.before:
        verdict.problems.append("the working files were touched, and nothing is published")
    try:
        WORKS[scene.work](attempt)
        if scene.work != _PRUNE:
            WORKS[scene.work](attempt)
    except (RollerError, OSError) as error:
        verdict.problems.append(f"the next run failed: {error}")
        return verdict
    if fingerprint(attempt) != scene.expected:
        verdict.problems.append("what came out is not what an undisturbed run publishes")
    verdict.problems += [f"left over: {path.name}" for path in attempt.parent.iterdir() if path != attempt]
    whole = sum(talk.whole for talk in scene.talks)
    verdict.finished, verdict.cut = whole, len(scene.talks) - whole
    verdict.intact = 0 if verdict.problems else whole
    return verdict


def _findings(attempt: Path) -> list[Finding]:
    """Of a published attempt whose working files may still be there."""
    return [item for item in validate_published(attempt, deep=True) if "run finalize again" not in item.message]


def _of_work(attempt: Path) -> dict[str, str]:
    work = attempt / "work"
    return (
        {name: digest for name, digest in fingerprint(work).items() if name not in _NOT_COMPARED}
        if work.exists()
        else {}
    )
