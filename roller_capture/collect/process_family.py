"""Finds and ends all processes of a harness: its own, and those that its tools started.

A process group is not enough. Claude Code gives every shell command a session of its own, so they outlive a kill of the
harness's group (measured). But all of them inherit the attempt's private HOME, which nobody else has. Standard library
only: the watchdog runs this too.
"""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_LOOK_EVERY: Final = 0.05
_KILL_SECONDS: Final = 10.0


class Member(NamedTuple):
    """One process: its id and its session."""

    pid: int
    session: int


def find_members(leader: int | None, home: Path | None) -> list[Member]:
    """The living processes whose HOME is `home`, and all others of their sessions and of that of `leader`.

    Without `home`, those of the session of `leader` alone.
    """
    return _find(set() if leader is None else {leader}, home)


def _find(sessions: set[int], home: Path | None) -> list[Member]:
    """As above, for the sessions that are known already; adds those that are found."""
    everyone = [member for entry in _PROC.iterdir() if entry.name.isdigit() and (member := _member(entry)) is not None]
    if home is not None:
        mark = b"HOME=" + os.fsencode(home)
        sessions.update(member.session for member in everyone if mark in _environment(member.pid))
    own = os.getsid(0)
    return [member for member in everyone if member.session in sessions and member.session != own]


def end_members(leader: int | None, home: Path | None, grace: float) -> None:
    """Ends them: SIGTERM, and SIGKILL for what is still there after `grace` seconds. Blocks until all are gone.

    The harness's own process may remain as a zombie until its parent has waited for it.
    """
    # Kept from look to look: a process that is just ending has no environment any more.
    sessions = set() if leader is None else {leader}
    _signal(_find(sessions, home), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while members := _find(sessions, home):
        late = time.monotonic() - deadline
        if late > _KILL_SECONDS:
            return  # in an uninterruptible wait: nothing more can be done
        if late >= 0:
            _signal(members, signal.SIGKILL)
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
        state, session = fields[0], int(fields[3])
    except (OSError, IndexError, ValueError):
        return None
    return None if state in (b"Z", b"X") else Member(int(entry.name), session)


def _environment(pid: int) -> list[bytes]:
    """The variables a process was started with; empty for those of other users."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
