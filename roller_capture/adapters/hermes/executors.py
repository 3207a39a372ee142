"""Tells which sessions are one executor, and whose child each is.

A session that compaction went on with under a new id (`end_reason: compression` of the old one, which the new row names
as its parent) is the same participant with two native ids: design section 6. `parent_session_id` alone does not mean a
child: Hermes marks those with `source: subagent` and `_delegate_from`, and our plugin saw them start.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.facts import ChildStart, PluginLog, Session, State
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind

_ROTATED: Final = "compression"


@dataclass(slots=True)
class Executor:
    """One executing instance. `key` is its first session id; `start` is what our plugin saw of a child's beginning,
    `None` where it saw nothing or contradicted itself."""

    key: str
    sessions: list[Session]
    is_child: bool
    parent_key: str | None = None
    start: ChildStart | None = None

    @property
    def session_ids(self) -> tuple[str, ...]:
        """All its session ids, the oldest first."""
        return tuple(session.session_id for session in self.sessions)

    def evidence(self, kind: EvidenceKind = EvidenceKind.NATIVE_RECORD) -> Evidence:
        """Its first row."""
        return self.sessions[0].place.evidence(kind, "session", self.key)


@dataclass(frozen=True, slots=True)
class Executors:
    """Executors by key, and the key of each session's."""

    by_key: Mapping[str, Executor]
    key_of: Mapping[str, str]

    def of_session(self, session_id: str | None) -> Executor | None:
        """The executor that has this session id."""
        return self.by_key.get(self.key_of.get(session_id or "", ""))


def find_executors(state: State, log: PluginLog, gaps: GapLog) -> Executors:
    """The executors of an attempt; what contradicts itself is a gap, and then there is no parent."""
    starts = _starts(log, gaps)
    by_key: dict[str, Executor] = {}
    key_of: dict[str, str] = {}
    for chain in _chains(state, frozenset(starts), gaps):
        first = chain[0]
        started = starts.get(first.session_id)
        is_child = first.is_marked_child or first.session_id in starts
        by_key[first.session_id] = Executor(first.session_id, chain, is_child, start=started)
        key_of.update((session.session_id, first.session_id) for session in chain)
    executors = Executors(by_key, key_of)
    for executor in by_key.values():
        if executor.is_child:
            executor.parent_key = _parent_key(executor, executors, gaps)
    _break_circles(by_key, gaps)
    return executors


def _starts(log: PluginLog, gaps: GapLog) -> dict[str, ChildStart | None]:
    """How each child started; `None` where two events of one child disagree."""
    found: dict[str, ChildStart | None] = {}
    for start in log.children:
        known = found.setdefault(start.session_id, start)
        if known is not None and _said(known) != _said(start):
            reason = "the plugin saw one child start twice, each time otherwise"
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=start.place.source, line=start.place.line)
            found[start.session_id] = None
    return found


def _said(start: ChildStart) -> tuple[str | None, str | None, int | None]:
    return start.parent_session_id, start.tool_call_id, start.task_index


def _chains(state: State, started: frozenset[str], gaps: GapLog) -> Iterator[list[Session]]:
    """Sessions that compaction continued, joined, the oldest first; all others alone."""
    continues = {
        session.session_id: session.parent_id
        for session in state.sessions.values()
        if session.session_id not in started and _continues(session, state)
    }
    uses = Counter(continues.values())
    for session_id, earlier in list(continues.items()):
        if uses[earlier] > 1:
            reason = "two sessions say that they go on with the same one"
            place = state.sessions[session_id].place
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)
            del continues[session_id]
    later = {earlier: session_id for session_id, earlier in continues.items()}
    placed: set[str] = set()
    firsts = [session_id for session_id in state.sessions if session_id not in continues]
    for first in (*firsts, *state.sessions):  # the second time for those that go round in a circle
        chain: list[Session] = []
        current: str | None = first
        while current is not None and current not in placed:
            placed.add(current)
            chain.append(state.sessions[current])
            current = later.get(current)
        if chain:
            yield chain


def _continues(session: Session, state: State) -> bool:
    """Whether a row is that of a session which compaction went on with.

    Its mark `_delegate_from` is then that of the earlier row; a child of that session would have its id there.
    """
    earlier = state.sessions.get(session.parent_id or "")
    if earlier is None or earlier.end_reason != _ROTATED:
        return False
    return earlier.source == session.source and earlier.delegated_from == session.delegated_from


def _parent_key(executor: Executor, executors: Executors, gaps: GapLog) -> str | None:
    """The parent that row, mark and plugin agree on."""
    first, start = executor.sessions[0], executor.start
    named = [first.parent_id, first.delegated_from, start.parent_session_id if start is not None else None]
    keys = {executors.key_of.get(session_id) for session_id in named if session_id is not None}
    if len(keys) == 1 and None not in keys:
        return keys.pop()
    if keys == {None} or not keys:
        code, reason = AttemptErrorCode.PARTICIPANT_LOG_MISSING, "a child's parent is in no log"
    else:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        reason = "a child's row, its mark and the plugin name different parents"
    gaps.add(code, reason, source=first.place.source, line=first.place.line)
    return None


def _break_circles(by_key: Mapping[str, Executor], gaps: GapLog) -> None:
    """Takes the parents from all whose line of parents does not come to an end."""
    endless = [executor for executor in by_key.values() if _is_endless(executor, by_key)]
    for executor in endless:
        place = executor.sessions[0].place
        reason = "a session's line of parents has no end"
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=place.source, line=place.line)
        executor.parent_key = None


def _is_endless(executor: Executor, by_key: Mapping[str, Executor]) -> bool:
    seen: set[str] = set()
    current: str | None = executor.key
    while current is not None and current not in seen:
        seen.add(current)
        current = by_key[current].parent_key
    return current is not None
