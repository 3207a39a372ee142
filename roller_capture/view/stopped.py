"""Calls that their client left, in a run whose harness `collect` itself has stopped.

The proxy sees only that the client is gone, not why: the harness may have left a call by itself long before. So no
single call is said to have ended by the stop, only that those which were open then are among the ones left.

Why the harness ended, `collect` notes in launcher.json, which is kept wherever `raw/` is; so it is with every call that
was cut, unless `--capture-debug off` said otherwise.
"""

from pathlib import Path
from typing import Any, Final

from roller_capture.collect.waiting import STOPPED_BY_COLLECT
from roller_capture.view.launcher_note import launcher_note
from roller_capture.view.words import call_numbers, count
from roller_capture.vocabulary import CutBy

_STOPPED: Final = "collect has stopped the harness"
_ONE: Final = f"{_STOPPED}: if it had a call open then, it is this one"
_MANY: Final = f"{_STOPPED}: if it had calls open then, they are among these"


def stopped_by_collect(attempt: Path, manifest: dict[str, Any]) -> bool:
    """Whether `collect` itself has stopped the harness, as far as the attempt tells. Raises nothing."""
    cause = launcher_note(attempt, manifest).get("ended_by")
    return isinstance(cause, str) and cause in STOPPED_BY_COLLECT


def was_left(error: dict[str, Any]) -> bool:
    """Whether an error of a call says that its client has left it."""
    return bool(error.get("cut_by") == CutBy.CLIENT)


def left_sentence(numbers: list[int]) -> str:
    """The calls of a stopped harness that their client has left; said once of an attempt."""
    verb, whose, stopped = ("was", "its", _ONE) if len(numbers) == 1 else ("were", "their", _MANY)
    return f"{count(len(numbers), 'call')} {verb} left by {whose} client: {call_numbers(numbers)}; {stopped}"
