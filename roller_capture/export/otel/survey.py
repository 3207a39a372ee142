"""What has to be known of an attempt before its spans can be told: one pass over the heads of its calls.

A tool call's id counts only if one call of its participant made it: an id that two answers hold proves nothing.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from roller_capture.api import Attempt, Call, Relation
from roller_capture.export.otel.otlp import unix_nanoseconds
from roller_capture.vocabulary import Protocol, RelationType


class ToolCall(NamedTuple):
    """A tool call in an answer: the call that asked for it, the tool, and when the answer had come."""

    call_id: str
    name: str | None
    asked_at: int | None


ToolKey = tuple[str, str]
"""Participant id, tool call id of the model's output."""


@dataclass(slots=True)
class Extent:
    """From a participant's first request to the end of its last answer, in Unix nanoseconds."""

    start: int
    end: int
    protocols: set[Protocol] = field(default_factory=set)
    conversation_id: str | None = None


@dataclass(slots=True)
class Survey:
    """Times by participant, and tool calls by participant and id."""

    extents: dict[str, Extent] = field(default_factory=dict)
    tool_calls: dict[ToolKey, ToolCall] = field(default_factory=dict)
    not_unique: set[ToolKey] = field(default_factory=set)
    launches: dict[str, list[tuple[ToolKey, Relation]]] = field(default_factory=dict)
    """Child → the tool calls that launched it, by spawn relations whose call is resolved."""
    launched: dict[ToolKey, list[str]] = field(default_factory=dict)
    """The same the other way."""


def survey(attempt: Attempt) -> Survey:
    """Reads the heads; contexts are not looked at."""
    found = Survey()
    for call in attempt.calls():
        if call.participant_id is not None:
            _add(found, call.participant_id, call)
    for relation in attempt.relations:
        if relation.type is RelationType.SPAWN:
            _add_launch(found, relation)
    return found


def times_of(call: Call) -> tuple[int | None, int | None]:
    """Start and end of a call. Where its end is not known, or OTLP has no such time, it is the last that was seen."""
    timing = call.record["timing"]
    start, *later = (unix_nanoseconds(timing[name]) for name in ("request_start", "request_end", "first_byte", "end"))
    known = [moment for moment in later if moment is not None]
    return start, known[-1] if known else start


def _add(found: Survey, owner: str, call: Call) -> None:
    start, end = times_of(call)
    if start is not None and end is not None:
        extent = found.extents.setdefault(owner, Extent(start, end))
        extent.start, extent.end = min(extent.start, start), max(extent.end, end)
        extent.protocols.add(call.protocol)
        extent.conversation_id = extent.conversation_id or conversation_id(call)
    for reference in call.record["tool_refs"]:
        if reference["tool_call_id"] is None:
            continue
        key = (owner, reference["tool_call_id"])
        if key in found.tool_calls:
            found.not_unique.add(key)
        found.tool_calls[key] = ToolCall(call.call_id, reference["name"], end)


def _add_launch(found: Survey, relation: Relation) -> None:
    reference, parent = relation.record["model_tool_ref"], relation.parent_participant_id
    if parent is None or relation.parent_call_id is None or not reference or reference["call_id"] is None:
        return
    key = (parent, reference["call_id"])
    made = found.tool_calls.get(key)
    if made is None or key in found.not_unique or made.call_id != relation.parent_call_id:
        return
    found.launches.setdefault(relation.child_participant_id, []).append((key, relation))
    found.launched.setdefault(key, []).append(relation.child_participant_id)


def conversation_id(call: Call) -> str | None:
    """The harness's own id of the session or thread, where the call carried one."""
    identity = call.record["native_identity"]
    value = identity.get("thread_id") or identity.get("session_id")
    return None if value is None else str(value)
