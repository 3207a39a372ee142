"""Two ways to show what is followed: a picture that moves on a terminal, and a plain line for each step elsewhere."""

import shlex
import time
from collections.abc import Iterator
from typing import Final, TextIO

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from roller_capture.errors import RollerError
from roller_capture.terminal import safe
from roller_capture.view.lines import BAD, FAINT, GOOD, PLAIN, STRONG, WARN
from roller_capture.view.live.events import LiveCall, Step
from roller_capture.view.live.followed import ENDED, Followed, FollowedAttempt, State
from roller_capture.view.words import count, cut, duration

_FEWEST_CALLS: Final = 3
_MOST_ENDED: Final = 5
_MOST_LAST_WORDS: Final = 20
_MOST_IDS: Final = 2
_ID_LENGTH: Final = 20
_STATE_STYLES: Final = {State.RECORDING: GOOD, State.KILLED: BAD, State.WAITING: WARN}


class PlainScreen:
    """A line for each call that begins or ends, and for each attempt that ends."""

    def __init__(self, stream: TextIO, followed: Followed) -> None:
        self._stream = stream
        self._followed = followed
        self._told: set[str] = set()

    def step(self, attempt: FollowedAttempt, step: Step) -> None:
        """Says what has happened."""
        self.say(f"{self._prefix(attempt)}{_step_words(attempt, step)}")

    def refresh(self) -> None:
        """Says which attempts have ended since."""
        for attempt in self._followed.attempts.values():
            if attempt.state in ENDED and attempt.name not in self._told:
                self._told.add(attempt.name)
                if attempt.was_running or not self._followed.is_run:
                    self.say(f"{self._prefix(attempt)}{summary(attempt)}")

    def close(self) -> None:
        """Nothing is left to be said."""

    def _prefix(self, attempt: FollowedAttempt) -> str:
        return f"{attempt.name}: " if self._followed.is_run else ""

    def say(self, line: str) -> None:
        """A line. Raises `RollerError` when it cannot be written."""
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(safe(line).encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self._stream.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RollerError(f"the output could not be written: {reason}") from None


class LiveScreen:
    """A picture of all that runs, as high as the terminal allows."""

    def __init__(self, console: Console, followed: Followed) -> None:
        self._console = console
        self._followed = followed
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.start()

    def step(self, attempt: FollowedAttempt, step: Step) -> None:
        """The next picture shows it."""

    def refresh(self) -> None:
        """Draws."""
        self._live.update(self.picture(time.time()), refresh=True)

    def close(self) -> None:
        """Leaves the last words of what was followed behind."""
        self._live.stop()
        followed = [item for item in self._followed.attempts.values() if item.was_running or not self._followed.is_run]
        for attempt in followed[-_MOST_LAST_WORDS:]:
            self._console.print(Text(safe(f"{attempt.name}: {summary(attempt)}")))
        if len(followed) > _MOST_LAST_WORDS:
            self._console.print(f"and {len(followed) - _MOST_LAST_WORDS:,} more")

    def say(self, line: str) -> None:
        """A line below the picture, which is closed."""
        self._console.print(Text(safe(line)))

    def picture(self, now: float) -> ConsoleRenderable:
        """What is drawn at this time."""
        running = [item for item in self._followed.attempts.values() if item.state not in ENDED]
        ended = [item for item in self._followed.attempts.values() if item.state in ENDED]
        parts: list[ConsoleRenderable] = []
        if self._followed.is_run:
            parts.append(Text(safe(f"{self._followed.path.name}: {len(running)} running, {len(ended)} ended"), STRONG))
        room = self._console.height - len(parts) - 1 - min(len(ended), _MOST_ENDED)
        for attempt in running:
            room_here = max(_FEWEST_CALLS, room // len(running) - 2)
            parts += [_headline(attempt, now), _call_table(attempt, now, room_here)]
        told = [item for item in ended if item.was_running or not self._followed.is_run]
        parts += [Text(safe(f"{item.name}: {summary(item)}"), FAINT) for item in told[-_MOST_ENDED:]]
        return Group(*parts)


def screen_for(followed: Followed, stream: TextIO | None, console: Console) -> PlainScreen | LiveScreen:
    """The one that fits the stream. Raises `RollerError` where there is none."""
    if stream is None:
        raise RollerError("the output could not be written: it is closed")
    return LiveScreen(console, followed) if console.is_terminal else PlainScreen(stream, followed)


def summary(attempt: FollowedAttempt) -> str:
    """How an attempt stands, in one line."""
    calls = list(attempt.calls.by_flow.values())
    parts = [str(attempt.state), *_count_words(attempt)]
    sent, received = sum(call.sent or 0 for call in calls), sum(call.received or 0 for call in calls)
    if calls:
        parts.append(f"{_size(sent)} sent, {_size(received)} received")
    return ", ".join(parts)


def resting_words(followed: Followed) -> str:
    """That there was nothing to follow, what is there instead, and how to see it."""
    attempts = list(followed.attempts.values())
    if not attempts:
        return f"{followed.path}: is a run that holds no attempt, and no collect works in it"
    path = shlex.quote(str(followed.path))
    published = sum(attempt.state is State.PUBLISHED for attempt in attempts)
    if not followed.is_run:
        step = f"view {path} shows it" if published else f"finalize {path} publishes it"
        return f"nothing is being recorded: roller-capture {step}"
    recorded = sum(attempt.is_recorded() for attempt in attempts)
    nothing = f"{count(recorded, 'attempt')} still recorded, by no collect" if recorded else "nothing is being recorded"
    calls = sum(attempt.counted_calls() for attempt in attempts)
    there = f"{published:,} of {count(len(attempts), 'attempt')} published, {count(calls, 'call')}"
    return f"{nothing}: {there}: roller-capture view {path} shows them"


def _headline(attempt: FollowedAttempt, now: float) -> Text:
    line = Text()
    line.append(safe(attempt.name), STRONG)
    line.append(f"  {safe(cut(attempt.harness or ''))}")
    line.append(f"  {attempt.state}", _STATE_STYLES.get(attempt.state, PLAIN))
    if attempt.started_at is not None:
        line.append(f"  {duration(max(0.0, now - attempt.started_at) * 1000)}")
    line.append("  " + ", ".join(_count_words(attempt)), FAINT)
    return line


def _count_words(attempt: FollowedAttempt) -> Iterator[str]:
    calls = attempt.calls.by_flow.values()
    yield count(attempt.counted_calls(), "call")
    running = sum(call.is_open for call in calls)
    bad = sum(_is_bad(call) for call in calls)
    if running:
        yield f"{running:,} open"
    if bad:
        yield f"{bad:,} failed"
    if attempt.calls.others:
        yield count(attempt.calls.others, "other request")
    if attempt.calls.troubles:
        yield count(attempt.calls.troubles, "warning") + " of the recorder"
    if attempt.unreadable:
        yield count(attempt.unreadable, "unreadable line") + " in events.jsonl"


def _call_table(attempt: FollowedAttempt, now: float, most: int) -> Table:
    """The calls that are open, and the last ones before: the newest at the bottom."""
    calls = list(attempt.calls.by_flow.values())
    kept = sorted([call for call in calls if call.is_open][-most:], key=lambda call: call.number)
    before = [call for call in calls if not call.is_open]
    kept = sorted([*before[-(most - len(kept)) :], *kept] if len(kept) < most else kept, key=lambda call: call.number)
    table = Table.grid(padding=(0, 2))
    for call in kept:
        word, style = _stands(call)
        seconds = call.seconds if call.seconds is not None else now - (call.began_at or now)
        cells = (
            (f"  #{call.number}", STRONG),
            (word, style),
            (duration(max(0.0, seconds) * 1000), PLAIN),
            (f"{_size(call.sent)} ↑", FAINT),
            (f"{_size(attempt.received(call))} ↓", FAINT),
            (_ids(call), PLAIN),
            (cut(call.failure or call.path, 60), BAD if call.failure else FAINT),
        )
        table.add_row(*(Text(safe(text), style, no_wrap=True, overflow="ellipsis") for text, style in cells))
    return table


def _stands(call: LiveCall) -> tuple[str, str]:
    if call.failure is not None:
        return "failed", BAD
    if call.is_open:
        return ("answering" if call.status is not None else "waiting"), WARN
    return str(call.status or "ended"), BAD if _is_bad(call) else GOOD


def _is_bad(call: LiveCall) -> bool:
    return call.failure is not None or (not call.is_open and not 200 <= (call.status or 0) < 300)


def _step_words(attempt: FollowedAttempt, step: Step) -> str:
    call = step.call
    ids = _ids(call)
    carried = f" [{ids}]" if ids else ""
    if step.began:
        return f"#{call.number} begins{carried} {cut(call.path, 120)}"
    took = "" if call.seconds is None else f" after {duration(call.seconds * 1000)}"
    sizes = f"{_size(call.sent)} sent, {_size(attempt.received(call))} received"
    word = (
        f"failed ({cut(call.failure, 200)})" if call.failure is not None else f"answered {call.status or ''}".rstrip()
    )
    return f"#{call.number} {word}{took}, {sizes}"


def _ids(call: LiveCall) -> str:
    """What the request itself says: ids that prove nothing yet."""
    shown = call.ids[-_MOST_IDS:]
    return ", ".join(f"{cut(name.removeprefix('x-'), 32)} {cut(value, _ID_LENGTH)}" for name, value in shown)


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
