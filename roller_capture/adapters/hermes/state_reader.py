"""Reads the extract of `state.db` (see `store`)."""

import re
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.facts import (
    Background,
    ChildResult,
    DelegationResult,
    LastRow,
    Place,
    Session,
    State,
    ToolUse,
)
from roller_capture.adapters.hermes.store import BACKGROUND, MESSAGES, SESSIONS, STATE
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.vocabulary import AttemptErrorCode

DELEGATION_TOOL: Final = "delegate_task"

NOTICE: Final = re.compile(r"\[ASYNC DELEGATION (?:BATCH )?COMPLETE — (deleg_[0-9a-f]{1,32})\]")
"""How the message begins by which a background delegation reports its end."""

_MOST_TASKS: Final = 10_000


def read_state(stream: BinaryIO, gaps: GapLog) -> State:
    """The rows; lines that cannot be read are gaps. Raises `OSError`."""
    state = State()
    for line in read_lines(stream):
        if line.problem is not None:
            reason = f"a row {line.problem.value}"
            gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=STATE, line=line.number)
            continue
        place = Place(STATE, line.number)
        table = line.record.get("table")
        if table == SESSIONS.name:
            _session(line.record, place, state, gaps)
        elif table == MESSAGES.name:
            _message(line.record, place, state, gaps)
        elif table == BACKGROUND.name:
            _background(line.record, place, state)
    return state


def _session(row: Mapping[str, Any], place: Place, state: State, gaps: GapLog) -> None:
    session_id = as_id(row.get("id"))
    if session_id is None:
        _strange("a session without a usable id", place, gaps)
        return
    if session_id in state.sessions:
        reason = "two rows of sessions have the same id"
        gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=STATE, line=place.line)
        return
    configuration = as_mapping(_parsed(row.get("model_config")))
    state.sessions[session_id] = Session(
        session_id,
        as_word(row.get("source")),
        as_id(row.get("parent_session_id")),
        as_id(configuration.get("_delegate_from")),
        as_word(row.get("end_reason")),
        place,
    )


def _message(row: Mapping[str, Any], place: Place, state: State, gaps: GapLog) -> None:
    session_id = as_id(row.get("session_id"))
    if session_id is None:
        _strange("a message without a usable session id", place, gaps)
        return
    role = as_word(row.get("role"))
    content = as_text(row.get("content")) or ""
    state.last_rows[session_id] = LastRow(role, as_word(row.get("finish_reason")), bool(content.strip()), place)
    if row.get("compacted") == 1:
        state.compacted.add(session_id)
    if role == "assistant":
        _tool_uses(row, session_id, place, state)
    elif role == "tool" and row.get("tool_name") == DELEGATION_TOOL:
        _result(row, session_id, content, place, state)
    elif role == "user" and (match := NOTICE.match(content)) is not None:
        state.notices.setdefault((session_id, match[1]), []).append(place)


def _tool_uses(row: Mapping[str, Any], session_id: str, place: Place, state: State) -> None:
    for item in as_list(_parsed(row.get("tool_calls"))):
        call = as_mapping(item)
        function = as_mapping(call.get("function"))
        tool_id, name = as_id(call.get("id")), as_text(function.get("name"))
        if tool_id is not None and name is not None:
            state.uses.setdefault((session_id, tool_id), []).append(ToolUse(name, place))


def _result(row: Mapping[str, Any], session_id: str, content: str, place: Place, state: State) -> None:
    tool_id = as_id(row.get("tool_call_id"))
    if tool_id is None:
        return
    value = as_mapping(_parsed(content))
    children: dict[int, ChildResult | None] = {}
    for item in as_list(value.get("results")):
        part = as_mapping(item)
        index = part.get("task_index")
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < _MOST_TASKS:
            one = ChildResult(as_word(part.get("status")), as_word(part.get("exit_reason")))
            children[index] = None if index in children else one
    dispatched_as = as_id(value.get("delegation_id")) if value.get("status") == "dispatched" else None
    result = DelegationResult(children, dispatched_as, place)
    state.results.setdefault((session_id, tool_id), []).append(result)


def _background(row: Mapping[str, Any], place: Place, state: State) -> None:
    delegation_id = as_id(row.get("delegation_id"))
    if delegation_id is not None:
        told = Background(as_word(row.get("state")), as_word(row.get("delivery_state")), place)
        state.background[delegation_id] = told


def _parsed(value: object) -> object:
    """The JSON value of a column that holds JSON text, or `None`."""
    if not isinstance(value, str):
        return None
    try:
        return json_text.parse(value.encode("utf-8", "surrogatepass"))
    except json_text.JsonError:
        return None


def _strange(what: str, place: Place, gaps: GapLog) -> None:
    gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, what, source=STATE, line=place.line)
