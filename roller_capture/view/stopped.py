"""Whose doing it was that a client left its calls: `collect`'s own, where it has stopped the harness.

The proxy sees only that the client is gone. Why the harness ended, `collect` notes in launcher.json, which is kept
wherever `raw/` is; so it is with every call that was cut, unless `--capture-debug off` said otherwise.
"""

from pathlib import Path
from typing import Any, Final

from roller_capture.collect.waiting import STOPPED_BY_COLLECT
from roller_capture.view.launcher_note import launcher_note
from roller_capture.view.words import call_numbers, count
from roller_capture.vocabulary import CutBy

STOPPED: Final = "collect has stopped the harness, and with it the calls that it had open"


def stopped_by_collect(attempt: Path, manifest: dict[str, Any]) -> bool:
    """Whether `collect` itself has stopped the harness, as far as the attempt tells. Raises nothing."""
    cause = launcher_note(attempt, manifest).get("ended_by")
    return isinstance(cause, str) and cause in STOPPED_BY_COLLECT


def was_left(error: dict[str, Any]) -> bool:
    """Whether an error of a call says that its client has left it."""
    return bool(error.get("cut_by") == CutBy.CLIENT)


def error_message(error: dict[str, Any], *, stopped: bool) -> str:
    """What an error of a call says, and whose doing it was."""
    return f"{error['message']}: {STOPPED}" if stopped and was_left(error) else str(error["message"])


def left_sentence(numbers: list[int]) -> str:
    """The calls of a stopped harness that their client has left."""
    verb, whose = ("was", "its") if len(numbers) == 1 else ("were", "their")
    told = call_numbers(numbers)
    return f"{count(len(numbers), 'call')} {verb} left by {whose} client: {told}: {STOPPED}"
