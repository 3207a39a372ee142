"""Runs many samples, some at once. Each is a thread of this process: it mostly waits, for a proxy and a harness of its
own. One that fails never stops the others."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.collect.display import Board
from roller_capture.collect.outcome import SampleOutcome, published_outcome
from roller_capture.collect.sample_run import RunContext, SampleRun
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.errors import RollerError
from roller_capture.runs.books import Sample, create_sample
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.terminal import say
from roller_capture.view.words import count

_LOOK_EVERY: Final = 0.25


@dataclass(frozen=True, slots=True)
class Job:
    """A sample that is to run; `sample` are its books, which a new one does not have yet."""

    spec: SampleSpec
    sample: Sample | None


def run_side_by_side(context: RunContext, run_dir: Path, jobs: Iterable[Job], board: Board) -> list[SampleOutcome]:
    """Runs them, at most `--jobs` at once, and returns what came of each that was begun, in the order of their ends.

    After the first signal no more are begun; a second one ends those that run (`StopSignal`).
    """
    waiting = iter(jobs)
    ended: queue.SimpleQueue[SampleOutcome] = queue.SimpleQueue()
    outcomes: list[SampleOutcome] = []
    running = 0
    told = _Told(context.stop)
    while True:
        for job in _next(waiting, context, running):
            board.began(job.spec.sample_id)
            # Daemons: a third signal ends this process at once, and the watchdog does what is left to do.
            threading.Thread(target=_work, args=(context, run_dir, job, board, ended), daemon=True).start()
            running += 1
        if not running:
            return outcomes
        with contextlib.suppress(queue.Empty):
            outcome = ended.get(timeout=_LOOK_EVERY)
            running -= 1
            outcomes.append(outcome)
            board.ended(outcome)
        board.refresh()
        told.say(running)


def _next(waiting: Iterator[Job], context: RunContext, running: int) -> Iterator[Job]:
    for _ in range(context.request.jobs - running):
        job = None if context.stop.asked is not None else next(waiting, None)
        if job is None:
            return
        yield job


class _Told:
    """Says once what each signal does."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._finishing = False
        self._aborting = False

    def say(self, running: int) -> None:
        if self._stop.received is not None and not self._aborting:
            self._aborting = True
            say(f"stopping what runs ({_samples(running)}); what is recorded so far is published as interrupted")
        elif self._stop.asked is not None and not self._finishing:
            self._finishing = True
            say(
                f"{self._stop.asked.name}: no more samples are begun; what runs ({_samples(running)}) is finished "
                "(once more: it is stopped)"
            )


def _samples(number: int) -> str:
    return count(number, "sample")


def _work(
    context: RunContext, run_dir: Path, job: Job, board: Board, ended: "queue.SimpleQueue[SampleOutcome]"
) -> None:
    started = time.monotonic()
    name = job.spec.sample_id
    try:
        outcome = _collect(context, run_dir, job, board, started)
    except RollerError as error:
        outcome = SampleOutcome(name, None, error=str(error), seconds=time.monotonic() - started)
    except Exception as error:  # noqa: BLE001 - a bug that shows in one sample must not stop the others
        outcome = SampleOutcome(
            name, None, error=f"{type(error).__name__}: {error}", seconds=time.monotonic() - started
        )
    ended.put(outcome)


def _collect(context: RunContext, run_dir: Path, job: Job, board: Board, started: float) -> SampleOutcome:
    name, captured = job.spec.sample_id, context.request.capture_calls
    mode = RunMode.CAPTURED if captured else RunMode.UNCAPTURED
    sample = job.sample or create_sample(run_dir, job.spec, mode)
    run = SampleRun(context, sample, job.spec, lambda text: board.note(name, text))
    board.records_into(name, run.attempt)
    result = run.execute()
    if not captured:
        seconds = time.monotonic() - started
        said = "".join(result.last_words[-1:])
        return SampleOutcome(name, sample.state, seconds=seconds, place=run.attempt, captured=False, said=said)
    board.note(name, "publishing")
    manifest = run.publish()
    return published_outcome(name, manifest, run.attempt, seconds=time.monotonic() - started, result=result)
