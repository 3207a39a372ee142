"""OpenClaw's gateway as the service of an attempt: when it is ready, and when its registry says that all is settled."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from roller_capture.adapters.native_values import as_mapping
from roller_capture.adapters.openclaw.home import AGENT_DATABASES, STATE_DATABASE, STATE_DIR
from roller_capture.launchers import HarnessCommand

_COLOUR: Final = re.compile(rb"\x1b\[[0-9;]*m")
_READY: Final = re.compile(rb"\[gateway\] ready\s*$", re.MULTILINE)
"""Lines before it ("http server listening", "spawn broker ready") come while it takes no turns yet (measured)."""
_BUSY_SECONDS: Final = 2.0
_ENDED_DELIVERIES: Final = frozenset({"delivered", "failed", "suspended", "not_required", "not_applicable"})
_STOPPED: Final = "subagent-killed"
_RUNNING_TASKS: Final = "SELECT count(*) FROM task_runs WHERE status IN ('queued', 'running')"
_RUNNING_SESSIONS: Final = "SELECT count(*) FROM session_nodes WHERE status = 'running'"
_RUNS: Final = "SELECT payload_json FROM subagent_runs"


class Gateway:
    """See `roller_capture.launchers.HarnessService`."""

    def __init__(self, command: HarnessCommand, home: Path) -> None:
        self._command = command
        self._state = home / STATE_DIR
        self._was_quiet = False

    @property
    def command(self) -> HarnessCommand:
        return self._command

    def is_ready(self, output: Path) -> bool:
        try:
            return _READY.search(_COLOUR.sub(b"", output.read_bytes())) is not None
        except OSError:
            return False

    def is_settled(self) -> bool:
        """Twice in a row: between the end of a child and the start of its announcement nothing is running."""
        quiet = self._is_quiet()
        settled = quiet and self._was_quiet
        self._was_quiet = quiet
        return settled

    def _is_quiet(self) -> bool:
        """Whether no run is under way and every subtask has ended, was delivered (or given up) and cleaned up. A
        database that cannot be read says nothing."""
        try:
            with _reading(self._state / STATE_DATABASE) as registry:
                if registry.execute(_RUNNING_TASKS).fetchone()[0]:
                    return False
                if not all(_is_over(payload) for (payload,) in registry.execute(_RUNS)):
                    return False
            for database in sorted(self._state.glob(AGENT_DATABASES)):
                with _reading(database) as sessions:
                    if sessions.execute(_RUNNING_SESSIONS).fetchone()[0]:
                        return False
        except sqlite3.Error:
            return False
        return True


@contextmanager
def _reading(database: Path) -> Iterator[sqlite3.Connection]:
    """The database, opened so that nothing can be written. Raises `sqlite3.Error`."""
    uri = f"{database.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
        yield connection


def _is_over(payload: object) -> bool:
    try:
        run = as_mapping(json.loads(payload)) if isinstance(payload, str) else {}
    except (ValueError, RecursionError):
        return False
    if as_mapping(run.get("execution")).get("status") != "terminal" or run.get("requesterSettleWake"):
        return False
    # A child that was stopped is never announced, and its delivery stays `pending` for ever (measured).
    stopped = run.get("endedReason") == _STOPPED and run.get("suppressAnnounceReason") == "killed"
    delivery = as_mapping(run.get("delivery")).get("status")
    return (stopped or delivery in _ENDED_DELIVERIES) and bool(run.get("cleanupCompletedAt"))
