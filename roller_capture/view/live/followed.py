"""An attempt, or the attempts of a run, while they are recorded: what can be told without touching a lock."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.publication import MANIFEST
from roller_capture.published import (
    UnreadableError,
    find_attempts,
    has_working_files,
    is_regular_file,
    is_uncaptured,
    read_manifest,
    why_no_attempts,
)
from roller_capture.recording.lock import LOCK_FILE, is_held
from roller_capture.runs.configuration import RUN_FILE
from roller_capture.view.live.events import EventTail, LiveCall, LiveCalls, Step
from roller_capture.working.values import integer, mapping, number, text
from roller_capture.working_files import EVENTS, WORK_DIR, read_regular_file

_ATTEMPT_FILE: Final = "attempt.json"
_LARGEST_ATTEMPT_FILE: Final = 1024 * 1024
_QUIET_SECONDS: Final = 3.0
"""A recorder may have no lock for a moment, between two proxies; so long nothing is said of a kill."""


class State(StrEnum):
    """How it stands with an attempt."""

    WAITING = "waiting for the recorder"
    RECORDING = "recording"
    CLOSED = "closed"
    KILLED = "killed"
    PUBLISHED = "published"


ENDED: Final = frozenset({State.CLOSED, State.KILLED, State.PUBLISHED})


class FollowedAttempt:
    """One attempt directory. `was_running`: there was something to follow, it had not ended before the first look."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.state = State.WAITING
        self.harness: str | None = None
        self.started_at: float | None = None
        self.was_running = False
        self.calls = LiveCalls()
        self._tail = EventTail(path / WORK_DIR / EVENTS)
        self._unheld_since: float | None = None

    @property
    def unreadable(self) -> int:
        """Lines of events.jsonl that are no events."""
        return self._tail.unreadable

    def look(self) -> list[Step]:
        """Reads what is new, and returns what has begun and ended since the last look."""
        if self.state in ENDED:
            return []
        info = self._info()
        steps = [step for event in self._tail.read() if (step := self.calls.take(event)) is not None]
        self.state = self._stands(info)
        self.was_running = self.was_running or bool(steps) or self.state not in ENDED
        return steps

    def counted_calls(self) -> int:
        """Its calls, also when it was published before and its events are gone. Raises nothing."""
        if self.state is not State.PUBLISHED or self.calls.by_flow:
            return len(self.calls.by_flow)
        try:
            return integer(mapping(read_manifest(self.path).get("counts")).get("calls")) or 0
        except RollerError:
            return 0

    def is_recorded(self) -> bool:
        """Does a recorder hold it at this moment?"""
        return is_held(self.path / WORK_DIR / LOCK_FILE) is True

    def received(self, call: LiveCall) -> int | None:
        """Bytes of the response so far."""
        if not call.is_open:
            return call.received
        try:
            return (self.path / WORK_DIR / "bodies" / f"{call.number:06d}.response").lstat().st_size
        except OSError:
            return None

    def _info(self) -> dict[str, Any]:
        try:
            value = json_text.parse(
                read_regular_file(self.path / WORK_DIR / _ATTEMPT_FILE, limit=_LARGEST_ATTEMPT_FILE)
            )
        except (OSError, json_text.JsonError):
            return {}
        info = value if isinstance(value, dict) else {}
        self.harness = text(info.get("harness")) or self.harness
        self.started_at = number(info.get("started_at")) or self.started_at
        return info

    def _stands(self, info: dict[str, Any]) -> State:
        if is_regular_file(self.path / MANIFEST):
            return State.PUBLISHED
        if not info:
            return State.WAITING
        if info.get("closed") is True:
            return State.CLOSED
        held = is_held(self.path / WORK_DIR / LOCK_FILE)
        if held is not False:
            self._unheld_since = None
            return State.RECORDING
        now = time.monotonic()
        self._unheld_since = self._unheld_since or now
        return State.KILLED if now - self._unheld_since >= _QUIET_SECONDS else State.RECORDING


@dataclass(slots=True)
class Followed:
    """What the path names: one attempt, or a run directory whose attempts come and go."""

    path: Path
    is_run: bool
    attempts: dict[Path, FollowedAttempt]

    def look(self) -> Iterator[tuple[FollowedAttempt, Step]]:
        """What has happened since the last look, attempt by attempt."""
        if self.is_run:
            for path in self._found([]):
                if path not in self.attempts:
                    self.attempts[path] = FollowedAttempt(path, f"{path.parent.parent.name}/{path.name}")
        for attempt in self.attempts.values():
            for step in attempt.look():
                yield attempt, step

    def unreadable(self) -> list[UnreadableError]:
        """The folders of a run that cannot be looked into: what goes on there is not seen."""
        closed: list[UnreadableError] = []
        if self.is_run:
            self._found(closed)
        return closed

    def _found(self, closed: list[UnreadableError]) -> list[Path]:
        try:
            return find_attempts(self.path, closed)
        except RollerError:  # it has no attempt yet
            return []

    def has_ended(self) -> bool:
        """Is nothing more to come? A run ends when no `collect` holds it any more."""
        if not self.is_run:
            return all(attempt.state in ENDED for attempt in self.attempts.values())
        return is_held(self.path) is not True


def followed(path: Path) -> Followed:
    """What is to be followed. Raises `RollerError`: exit 2 for what is no folder, 1 where nothing is recorded."""
    try:
        return _followed(path)
    except OSError as error:  # no permission, a name that is too long
        raise RollerError(f"{path}: cannot be opened ({error.strerror}): check the path", exit_code=2) from None


def _followed(path: Path) -> Followed:
    if not path.is_dir():
        raise RollerError(f"{path}: is no directory: name an attempt or a run directory", exit_code=2)
    if path.name == WORK_DIR and (path / EVENTS).exists():
        path = path.parent
    if (path / RUN_FILE).is_file() and not is_uncaptured(path):
        return Followed(path, True, {})
    if has_working_files(path) or (path / MANIFEST).is_file():
        return Followed(path, False, {path: FollowedAttempt(path, path.name)})
    nothing = f"nothing is recorded here (no {WORK_DIR}/, no {RUN_FILE}): start the recorder first"
    raise RollerError(f"{path}: {why_no_attempts(path) or nothing}")
