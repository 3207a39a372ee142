"""What `collect` says at the end: one screen, plain words."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from signal import Signals
from typing import Any, Final

from roller_capture.adapters.generic import PURPOSE
from roller_capture.collect.attempt import AttemptResult
from roller_capture.collect.display import bytes_of
from roller_capture.collect.failures import all_calls_failed, failure_reasons, silent_turns, why_no_call
from roller_capture.collect.outcome import SampleOutcome
from roller_capture.collect.sample_run import SampleRun
from roller_capture.collect.waiting import STOPPED_BY_COLLECT, Cause
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.runs.books import SampleState
from roller_capture.view.attempt import Call, load_attempt
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.run_end import CAUSE_WORDS, TURN_FAILED
from roller_capture.view.words import count
from roller_capture.vocabulary import CaptureStatus, Purpose

_MOST_GAPS: Final = 8
_MOST_PROBLEMS: Final = 30
_MOST_REASONS: Final = 3
_TAIL_LINES: Final = 5


def run_line(result: AttemptResult, harness: str, version: str, signal: Signals | None) -> str:
    """How the harness ran; `signal` is what `collect` was told to stop with."""
    outcome = result.outcome
    codes = ", ".join(str(code) for code in outcome.exit_codes)
    ended = f"exit code{'s' if len(outcome.exit_codes) > 1 else ''} {codes}" if codes else "not started"
    words = [f"{harness} {version}: {outcome.execution_status} after {outcome.seconds:.1f} s ({ended})"]
    if outcome.ended_by is Cause.STOP_SIGNAL:
        words.append("stopped by you (Ctrl-C)" if signal is Signals.SIGINT else f"stopped by {signal and signal.name}")
    elif outcome.ended_by in CAUSE_WORDS:
        words.append(CAUSE_WORDS[outcome.ended_by])
    elif outcome.turn_failed:
        words.append(TURN_FAILED)
    if outcome.turns_not_run:
        words.append(f"{outcome.turns_not_run} of the turns not run")
    return "; ".join(words)


def trouble_lines(result: AttemptResult) -> Iterator[str]:
    """The end of the harness's error output, when it did not end well."""
    return (f"  its error output: {line}" for line in result.last_words[-_TAIL_LINES:])


def capture_lines(attempt: Path, manifest: dict[str, Any], result: AttemptResult) -> Iterator[str]:
    """What was published, what is missing and why, and what to do next."""
    counts = manifest["counts"]
    roles = [participant["role"] for participant in manifest["participants"]]
    children = roles.count("child")
    yield f"participants: {count(roles.count('root'), 'root')}, {count(children, 'child', 'children')}"
    yield f"calls: {counts['calls']}, of which {counts['exportable_calls']} exportable"
    relations = ", ".join(f"{kind} {number}" for kind, number in counts["relations"].items() if number) or "none"
    yield f"relations: {relations}"
    yield f"capture: {manifest['capture_status']}"
    yield from (f"  {line}" for line in _details(attempt, stopped=result.outcome.ended_by in STOPPED_BY_COLLECT))
    yield f"published: {attempt}"
    yield f"next: roller-capture view {shlex.quote(str(attempt))}"


def _details(attempt: Path, *, stopped: bool) -> Iterator[str]:
    """`stopped`: by `collect`, which an attempt without `raw/` does not say itself."""
    try:
        read = load_attempt(attempt)
    except RollerError as error:
        yield str(error)
        return
    read.stopped = stopped
    yield from _failure_lines(read.calls)
    yield from _purpose_lines(read.manifest["harness"]["name"], read.calls)
    gaps = gaps_of(read, family_of(read))
    for gap in gaps[:_MOST_GAPS]:
        yield f"missing: {gap.sentence}" + (f". {gap.next_step}" if gap.next_step else "")
    if len(gaps) > _MOST_GAPS:
        yield f"and {len(gaps) - _MOST_GAPS} more: see the manifest"


def _failure_lines(calls: Iterable[Call]) -> Iterator[str]:
    """Why calls failed, in their own words, the most frequent first."""
    for reason, number in failure_reasons(calls)[:_MOST_REASONS]:
        yield f"{count(number, 'call')} failed: {reason}"


