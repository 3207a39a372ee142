"""What the single records of OpenCode mean: message and part data of 1.x, and the shapes of 2.x.

1.x was measured with 1.18.33; 1.2.x differs in the text of a task's result only. 2.x is known from a description of
its background subagents alone (docs/harnesses/opencode.md, "OpenCode 2.x"): the tool is `subagent`, its record has
`metadata.sessionID` and `status`, and a child's end is a synthetic message with `childID` and `state`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.adapters.opencode.facts import Notice, Result, ToolCall
from roller_capture.adapters.opencode.places import Place

TASK: Final = "task"
SUBAGENT: Final = "subagent"
DELEGATION_TOOLS: Final = frozenset({TASK, SUBAGENT})

_RUNNING: Final = "running"
_COMPLETED: Final = "completed"
_SESSION_ID: Final = r"(ses_[A-Za-z0-9]{1,100})"
_WRAPPERS: Final = (
    re.compile(rf'<task id="{_SESSION_ID}" state="([a-z_]{{1,40}})"'),
    re.compile(rf'<subagent sessionID="{_SESSION_ID}" state="([a-z_]{{1,40}})"'),
    re.compile(rf"task_id: {_SESSION_ID}()"),
)
"""How a result begins: 1.18 and 2.x, which tell the child's state, and 1.2, which does not."""

_SENTENCE: Final = re.compile(rf"\A[^<\n]{{0,200}}\(sessionID: {_SESSION_ID}\)")
"""In the acknowledgement of 2.x."""


class Wrapper(NamedTuple):
    """The child and its state, as the harness wrapped a result for the model."""

    child_id: str
    state: str | None


def wrapper_of(text: str) -> Wrapper | None:
    """The wrapper that a text begins with."""
    for pattern in _WRAPPERS:
        if match := pattern.match(text):
            return Wrapper(match[1], match[2] or None)
    return None


def tool_call_of(part: Mapping[str, Any], place: Place) -> ToolCall | None:
    """A tool part; `None` where it has no tool name or no id. (In 1.x `id` is that of the part, not of the call.)"""
    name = as_text(part.get("tool")) or as_text(part.get("name"))
    call_id = as_id(part.get("callID")) or (as_id(part.get("id")) if name == SUBAGENT else None)
    if call_id is None or name is None:
        return None
    if name == TASK:
        return _task_call(call_id, part, place)
    return _subagent_call(call_id, part, place) if name == SUBAGENT else ToolCall(call_id, name, place)


def uses_tokens(message: Mapping[str, Any]) -> bool:
    """Whether a message's `tokens` tell of a model call: any number other than zero, or nothing that can be read."""
    tokens = as_mapping(message.get("tokens"))
    numbers = [*tokens.values(), *as_mapping(tokens.get("cache")).values()]
    is_told = {"input", "output"} <= tokens.keys()
    return not is_told or any(number != 0 for number in numbers if not isinstance(number, Mapping))


def names_child(part: Mapping[str, Any]) -> bool:
    """Whether a tool part of 1.x has what the delegating tool's has: the sessions of a child and of its parent."""
    metadata = as_mapping(as_mapping(part.get("state")).get("metadata"))
    return as_id(metadata.get("sessionId")) is not None and as_id(metadata.get("parentSessionId")) is not None


def _task_call(call_id: str, part: Mapping[str, Any], place: Place) -> ToolCall:
    state = as_mapping(part.get("state"))
    metadata = as_mapping(state.get("metadata"))
    child_id = as_id(metadata.get("sessionId"))
    background = metadata.get("background") is True
    result = _result_of_task(state.get("status"), background=background, interrupted=metadata.get("interrupted"))
    wrapper = wrapper_of(as_text(state.get("output")) or "")
    if child_id is not None and _contradicts(wrapper, child_id, result):
        result = Result.OTHER
    if background and as_id(metadata.get("jobId")) not in (None, child_id):
        result = Result.OTHER
    return ToolCall(
        call_id,
        TASK,
        place,
        child_id=child_id,
        parent_id=as_id(metadata.get("parentSessionId")),
        result=result,
        word=as_word(state.get("status")),
        names_two=_names_other(wrapper, child_id),
        cleared=as_mapping(state.get("time")).get("compacted") is not None,
    )


