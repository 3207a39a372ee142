"""`roller-capture view --live PATH`: looks a few times a second, until the recorder closes or the user leaves."""

import sys
import time
from pathlib import Path
from typing import Final, TextIO

from roller_capture.terminal import say
from roller_capture.view.live.followed import Followed, State, followed
from roller_capture.view.live.screen import LiveScreen, PlainScreen, resting_words, screen_for
from roller_capture.view.rendering import terminal_console

_EVERY: Final = 0.25
_LOOKING_SHARE: Final = 4
"""Looking takes at most a fifth of the time, however many attempts a run has."""


def follow(
    path: Path,
    *,
    width: int | None = None,
    color: bool = True,
    stream: TextIO | None = None,
    every: float = _EVERY,
) -> int:
    """Follows an attempt until its recorder closes, or a run until no `collect` holds it; returns the exit code.

    1 means that a recorder was killed, or that a folder of the run cannot be looked into. Ctrl-C leaves at any time,
    else with exit code 0: what is followed goes on. Raises `RollerError`: exit 2 for a path that is no folder, 1 where
    nothing is recorded.
    """
    stream = stream or sys.stdout
    what = followed(path)
    screen = screen_for(what, stream, terminal_console(stream, width=width, color=color))
    unreadable = what.unreadable()
    for error in unreadable:
        say(f"error: {error}")
    try:
        had_ended = _watch(what, screen, every)
    except KeyboardInterrupt:
        screen.close()
        return int(bool(unreadable))
    screen.close()
    if had_ended:
        screen.say(resting_words(what))
    killed = [attempt for attempt in what.attempts.values() if attempt.state is State.KILLED]
    for attempt in killed:
        say(f"error: {attempt.path}: the recorder was killed before it could close: run roller-capture finalize on it")
    return int(bool(killed or unreadable))


def _watch(what: Followed, screen: PlainScreen | LiveScreen, every: float) -> bool:
    """Looks until the end; whether that had come before the first look."""
    is_first = True
    while True:
        began = time.monotonic()
        ends = what.is_run and what.has_ended()  # before looking, so that what came last is shown
        for attempt, step in what.look():
            screen.step(attempt, step)
        screen.refresh()
        if ends or (not what.is_run and what.has_ended()):
            return is_first
        is_first = False
        time.sleep(max(every, _LOOKING_SHARE * (time.monotonic() - began)))
