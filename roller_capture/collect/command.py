"""`roller-capture collect`: runs, publishes, and says what came of it."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from roller_capture.collect import summary
from roller_capture.collect.attempt import AttemptPlan, AttemptResult, AttemptRunner, UnsavedError
from roller_capture.collect.checks import CheckedRequest, check_request
from roller_capture.collect.display import running_line
from roller_capture.collect.guard import Guard
from roller_capture.collect.private_umask import private_umask
from roller_capture.collect.request import CollectRequest, KeyVia
from roller_capture.collect.run_folder import (
    AttemptEntry,
    RunConfiguration,
    RunMode,
    Sample,
    SampleState,
    create_sample,
    new_run,
)
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.terminal import progress, say
from roller_capture.vocabulary import CaptureStatus

FIRST_SAMPLE: Final = "sample-0001"
_SIGNAL_EXIT: Final = 128
_NOTHING_BEGUN: Final = 2
_UNCAPTURED: Final = (
    "WITHOUT --capture-calls NOTHING IS CAPTURED: the harness runs without the proxy, and with the real key; "
    "this run can never be used as a captured one"
)


def run_collect(request: CollectRequest) -> int:
    """Runs one sample and returns the exit code.

    0: published, also when the harness failed or the capture is partial; 1: nothing usable came (no model request), or
    `strict` and partial; 128 + number: stopped by a signal, what was recorded being published all the same. Raises
    `RollerError`: exit 2 for a call that is wrong, of which nothing is written; exit 1 when publishing failed.
    """
    checked = check_request(request)
    configuration = _configuration(request, checked)
    workdir = None if checked.workdir is None else str(checked.workdir)
    with private_umask() as umask:
        with new_run(checked.run_dir, configuration) as undo:
            sample = create_sample(checked.run_dir, FIRST_SAMPLE, request.prompts, workdir, configuration.mode)
            entry, attempt = sample.begin_attempt()
        _say_plan(request, checked)
        with StopSignal.installed() as stop:
            with Guard() as guard:
                runner = AttemptRunner(_plan(request, checked, attempt, umask), stop, guard)
                try:
                    result = _run_attempt(runner, sample, entry, attempt)
                except RollerError as error:
                    if error.exit_code == _NOTHING_BEGUN and not runner.has_started:
                        undo()
                    raise
            say(summary.run_line(result, request.harness, checked.binary.version, stop.received))
            for line in summary.trouble_lines(result):
                say(line)
            code = _conclude(request, sample, entry, attempt, result)
    return code if stop.received is None else _SIGNAL_EXIT + stop.received


def _say_plan(request: CollectRequest, checked: CheckedRequest) -> None:
    version = checked.binary.version
    say(f"{request.harness} {version} ({checked.binary.path})")
    tested = sorted(checked.launcher.traits.tested_versions, reverse=True)
    if version not in tested:
        say(f"warning: {request.harness} {version} was never tested with this (tested: {', '.join(tested)})")
    if checked.api_base is not None:
        say(f"model service {checked.api_base.url}; {checked.keys.note}")
        if checked.api_base.scheme == "http" and not checked.api_base.is_loopback and checked.keys.upstream:
            say("warning: the key goes to another machine over plain HTTP")
    if request.key_via is KeyVia.HARNESS:
        say("warning: with --key-via harness an agent can read the key, and what it prints is recorded")
    if checked.workdir is None:
        say("it works in a fresh empty folder that is removed afterwards (--workdir DIR for one of your own)")
    elif checked.run_dir.resolve().is_relative_to(checked.workdir.resolve()):
        say("warning: --run-dir lies in --workdir, so the agent can see and change its own recording: put it elsewhere")
    if not request.capture_calls:
        say(_UNCAPTURED)


def _configuration(request: CollectRequest, checked: CheckedRequest) -> RunConfiguration:
    return RunConfiguration(
        harness=request.harness,
        harness_version=checked.binary.version,
        protocol=checked.protocol,
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


def _plan(request: CollectRequest, checked: CheckedRequest, attempt: Path, umask: int) -> AttemptPlan:
    return AttemptPlan(
        harness=request.harness,
        launcher=checked.launcher,
        binary=checked.binary.path,
        version=checked.binary.version,
        attempt=attempt,
        prompts=request.prompts,
        api_base=checked.api_base,
        keys=checked.keys,
        key_variable=checked.key_variable,
        model=request.model,
        protocol=checked.protocol,
        profile=request.profile,
        workdir=checked.workdir,
        timeout=request.timeout,
        drain_timeout=request.drain_timeout,
        arguments=request.harness_args,
        captured=request.capture_calls,
        umask=umask,
    )


def _run_attempt(runner: AttemptRunner, sample: Sample, entry: AttemptEntry, attempt: Path) -> AttemptResult:
    """Runs it, and brings the books up to date: how it was executed stands there before anything is published."""

    def note_private_folder(private: Path) -> None:
        entry.private_folder = str(private)
        sample.write()

    try:
        with running_line(attempt) as tick:
            result = runner.run(note_private_folder, tick)
    except RollerError as error:
        kept = isinstance(error, UnsavedError) and error.is_kept
        entry.private_folder = entry.private_folder if kept else None
        state = SampleState(error.execution_status) if isinstance(error, UnsavedError) else SampleState.FAILED
        with contextlib.suppress(RollerError):  # what went wrong first is what should be told
            sample.end_attempt(entry, state)
        raise
    entry.private_folder = None
    sample.end_attempt(entry, SampleState(result.outcome.execution_status))
    return result


def _conclude(
    request: CollectRequest, sample: Sample, entry: AttemptEntry, attempt: Path, result: AttemptResult
) -> int:
    """Publishes, brings the books up to date, and says what there is."""
    if not request.capture_calls:
        say(f"{_UNCAPTURED}: output in {attempt}")
        return 0

    def note_intent(digest: str) -> None:
        entry.manifest_sha256 = digest
        sample.write()

    manifest = _publish(request, attempt, note_intent)
    entry.capture_status = manifest["capture_status"]
    sample.write()
    for line in (*summary.capture_lines(attempt, manifest), *summary.error_lines(result)):
        say(line)
    if not result.calls:
        say("error: no model request reached the proxy, so nothing was captured")
        return 1
    return int(request.strict and manifest["capture_status"] != CaptureStatus.COMPLETE)


def _publish(request: CollectRequest, attempt: Path, note_intent: Callable[[str], None]) -> dict[str, Any]:
    """Publishes; the intended hash is in the books before anything is in place (design section 9)."""
    with progress("finalize") as bar:
        outcome = finalize_attempt(
            attempt,
            FinalizeRequest(
                harness=request.harness,
                debug_retention=request.capture_debug,
                model_aliases=request.model_aliases,
                progress=bar,
                before_publish=note_intent,
            ),
        )
    return outcome.manifest
