"""What `collect` says at the end: one screen, plain words."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from signal import Signals
from typing import Any, Final

from roller_capture.collect.attempt import AttemptResult
from roller_capture.collect.display import bytes_of
from roller_capture.collect.outcome import SampleOutcome
from roller_capture.collect.waiting import Cause
from roller_capture.errors import RollerError
from roller_capture.runs.books import SampleState
from roller_capture.terminal import safe
from roller_capture.view.attempt import Call, load_attempt
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.words import LONGEST_TEXT, cut
from roller_capture.vocabulary import CallErrorCode, ExecutionStatus

_MOST_GAPS: Final = 8
_MOST_PROBLEMS: Final = 30
_MOST_REASONS: Final = 3
_TAIL_LINES: Final = 5
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?: \([A-Za-z0-9_.-]+\))?")
_FAILURES: Final = (
    CallErrorCode.HTTP_ERROR,
    CallErrorCode.PROVIDER_ERROR,
    CallErrorCode.UPSTREAM_UNREACHABLE,
    CallErrorCode.RESPONSE_UNPARSEABLE,
)
_CAUSES: Final = {
    Cause.PROXY_DIED: "stopped, since the recording proxy died",
    Cause.SERVICE_ENDED: "stopped, since the harness's own service ended",
    Cause.TIMEOUT: "stopped at its time limit (--timeout)",
    Cause.DRAIN_TIMEOUT: "stopped, since its subtasks did not end (--drain-timeout)",
}


def run_line(result: AttemptResult, harness: str, version: str, signal: Signals | None) -> str:
    """How the harness ran; `signal` is what `collect` was told to stop with."""
    outcome = result.outcome
    codes = ", ".join(str(code) for code in outcome.exit_codes)
    ended = f"exit code{'s' if len(outcome.exit_codes) > 1 else ''} {codes}" if codes else "not started"
    words = [f"{harness} {version}: {outcome.execution_status} after {outcome.seconds:.1f} s ({ended})"]
    if outcome.ended_by is Cause.STOP_SIGNAL:
        words.append("stopped by you (Ctrl-C)" if signal is Signals.SIGINT else f"stopped by {signal and signal.name}")
    elif outcome.ended_by in _CAUSES:
        words.append(_CAUSES[outcome.ended_by])
    elif outcome.turn_failed:
        words.append("by its own output the last turn failed")
    if outcome.turns_not_run:
        words.append(f"{outcome.turns_not_run} of the turns not run")
    return "; ".join(words)


def trouble_lines(result: AttemptResult) -> Iterator[str]:
    """The end of the harness's error output, when it did not end well."""
    if result.outcome.execution_status is ExecutionStatus.COMPLETED:
        return
    lines = [line for line in result.stderr_tail.splitlines() if line.strip()][-_TAIL_LINES:]
    for line in lines:
        yield f"  its error output: {safe(line)[:300]}"


def capture_lines(attempt: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """What was published, what is missing and why, and what to do next."""
    counts = manifest["counts"]
    roles = [participant["role"] for participant in manifest["participants"]]
    children = roles.count("child")
    yield f"participants: {roles.count('root')} root, {children} {'child' if children == 1 else 'children'}"
    yield f"calls: {counts['calls']}, of which {counts['exportable_calls']} exportable"
    relations = ", ".join(f"{kind} {number}" for kind, number in counts["relations"].items() if number) or "none"
    yield f"relations: {relations}"
    yield f"capture: {manifest['capture_status']}"
    yield from (f"  {line}" for line in _details(attempt))
    yield f"published: {attempt}"
    yield f"next: roller-capture view {shlex.quote(str(attempt))}"


def _details(attempt: Path) -> Iterator[str]:
    try:
        read = load_attempt(attempt)
    except RollerError as error:
        yield str(error)
        return
    yield from _failure_lines(read.calls)
    gaps = gaps_of(read, family_of(read))
    for gap in gaps[:_MOST_GAPS]:
        yield f"missing: {gap.sentence}" + (f". {gap.next_step}" if gap.next_step else "")
    if len(gaps) > _MOST_GAPS:
        yield f"and {len(gaps) - _MOST_GAPS} more: see the manifest"


def _failure_lines(calls: Iterable[Call]) -> Iterator[str]:
    """Why calls failed, in their own words, the most frequent first."""
    failed = (call for call in calls if call.record["execution_status"] == ExecutionStatus.FAILED)
    for reason, number in Counter(_reason(call) for call in failed).most_common(_MOST_REASONS):
        yield f"{number:,} {'call' if number == 1 else 'calls'} failed: {reason}"


def _reason(call: Call) -> str:
    """The provider's message is left out, for it can be another one for each call."""
    error = next((error for error in call.record["errors"] if error["code"] in _FAILURES), None)
    if error is None:
        return "no error is recorded"
    text = str(error["message"])
    if error["code"] == CallErrorCode.HTTP_ERROR:
        status, _, rest = text.partition(": ")
        kind = rest.partition(": ")[0]
        text = f"{status} {kind if _KIND.fullmatch(kind) else rest}".strip()
    return safe(cut(text, LONGEST_TEXT))


def error_lines(result: AttemptResult) -> Iterable[str]:
    """What went wrong around the harness, loudly."""
    return (f"error: {error.code}: {error.message}" for error in result.errors)


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
    yield f"calls: {calls:,}, {bytes_of(size)}" + (f"; reused: {reused} of the samples" if reused else "")
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
