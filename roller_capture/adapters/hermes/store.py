"""Takes out of a Hermes home what is evidence: rows of `state.db` and lines of our plugin's log, by allow-list.

Measured with 0.19.0: one SQLite database (write-ahead log on) holds all sessions of a home; system prompts and billing
addresses stand in it too and are left. Older homes have `sessions/request_dump_*.json` with credentials beside it:
nothing but the two files named here is ever opened. Only sessions that the attempt's requests name, and those that
descend from them, are taken.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_sqlite import Database, Selection, Table, open_database
from roller_capture.adapters.native_values import as_id
from roller_capture.vocabulary import AttemptErrorCode

STATE: Final = "state.jsonl"
"""The extract of `state.db`, as an evidence source and as a file of the attempt."""

EVENTS: Final = "plugin.jsonl"
"""The extract of our plugin's log, likewise."""

HOME: Final = ".hermes"
_DATABASE: Final = "state.db"
_PLUGIN_LOG: Final = PurePosixPath("roller_capture") / "events.jsonl"

SESSIONS: Final = Table(
    "sessions",
    (
        "id",
        "source",
        "parent_session_id",
        "model",
        "model_config",
        "started_at",
        "ended_at",
        "end_reason",
        "api_call_count",
    ),
    needed=("id", "source", "parent_session_id"),
    order=("started_at", "id"),
)
MESSAGES: Final = Table(
    "messages",
    (
        "id",
        "session_id",
        "role",
        "content",
        "tool_call_id",
        "tool_calls",
        "tool_name",
        "finish_reason",
        "active",
        "compacted",
        "timestamp",
    ),
    needed=("id", "session_id", "role"),
    order=("id",),
)
USAGE: Final = Table(
    "session_model_usage",
    ("session_id", "model", "task", "api_call_count"),
    needed=("session_id",),
    optional=True,  # early databases count nothing
)
BACKGROUND: Final = Table(
    "async_delegations",
    ("delegation_id", "parent_session_id", "state", "dispatched_at", "completed_at", "delivery_state", "delivered_at"),
    needed=("delegation_id", "parent_session_id"),
    optional=True,  # made with the first delegation in the background
)
_PARENTS: Final = Table("sessions", ("id", "parent_session_id"), needed=("id", "parent_session_id"))

_EVENT_KEYS: Final = (
    "event",
    "hook_version",
    "harness_version",
    "failed",
    "session_id",
    "parent_session_id",
    "turn_id",
    "request_id",
    "response_id",
    "subagent_id",
    "tool_call_id",
    "delegation_id",
    "origin",
    "finish",
    "status",
    "retry",
    "reason",
    "completed",
    "interrupted",
)


@dataclass(frozen=True, slots=True)
class Extract:
    """The two extracts, where there are any. `source` names them in evidence, `path` is where they lie."""

    state: Path | None
    events: Path | None


def find_extract(
    tree: NativeTree, root: Path, session_ids: frozenset[str], scratch: Path | None, gaps: GapLog
) -> Extract:
    """The extracts that a launcher has left in `root`, or new ones of the home there, written into `scratch`.

    What is missing is named. Raises `OSError` when `scratch` cannot be written to.
    """
    if any(tree.kind(PurePosixPath(name)) is PathKind.FILE for name in (STATE, EVENTS)):
        return Extract(*(_left_by_launcher(tree, root, name, gaps) for name in (STATE, EVENTS)))
    if scratch is None:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no place to copy the database to")
        return Extract(None, None)
    return extract_home(tree, session_ids, scratch, scratch / "extract", gaps)


def extract_home(tree: NativeTree, session_ids: frozenset[str], scratch: Path, target: Path, gaps: GapLog) -> Extract:
    """Writes the extracts of the Hermes home below `tree` into `target`; those of an earlier time are replaced."""
    home = _home(tree)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (STATE, EVENTS):
        (target / name).unlink(missing_ok=True)
    if home is None:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, f"there is no {_DATABASE} of Hermes")
        return Extract(None, None)
    wanted = session_ids
    state = None
    with open_database(tree, home / _DATABASE, scratch, gaps) as database:
        if database is not None:
            wanted = _with_descendants(database, session_ids)
            state = target / STATE
            database.extract(state, *_selections(wanted))
    return Extract(state, _extract_events(tree, home / _PLUGIN_LOG, wanted, target / EVENTS, gaps))


def _left_by_launcher(tree: NativeTree, root: Path, name: str, gaps: GapLog) -> Path | None:
    with tree.open(PurePosixPath(name), as_evidence=False) as stream:
        if stream is not None:
            return root / name
    code = AttemptErrorCode.HOOK_NOT_SEEN if name == EVENTS else AttemptErrorCode.NATIVE_LOGS_MISSING
    gaps.add(code, f"there is no {name} of the run")
    return None


def _home(tree: NativeTree) -> PurePosixPath | None:
    for home in (PurePosixPath(HOME), PurePosixPath()):
        if tree.kind(home / _DATABASE) in (PathKind.FILE, PathKind.REFUSED):
            return home
    return None


def _with_descendants(database: Database, session_ids: frozenset[str]) -> frozenset[str]:
    children: dict[str, list[str]] = {}
    known = set()
    for row in database.rows(Selection(_PARENTS)):
        session_id, parent_id = as_id(row.get("id")), as_id(row.get("parent_session_id"))
        if session_id is not None:
            known.add(session_id)
            if parent_id is not None:
                children.setdefault(parent_id, []).append(session_id)
    found = set()
    waiting = [session_id for session_id in session_ids if session_id in known]
    while waiting:  # ids can run in a circle
        session_id = waiting.pop()
        if session_id not in found:
            found.add(session_id)
            waiting += children.get(session_id, ())
    return frozenset(found)


def _selections(session_ids: frozenset[str]) -> tuple[Selection, ...]:
    return (
        Selection(SESSIONS, "id", session_ids),
        Selection(MESSAGES, "session_id", session_ids),
        Selection(USAGE, "session_id", session_ids),
        Selection(BACKGROUND, "parent_session_id", session_ids),
    )


def _extract_events(
    tree: NativeTree, path: PurePosixPath, session_ids: frozenset[str], target: Path, gaps: GapLog
) -> Path | None:
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            gaps.add(AttemptErrorCode.HOOK_NOT_SEEN, "the plugin that tells who makes a request has left no log")
            return None
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            hook: bytes | None = None
            for line in read_lines(stream):
                if line.problem is not None:
                    reason = f"a line {line.problem.value}"
                    gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=EVENTS, line=line.number)
                    continue
                text = json_text.dumps(_allowed(line.record)) + b"\n"
                if line.record.get("event") == "hook":
                    hook = text
                elif _names(line.record, session_ids):
                    out.write((hook or b"") + text)
                    hook = None
                elif as_id(line.record.get("session_id")) is None:
                    reason = "an event names no session, so that it may be of any"
                    gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=EVENTS, line=line.number)
    return target


def _allowed(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in _EVENT_KEYS if isinstance(record.get(name), (str, int, float, bool))}


def _names(record: Mapping[str, Any], session_ids: frozenset[str]) -> bool:
    return not session_ids.isdisjoint(map(as_id, (record.get("session_id"), record.get("parent_session_id"))))
