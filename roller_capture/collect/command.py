"""`roller-capture collect`: runs, publishes, and says what came of it."""

import contextlib
import dataclasses
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.collect import summary
from roller_capture.collect.attempt import AttemptResult
from roller_capture.collect.checks import CheckedRequest, check_request
from roller_capture.collect.display import board, running_line
from roller_capture.collect.finalizer_pool import FinalizerPool
from roller_capture.collect.guard import Guard
from roller_capture.collect.outcome import SampleOutcome, published_outcome
from roller_capture.collect.private_umask import private_umask
from roller_capture.collect.reachable import service_problem
from roller_capture.collect.request import CollectRequest, KeyVia
from roller_capture.collect.resume import Resumption
from roller_capture.collect.sample_run import Finalize, RunContext, SampleRun
from roller_capture.collect.side_by_side import Job, run_side_by_side
from roller_capture.collect.starting import Starting
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.harnesses import HARNESSES
from roller_capture.runs.books import create_sample
from roller_capture.runs.configuration import RunConfiguration, RunMode
from roller_capture.runs.directory import RunLock, locked, new_run
from roller_capture.runs.gate import Action, Decision
from roller_capture.runs.samples_file import duplicates
from roller_capture.terminal import progress, say
from roller_capture.view.words import count
from roller_capture.vocabulary import CaptureStatus

_SIGNAL_EXIT: Final = 128
_NOTHING_BEGUN: Final = 2


def run_collect(request: CollectRequest) -> int:
    """Runs one sample, or many, and returns the exit code.

    0: published, also when a harness or all of its model calls failed, or a capture is partial; 1: of a sample nothing
    was captured (no model request), or `strict` and partial; 128 + number: stopped by a signal, what was recorded being
    published all the same, unless a further signal broke that off. Raises `RollerError`: exit 2 for a call that is
    wrong, of which nothing is written; exit 1 when Resume refuses, and when a single sample could not be published.
    """
    checked = check_request(request)
    with private_umask() as umask, stops_cleanly():
        call = _Call(request, checked, umask)
        try:
            return call.resume() if request.resume else call.begin()
        except KeyboardInterrupt:
            return call.break_off(signal.SIGINT)
        except SystemExit as stopped:
            if not isinstance(stopped.code, int) or stopped.code <= _SIGNAL_EXIT:  # none of those of `stops_cleanly`
                raise
            return call.break_off(stopped.code - _SIGNAL_EXIT)


