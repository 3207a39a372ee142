"""Who launched whom: the delegations that both sides of OpenCode's log agree on.

The tool part in the parent's session names the child's session, and the child's row names its parent (measured with
1.18.33). Only both together prove a launch. A call that was refused before a child existed (depth limit, background not
switched on, unknown agent) names none, and none is made up.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.opencode.facts import Log, Message, Result, Session, ToolCall
from roller_capture.adapters.opencode.record_shapes import DELEGATION_TOOLS
from roller_capture.vocabulary import AttemptErrorCode

_UNPROVEN: Final = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
_NO_CHILD_NEEDED: Final = frozenset({Result.FAILED, Result.INTERRUPTED, Result.OPEN})


@dataclass(frozen=True, slots=True)
class Delegation:
    """One delegating tool call and its child. `number` counts those of one child; `unique_id` tells that the parent's
    session has the tool id only once."""

    parent: Session
    child: Session
    message: Message
    call: ToolCall
    number: int
    unique_id: bool


@dataclass(slots=True)
class Family:
    """The delegations by child, in the order in which they were recorded; `doubtful` are children of which a record
    speaks that does not fit."""

    of_child: dict[str, list[Delegation]] = field(default_factory=lambda: defaultdict(list))
    doubtful: set[str] = field(default_factory=set)
    missing: bool = False
    """A record names a child that the log does not hold."""
    parentless: frozenset[str] = frozenset()
    """Sessions that are their own ancestors, or whose requests name another parent: nothing says who launched them."""


def find_family(log: Log, contradicted: frozenset[str], gaps: GapLog) -> Family:
    """All delegations of a log. `contradicted` are the sessions whose requests name another parent than their rows."""
    circular = _circular(log.sessions)
    for session_id in sorted(circular):
        reason = "a session is its own ancestor"
        log.sessions[session_id].place.note(gaps, AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason)
    family = Family(parentless=circular | contradicted)
    family.doubtful |= family.parentless
    for parent in log.sessions.values():
        uses = Counter(call.call_id for _, call in parent.tool_calls())
        for message, call in parent.tool_calls():
            if call.name in DELEGATION_TOOLS:
                _add(family, log.sessions, parent, message, call, gaps, unique_id=uses[call.call_id] == 1)
    for session in log.sessions.values():
        if session.parent_id is not None and not family.of_child.get(session.identifier):
            session.place.note(gaps, _UNPROVEN, "no tool call that is there launched a child")
            family.doubtful.add(session.identifier)
    return family


def _circular(sessions: Mapping[str, Session]) -> frozenset[str]:
    found: set[str] = set()
    settled: set[str] = set()
    for session_id in sessions:
        line: list[str] = []
        place: str | None = session_id
        while place is not None and place in sessions and place not in settled:
            if place in line:
                found.update(line[line.index(place) :])
                break
            line.append(place)
            place = sessions[place].parent_id
        settled.update(line)
    return frozenset(found)


def _add(
    family: Family,
    sessions: Mapping[str, Session],
    parent: Session,
    message: Message,
    call: ToolCall,
    gaps: GapLog,
    *,
    unique_id: bool,
) -> None:
    if call.child_id is None:
        if call.result not in _NO_CHILD_NEEDED:
            call.place.note(gaps, AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a finished delegation names no child")
        return
    child = sessions.get(call.child_id)
    if child is None:
        family.missing = True
        reason = "a delegation names a child whose session is not there"
        call.place.note(gaps, AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason)
        return
    if child.identifier in family.parentless:
        return
    if child.parent_id != parent.identifier or call.parent_id not in (None, parent.identifier):
        family.doubtful.add(child.identifier)
        call.place.note(gaps, _UNPROVEN, "a delegation and its child do not name each other")
        return
    if call.names_two:
        family.doubtful.add(child.identifier)
        call.place.note(gaps, _UNPROVEN, "a delegation's record names one child, and its text for the model another")
        return
    if call.from_text:
        reason = "the child's id was read from the acknowledgement's sentence, since its metadata has none"
        call.place.note(gaps, AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason)
    if call.result is Result.OTHER:
        family.doubtful.add(child.identifier)
        call.place.note(gaps, _UNPROVEN, "a delegation's record has an unknown state, or contradicts itself")
    if not unique_id:
        reason = "a delegation's tool id stands for two tool calls of its session"
        call.place.note(gaps, AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason)
    known = family.of_child[child.identifier]
    known.append(Delegation(parent, child, message, call, len(known) + 1, unique_id))
