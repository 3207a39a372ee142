"""Finds and ends all processes of a harness: its own, and those that its tools started.

A process group is not enough. Claude Code gives every shell command a session of its own, so they outlive a kill of the
harness's group (measured). They are found in two ways, neither of which alone would do: by descent, since a keeper
(`roller_capture.collect.keeper`) holds all that it has started, also what cleared its environment and left its session;
and by the attempt's private HOME, which nobody else has, should the keeper be gone. Standard library only: the watchdog
runs this too.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_LOOK_EVERY: Final = 0.05
_KILL_SECONDS: Final = 10.0

GRACE_SECONDS: Final = 10.0
"""Between SIGTERM and SIGKILL."""


class Member(NamedTuple):
    """One process: its id, its parent and its session."""

    pid: int
    parent: int
    session: int


def find_members(keepers: Collection[int], home: Path | None) -> list[Member]:
    """The living descendants of `keepers`, the processes whose HOME is `home`, and all others of their sessions; the
    keepers themselves are none. Without `home`, the descendants alone."""
    return _find(frozenset(keepers), home, set())


def _find(keepers: frozenset[int], home: Path | None, sessions: set[int]) -> list[Member]:
    """As above, for the sessions that are known already; adds those that are found."""
    everyone = [member for entry in _PROC.iterdir() if entry.name.isdigit() and (member := _member(entry)) is not None]
    kin = _descendants(keepers, everyone)
    sessions.update(member.session for member in everyone if member.pid in kin)
    if home is not None:
        mark = b"HOME=" + os.fsencode(home)
        sessions.update(member.session for member in everyone if mark in _environment(member.pid))
    own = os.getsid(0)
    return [
        member
        for member in everyone
        if (member.pid in kin or member.session in sessions) and member.session != own and member.pid not in keepers
    ]


def _descendants(roots: frozenset[int], everyone: list[Member]) -> set[int]:
    children: dict[int, list[int]] = {}
    for member in everyone:
        children.setdefault(member.parent, []).append(member.pid)
    found: set[int] = set()
    open_ends = list(roots)
    while open_ends:
        new = [pid for pid in children.get(open_ends.pop(), ()) if pid not in found]
        found.update(new)
        open_ends += new
    return found


def end_members(keepers: Collection[int], home: Path | None, grace: float) -> None:
    """Ends them: SIGTERM, and SIGKILL for what is still there after `grace` seconds. Blocks until all are gone.

    The keepers end by themselves then.
    """
    # Kept from look to look: a process that is just ending has no environment any more.
    sessions: set[int] = set()
    roots = frozenset(keepers)
    told: set[int] = set()
    deadline = time.monotonic() + grace
    while members := _find(roots, home, sessions):
        late = time.monotonic() - deadline
        if late > _KILL_SECONDS:
            return  # in an uninterruptible wait: nothing more can be done
        if late >= 0:
            _signal(members, signal.SIGKILL)
        else:
            # Also those that came after the first look, such as what a shell starts when it is told to end.
            _signal([member for member in members if member.pid not in told], signal.SIGTERM)
            told.update(member.pid for member in members)
        time.sleep(_LOOK_EVERY)


def _signal(members: list[Member], number: signal.Signals) -> None:
    for member in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member.pid, number)


def _member(entry: Path) -> Member | None:
    """A process that is no zombie; `None` also when it has just gone."""
    try:
        # The second field is a name in parentheses, which can hold blanks and parentheses itself.
        fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        state, parent, session = fields[0], int(fields[1]), int(fields[3])
    except (OSError, IndexError, ValueError):
        return None
    return None if state in (b"Z", b"X") else Member(int(entry.name), parent, session)


def _environment(pid: int) -> list[bytes]:
    """The variables a process was started with; empty for those of other users."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