class _Call:
    """One call of the command, checked."""

    def __init__(self, request: CollectRequest, checked: CheckedRequest, umask: int) -> None:
        self._request = request
        self._checked = checked
        self._umask = umask
        self._configuration = _configuration(request, checked)
        self._begun: list[SampleRun] = []

    def begin(self) -> int:
        """A new run."""
        run_dir = self._checked.run_dir
        with contextlib.ExitStack() as held:
            if self._request.samples is None:
                return self._begin_single(held)
            with new_run(run_dir, self._configuration, held) as run:
                pass
            _say_plan(self._request, self._checked)
            return self._run_many([Job(spec, None) for spec in self._checked.samples], (), run.lock, {})

    def _begin_single(self, held: contextlib.ExitStack) -> int:
        (spec,) = self._checked.samples
        stop = held.enter_context(StopSignal.installed())
        with new_run(self._checked.run_dir, self._configuration, held) as run:
            guard = held.enter_context(Guard((run.lock.shared,)))
            context = self._context(stop, guard, _finalize_here, {})
            sample = create_sample(self._checked.run_dir, spec, self._configuration.mode)
            single = SampleRun(context, sample, spec, say)
        _say_plan(self._request, self._checked)
        try:
            return self._run_single(single, stop)
        except RollerError as error:
            if error.exit_code == _NOTHING_BEGUN and not single.has_started:
                run.undo()
            raise

    def resume(self) -> int:
        """Goes on with a run."""
        checked = self._checked
        with contextlib.ExitStack() as held:
            lock = held.enter_context(locked(checked.run_dir))
            resumption = Resumption(checked.run_dir, self._request, _finalize_here, checked.keys.real)
            run, decisions = resumption.decide(checked.samples, self._configuration)
            settings = self._configuration.changed_settings(run)
            jobs = [
                Job(decision.spec, decision.sample)
                for decision in decisions
                if decision.spec is not None and decision.action in (Action.NEW, Action.REDO)
            ]
            reused = [_reused(decision) for decision in decisions if decision.action is Action.REUSE]
            if jobs:
                _say_plan(self._request, checked)
            if self._request.samples is not None or not jobs:
                return self._run_many(jobs, reused, lock, settings)
            (job,) = jobs
            stop = held.enter_context(StopSignal.installed())
            guard = held.enter_context(Guard((lock.shared,)))
            context = self._context(stop, guard, _finalize_here, settings)
            sample = job.sample or create_sample(checked.run_dir, job.spec, self._configuration.mode)
            return self._run_single(SampleRun(context, sample, job.spec, say), stop)

    def _context(self, stop: StopSignal, guard: Guard, finalize: Finalize, settings: dict[str, Any]) -> RunContext:
        starting = Starting(stop, at_once=max(2, _cores()))
        return RunContext(
            self._request, self._checked, settings, stop, guard, finalize, self._umask, starting, self._begun
        )

    def break_off(self, number: int) -> int:
        """A signal for which nothing is put in order any more: the books are, and it is said what comes next."""
        for run in self._begun:
            run.note_broken_off()
        say(summary.broken_off_line(self._begun, number))
        return _SIGNAL_EXIT + number

    def _run_single(self, single: SampleRun, stop: StopSignal) -> int:
        """One sample, told at length; the first signal stops it."""
        with running_line(single.attempt) as tick:
            result = single.execute(tick)
        say(summary.run_line(result, self._request.harness, self._checked.binary.version, stop.received))
        for line in summary.trouble_lines(result):
            say(line)
        code = self._conclude(single, result)
        return code if stop.received is None else _stopped_by(stop.received)

    def _conclude(self, single: SampleRun, result: AttemptResult) -> int:
        """Publishes, and says what there is."""
        if not self._request.capture_calls:
            say(f"{_uncaptured(self._checked)}: output in {single.attempt}")
            return 0
        manifest, strict = single.publish(), self._request.strict
        for line in summary.capture_lines(single.attempt, manifest, result):
            say(line)
        for line in summary.error_lines(result, manifest, strict=strict):
            say(line)
        if not result.calls:
            return 1
        return int(strict and manifest["capture_status"] != CaptureStatus.COMPLETE)

    def _run_many(
        self, jobs: Sequence[Job], reused: Sequence[SampleOutcome], lock: RunLock, settings: dict[str, Any]
    ) -> int:
        """Many samples, some at once; the first signal begins no more of them, the second stops those that run."""
        request, run_dir = self._request, self._checked.run_dir
        outcomes: list[SampleOutcome] = []
        with StopSignal.installed(finish_first=True) as stop:
            if jobs:
                _warn_of_shared_folders(jobs, request.jobs)
                size = min(request.jobs, len(jobs), _cores())
                with (
                    Guard((lock.shared,)) as guard,
                    FinalizerPool(size, (lock.shared,)) as pool,
                    board(len(jobs), len(reused), request.jobs) as shown,
                ):
                    context = self._context(stop, guard, pool.finalize, settings)
                    outcomes = run_side_by_side(context, run_dir, jobs, shown)
        if not request.capture_calls:
            say(_uncaptured(self._checked))
        everything = [*reused, *outcomes]
        not_begun = len(jobs) - len(outcomes)
        for line in summary.closing_lines(everything, not_begun, run_dir):
            say(line)
        if request.capture_calls:
            say(f"next: roller-capture view {shlex.quote(str(run_dir))}")
        if stop.asked is not None:
            return _stopped_by(stop.asked)
        partial = sum(outcome.is_usable and outcome.is_partial for outcome in everything) if request.strict else 0
        if partial:
            say(f"error: {count(partial, 'capture')} only partial, which --strict does not accept")
        return int(partial > 0 or any(not outcome.is_usable for outcome in everything))


