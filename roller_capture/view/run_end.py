"""Why a run did not end well: its exit code, what stopped it, and what the harness said last.

`collect` has noted that in launcher.json. Of a run that was done by hand, and of one without `raw/`, nobody knows it.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture.collect.waiting import Cause
from roller_capture.view.launcher_note import launcher_note
from roller_capture.view.lines import joined
from roller_capture.view.words import LONGEST_TEXT, count, cut
from roller_capture.vocabulary import ExecutionStatus
from roller_capture.working.values import integer

CAUSE_WORDS: Final = {
    Cause.PROXY_DIED: "stopped, since the recording proxy died",
    Cause.SERVICE_ENDED: "stopped, since the harness's own service ended",
    Cause.TIMEOUT: "stopped at its time limit (--timeout)",
    Cause.DRAIN_TIMEOUT: "stopped, since what it had in the background did not end (--drain-timeout)",
}
"""Ends that are the same whoever tells of them."""

TURN_FAILED: Final = "by its own output the last turn failed"

_CAUSE_WORDS: Final = {
    **CAUSE_WORDS,
    Cause.STOP_SIGNAL: "stopped, since collect was told to stop",
    Cause.COLLECT_FAILED: "stopped, since collect was killed or failed itself",
}
_MOST_LINES: Final = 5
_MOST_CODES: Final = 20


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run that failed or was interrupted has ended. `last_words`: the end of its error output, line by line."""

    status: str
    reason: str
    last_words: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """`the run failed: exit code 3`."""
        what = "failed" if self.status == ExecutionStatus.FAILED else "was interrupted"
        return f"the run {what}: {self.reason}"

    @property
    def brief(self) -> str:
        """`exit code 3: its last words`: for a line in a table."""
        return joined((self.reason, *self.last_words[-1:]), ": ")


def run_end(attempt: Path, manifest: dict[str, Any]) -> RunEnd | None:
    """How the run of an attempt ended; `None` where it ended well, or nobody knows that it did not. Raises nothing."""
    status = manifest["execution_status"]
    if status not in (ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED):
        return None
    note = launcher_note(attempt, manifest)
    reason = "; ".join(_reasons(note))
    if not reason:
        unkept = "" if manifest.get("raw_retained", True) else ": raw/, which would say it, was not kept"
        return RunEnd(status, f"nothing here says why{unkept}")
    tail = note.get("stderr_tail")
    lines = [line.strip() for line in tail.splitlines() if line.strip()] if isinstance(tail, str) else []
    return RunEnd(status, reason, tuple(cut(line, LONGEST_TEXT) for line in lines[-_MOST_LINES:]))


def _reasons(note: dict[str, Any]) -> Iterator[str]:
    codes = note.get("exit_codes")
    numbers = [code for code in map(integer, codes) if code is not None] if isinstance(codes, list) else []
    if numbers:
        yield ", ".join(dict.fromkeys(_code_words(code) for code in numbers[:_MOST_CODES]))
    elif codes == []:
        yield "not started"
    cause = note.get("ended_by")
    if isinstance(cause, str) and cause in _CAUSE_WORDS:
        yield _CAUSE_WORDS[Cause(cause)]
    if note.get("turn_failed") is True:
        yield TURN_FAILED
    left = integer(note.get("turns_not_run"))
    if left is not None and left > 0:
        yield f"{count(left, 'turn')} not run"


def _code_words(code: int) -> str:
    """As a shell user knows it; a process that a signal has ended has a negative one."""
    try:
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"