def _result_of_task(status: object, *, background: bool, interrupted: object) -> Result:
    if status == _COMPLETED:
        return Result.LAUNCHED if background else Result.COMPLETED
    if status == "error":
        return Result.INTERRUPTED if interrupted is True else Result.FAILED
    return Result.OPEN if status in ("pending", _RUNNING) else Result.OTHER


def _subagent_call(call_id: str, part: Mapping[str, Any], place: Place) -> ToolCall:
    """2.x: the record of the call, or its `state`, has `metadata {sessionID, status}`."""
    state = as_mapping(part.get("state"))
    metadata = as_mapping(part.get("metadata")) or as_mapping(state.get("metadata"))
    text = _first_text(part) or _first_text(state)
    child_id = as_id(metadata.get("sessionID")) or as_id(metadata.get("sessionId")) or as_id(metadata.get("childID"))
    match = _SENTENCE.match(text)
    told = match[1] if match is not None else None
    from_text = child_id is None
    child_id = child_id or told
    status = metadata.get("status")
    result = {_COMPLETED: Result.COMPLETED, _RUNNING: Result.LAUNCHED}.get(str(status), Result.OTHER)
    if status is None and not text:
        result = Result.OPEN
    wrapper = wrapper_of(text)
    if child_id is not None and _contradicts(wrapper, child_id, result):
        result = Result.OTHER
    return ToolCall(
        call_id,
        SUBAGENT,
        place,
        child_id=child_id,
        from_text=from_text and child_id is not None,
        names_two=_names_other(wrapper, child_id) or told not in (None, child_id),
        result=result,
        word=as_word(status),
    )


def _first_text(record: Mapping[str, Any]) -> str:
    output = as_text(record.get("output"))
    if output is not None:
        return output
    texts = [as_text(as_mapping(block).get("text")) for block in as_list(record.get("content"))]
    return next((text for text in texts if text is not None), "")


def _contradicts(wrapper: Wrapper | None, child_id: str, result: Result) -> bool:
    """Whether the text for the model names another child, or another state, than the record."""
    if wrapper is None:
        return False
    states = {Result.COMPLETED: _COMPLETED, Result.LAUNCHED: _RUNNING}
    told = wrapper.state is None or result not in states or wrapper.state == states[result]
    return wrapper.child_id != child_id or not told


def _names_other(wrapper: Wrapper | None, child_id: str | None) -> bool:
    return wrapper is not None and child_id is not None and wrapper.child_id != child_id


def notice_of_text(part: Mapping[str, Any], place: Place) -> Notice | None:
    """1.x: an automatic text part that wraps a child's end. The same text typed by a user is not marked `synthetic`."""
    text = as_text(part.get("text"))
    if part.get("synthetic") is not True or text is None:
        return None
    wrapper = wrapper_of(text)
    return None if wrapper is None else Notice(wrapper.child_id, wrapper.state, text, place)


def notice_of_message(message: Mapping[str, Any], place: Place) -> Notice | None:
    """2.x: a message of type `synthetic` with `metadata {source: "subagent", childID, state}`.

    The acknowledgement spells the child `sessionID`, this message `childID`; either is read in both. A text that wraps
    another child or another state than the metadata gives is no notice of a state: it has none.
    """
    metadata = as_mapping(message.get("metadata"))
    if message.get("type") != "synthetic" or metadata.get("source") != SUBAGENT:
        return None
    child_id = as_id(metadata.get("childID")) or as_id(metadata.get("sessionID")) or as_id(metadata.get("sessionId"))
    text = as_text(message.get("text")) or _first_text(message)
    if child_id is None:
        return None
    state = as_word(metadata.get("state"))
    wrapper = wrapper_of(text)
    if wrapper is not None and wrapper != Wrapper(child_id, state):
        state = None
    return Notice(child_id, state, text, place)