def _stopped_by(number: signal.Signals) -> int:
    """Says what comes next; the exit code."""
    say(f"stopped by {number.name}: go on with the same command and --resume")
    return _SIGNAL_EXIT + number


def _reused(decision: Decision) -> SampleOutcome:
    """What stands in the run of a sample that is not run again."""
    assert decision.report is not None
    assert decision.sample is not None
    newest = decision.report.attempts[-1]
    if newest.manifest is None:
        return SampleOutcome(decision.sample_id, decision.sample.state, place=newest.place, reused=True, captured=False)
    return published_outcome(decision.sample_id, newest.manifest, newest.place)


def _warn_of_shared_folders(jobs: Sequence[Job], at_once: int) -> None:
    shared = duplicates([job.spec.workdir for job in jobs])
    if shared and at_once > 1:
        say(f"warning: {shared + 1} samples work in a folder that others have too, and up to {at_once} at once")


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _say_plan(request: CollectRequest, checked: CheckedRequest) -> None:
    version = checked.binary.version
    say(f"{request.harness} {version} ({checked.binary.path})")
    tested = sorted(checked.launcher.traits.tested_versions, reverse=True)
    if version not in tested and not HARNESSES[request.harness].is_users_own:
        say(f"warning: {request.harness} {version} was never tested with this (tested: {', '.join(tested)})")
    if checked.api_base is not None:
        say(f"model service {checked.api_base.url}; {checked.keys.note}")
        if checked.api_base.scheme == "http" and not checked.api_base.is_loopback and checked.keys.upstream:
            say("warning: the key goes to another machine over plain HTTP")
        problem = service_problem(checked.api_base)
        if problem is not None:
            say(f"warning: no connection to {checked.api_base.origin} can be made now: {problem}")
    if request.key_via is KeyVia.HARNESS:
        say("warning: with --key-via harness an agent can read the key, and what it prints is recorded")
    workdirs = {spec.workdir for spec in checked.samples}
    if None in workdirs:
        say("it works in a fresh empty folder that is removed afterwards (--workdir DIR for one of your own)")
    if any(folder and checked.run_dir.resolve().is_relative_to(folder.resolve()) for folder in workdirs):
        say("warning: --run-dir lies in --workdir, so the agent can see and change its own recording: put it elsewhere")
    if not request.capture_calls:
        say(_uncaptured(checked))


def _uncaptured(checked: CheckedRequest) -> str:
    key = "with the real key" if checked.keys.real else "with a made-up key"
    return (
        f"WITHOUT --capture-calls NOTHING IS CAPTURED: the harness runs without the proxy, and {key}; "
        "this run can never be used as a captured one"
    )


def _configuration(request: CollectRequest, checked: CheckedRequest) -> RunConfiguration:
    return RunConfiguration(
        harness=request.harness,
        harness_version=checked.binary.version,
        protocol=checked.stated_protocol,
        model=request.model,
        api_base=None if checked.api_base is None else checked.api_base.url,
        mode=RunMode.CAPTURED if request.capture_calls else RunMode.UNCAPTURED,
        profile=request.profile,
        network=request.network,
        wire_trace=request.capture_calls,
        capture_debug=request.capture_debug,
        key_via=request.key_via,
        timeout=request.timeout,
        drain_timeout=request.drain_timeout,
        harness_args=request.harness_args,
    )


def _finalize_here(attempt: Path, request: FinalizeRequest) -> dict[str, Any]:
    """Publishes one attempt in this process, with a bar."""
    with progress("finalize") as bar:
        return finalize_attempt(attempt, dataclasses.replace(request, progress=bar)).manifest
