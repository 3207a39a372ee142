"""Reads the extract of our plugin's log (see `store`; the plugin is hooks/hermes/roller_capture)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.facts import (
    Answer,
    ChildStart,
    Place,
    PluginLog,
    Request,
    RequestError,
    Turn,
    TurnEnd,
)
from roller_capture.adapters.hermes.store import EVENTS
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_word
from roller_capture.vocabulary import AttemptErrorCode

OWN_TURN: Final = "turn"
"""The plugin's word for an agent's own turn; anything else is an instance that works behind its back."""

_SUBAGENT_ID: Final = re.compile(r"sa-([0-9]{1,4})-[0-9a-f]+")
"""Hermes's own name of a subagent: the index of its task in the batch, and a random part."""


def read_plugin_log(stream: BinaryIO, gaps: GapLog) -> PluginLog:
    """The events; lines that cannot be read are gaps. Raises `OSError`."""
    log = PluginLog()
    for line in read_lines(stream):
        if line.problem is not None:
            reason = f"an event {line.problem.value}"
            gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=EVENTS, line=line.number)
            continue
        kind = line.record.get("event")
        if kind == "hook":
            _hook(line.record, Place(EVENTS, line.number), log)
            continue
        session_id = as_id(line.record.get("session_id"))
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None or session_id is None:
            reason = "an event of unknown kind or without a session id"
            gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=EVENTS, line=line.number)
        elif not reader(line.record, session_id, Place(EVENTS, line.number), log):
            reason = "an event lacks an id or a value"
            gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=EVENTS, line=line.number)
    return log


def _hook(record: Mapping[str, Any], place: Place, log: PluginLog) -> None:
    log.hook = log.hook or place
    version = as_word(record.get("harness_version"))
    if version is not None:
        log.versions.add(version)


def _child(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    subagent = as_id(record.get("subagent_id")) or ""
    match = _SUBAGENT_ID.fullmatch(subagent)
    index = int(match[1]) if match else None
    parent_id, tool_id = as_id(record.get("parent_session_id")), as_id(record.get("tool_call_id"))
    log.children.append(ChildStart(session_id, parent_id, tool_id, index, place))
    return True


def _child_end(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:  # noqa: ARG001
    log.child_ends[session_id] = place
    return True


def _turn(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    turn_id = as_id(record.get("turn_id"))
    if turn_id is not None and record.get("origin") == OWN_TURN:
        log.turns.append(Turn(turn_id, session_id, as_id(record.get("delegation_id")), place))
    return turn_id is not None


def _turn_end(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    turn_id, completed, interrupted = as_id(record.get("turn_id")), record.get("completed"), record.get("interrupted")
    if turn_id is None or not isinstance(completed, bool) or not isinstance(interrupted, bool):
        return False
    # Looked up by the ids of an agent's own turns alone.
    log.turn_ends[turn_id] = TurnEnd(session_id, completed, interrupted, place)
    return True


def _request(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    request_id = as_id(record.get("request_id"))
    if request_id is not None and record.get("origin") == OWN_TURN:
        log.requests.append(Request(request_id, session_id, as_id(record.get("turn_id")), place))
    return request_id is not None


def _output(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    request_id = as_id(record.get("request_id"))
    if request_id is not None:
        log.outputs.setdefault(request_id, Request(request_id, session_id, None, place))
    return request_id is not None


def _response(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:
    request_id, response_id = as_id(record.get("request_id")), as_id(record.get("response_id"))
    if request_id is None or response_id is None:
        return False
    log.answers.append(Answer(response_id, request_id, session_id, place))
    return True


def _error(record: Mapping[str, Any], session_id: str, place: Place, log: PluginLog) -> bool:  # noqa: ARG001
    request_id = as_id(record.get("request_id"))
    if request_id is not None:
        log.errors.setdefault(request_id, []).append(RequestError(as_word(record.get("reason")), place))
    return request_id is not None


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], str, Place, PluginLog], bool]]] = {
    "child": _child,
    "child_end": _child_end,
    "turn": _turn,
    "turn_end": _turn_end,
    "request": _request,
    "output": _output,
    "response": _response,
    "error": _error,
}
"""Each takes one event in; `False` where it lacks an id or a value."""