def _purpose_lines(harness: str, calls: Iterable[Call]) -> Iterator[str]:
    """That an agent of the user's own does not say what its calls are for, which no export takes by itself."""
    if harness not in HARNESSES or not HARNESSES[harness].is_users_own:
        return
    silent = sum(call.exportable and call.record["purpose"] == Purpose.UNKNOWN for call in calls)
    if silent:
        yield f"{count(silent, 'exportable call')} without {PURPOSE}: no export takes such calls by itself"


def error_lines(result: AttemptResult, manifest: dict[str, Any], *, strict: bool) -> Iterator[str]:
    """What went wrong around the harness, loudly, and why the exit code is not 0."""
    yield from (f"error: {error.code}: {error.message}" for error in result.errors)
    if not result.calls:
        yield f"error: nothing was captured: {why_no_call(result.outcome)}"
        return
    silent = silent_turns(result.outcome)
    if silent:
        yield f"warning: {silent}"
    if all_calls_failed(manifest):
        yield "warning: every model call failed, so there is nothing to train on"
    if strict and manifest["capture_status"] != CaptureStatus.COMPLETE:
        yield "error: the capture is only partial (see above), which --strict does not accept"


def broken_off_line(runs: Sequence[SampleRun], number: int) -> str:
    """The last line of a `collect` that a further signal ends at once: what was stopped, and what comes next."""
    guarded = [run for run in runs if run.is_guarded]
    unpublished = [run for run in runs if not run.is_guarded and run.is_unpublished]
    words = []
    if guarded:
        words.append(f"{count(len(guarded), 'run')}: harness and proxy are ended behind this, and the logs saved")
    if unpublished:
        words.append(f"{count(len(unpublished), 'run')} recorded and not yet published")
    told = "; ".join(words) or "nothing was being recorded"
    finalize = f", or roller-capture finalize {shlex.quote(str(runs[0].attempt))}" if len(runs) == 1 and words else ""
    return f"broken off by {Signals(number).name}: {told}. Go on with the same command and --resume{finalize}"


def closing_lines(outcomes: Sequence[SampleOutcome], not_begun: int, run_dir: Path) -> Iterator[str]:
    """The closing table of many samples: by state, then what is missing and why, and where."""
    yield f"samples: {len(outcomes) + not_begun}"
    rows = Counter(_state_row(outcome) for outcome in outcomes)
    if not_begun:
        rows["not begun"] = not_begun
    partial = Counter(_state_row(outcome) for outcome in outcomes if outcome.is_partial)
    for name in sorted(rows, key=_ROWS.index):
        yield f"  {name:<12}{rows[name]:>7}" + (f"  (capture partial: {partial[name]})" if partial[name] else "")
    calls, size = sum(outcome.calls for outcome in outcomes), sum(outcome.size for outcome in outcomes)
    reused = sum(outcome.reused for outcome in outcomes)
    yield f"calls: {calls:,}, {bytes_of(size)} published" + (f"; reused: {reused} of the samples" if reused else "")
    troubled = [outcome for outcome in outcomes if outcome.problem or outcome.state is not SampleState.COMPLETED]
    width = max((len(outcome.sample_id) for outcome in troubled[:_MOST_PROBLEMS]), default=0)
    for outcome in troubled[:_MOST_PROBLEMS]:
        where = "" if outcome.place is None else f": {outcome.place}"
        state = outcome.state or "error"
        reason = outcome.problem or "all of it was recorded"
        yield f"  {outcome.sample_id:<{width}}  {state}: {reason}{where if outcome.error is None else ''}"
    if len(troubled) > _MOST_PROBLEMS:
        yield f"  and {len(troubled) - _MOST_PROBLEMS} more: roller-capture view {shlex.quote(str(run_dir))}"


_ROWS: Final = (*(str(state) for state in SampleState), "error", "not begun")


def _state_row(outcome: SampleOutcome) -> str:
    return "error" if outcome.state is None or outcome.error is not None else str(outcome.state)
