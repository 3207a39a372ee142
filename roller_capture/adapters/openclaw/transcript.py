"""The events of a transcript, as far as they prove anything (session file version 4)."""

from collections.abc import Mapping
from typing import Any, Final

from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.adapters.openclaw.facts import Answer, Input, Place, Thread, ToolCall, ToolResult

SPAWN_TOOL: Final = "sessions_spawn"
SEND_TOOL: Final = "sessions_send"
_TASKS_TOOL: Final = "subagents"
_OWN_MODELS: Final = frozenset({"gateway-injected", "delivery-mirror"})
"""Names under which the gateway enters messages of its own."""
_FAILED: Final = frozenset({"error", "aborted"})
_USER: Final = ":user"
_LONGEST_KEY: Final = 16 * 1024


def is_damaged(event: Mapping[str, Any]) -> bool:
    """Whether an event lacks what each of its kind has: a type; a message also its role; a tool's the id of its call,
    and the model's its content and the run that it was made in."""
    kind, message = as_text(event.get("type")), as_mapping(event.get("message"))
    if kind != "message":
        return kind is None
    role = as_text(message.get("role"))
    if role == "toolResult":
        return as_id(message.get("toolCallId")) is None
    if role != "assistant":
        return role is None
    blocks = message.get("content")
    by_model = not {as_text(message.get("model")), as_text(message.get("provider"))} & _OWN_MODELS
    return not isinstance(blocks, list) or not all(map(_is_block, blocks)) or (by_model and _run_id(message) is None)


def _is_block(block: object) -> bool:
    kind = as_text(as_mapping(block).get("type"))
    return kind is not None and (kind != "toolCall" or as_id(as_mapping(block).get("id")) is not None)


def add_event(thread: Thread, event: Mapping[str, Any], place: Place) -> None:
    """Adds one event. Those of other types only keep the chain of predecessors."""
    thread.entries += 1
    entry_id = as_id(event.get("id"))
    if entry_id is not None and event.get("type") != "session":
        thread.parents[entry_id] = as_id(event.get("parentId"))
    if event.get("type") == "compaction":
        run_id = _run_id(event)
        if run_id is not None:
            thread.compactions.setdefault(run_id, place)
    if event.get("type") == "message":
        _add_message(thread, entry_id, as_mapping(event.get("message")), place)


def _add_message(thread: Thread, entry_id: str | None, message: Mapping[str, Any], place: Place) -> None:
    role = message.get("role")
    if role == "assistant":
        answer = _answer(entry_id, message, place)
        thread.answers.append(answer)
        if answer.run_id is not None:
            thread.runs.setdefault(answer.run_id, place)
    elif role == "toolResult":
        result = _tool_result(message, place)
        if result is not None:
            thread.results.append(result)
        cancelled = _cancelled_task(message)
        if cancelled is not None:
            thread.cancelled.add(cancelled)
    elif role == "user":
        key = as_text(message.get("idempotencyKey"))
        if key is not None and 0 < len(key) <= _LONGEST_KEY:
            source = as_mapping(message.get("provenance"))
            source_key, source_tool = as_id(source.get("sourceSessionKey")), as_word(source.get("sourceTool"))
            text = _content_text(message.get("content"))
            thread.inputs.append(Input(entry_id, key, text, place, source_key, source_tool))
            if key.endswith(_USER):
                thread.runs.setdefault(key.removesuffix(_USER), place)


def _answer(entry_id: str | None, message: Mapping[str, Any], place: Place) -> Answer:
    calls = [block for block in map(as_mapping, as_list(message.get("content"))) if block.get("type") == "toolCall"]
    stop_reason = as_word(message.get("stopReason"))
    response_id = as_id(message.get("responseId"))
    by_model = not {as_text(message.get("model")), as_text(message.get("provider"))} & _OWN_MODELS
    return Answer(
        entry_id=entry_id,
        run_id=_run_id(message),
        response_id=response_id if by_model else None,
        stop_reason=stop_reason,
        is_output=by_model and (response_id is not None or stop_reason not in _FAILED),
        tool_calls=tuple(
            ToolCall(tool_id, as_word(block.get("name")), position)
            for position, block in enumerate(calls)
            if (tool_id := as_id(block.get("id"))) is not None
        ),
        place=place,
    )


def _run_id(holder: Mapping[str, Any]) -> str | None:
    run_id = as_text(as_mapping(holder.get("__openclaw")).get("runId"))
    return run_id if run_id is not None and 0 < len(run_id) <= _LONGEST_KEY else None


def _tool_result(message: Mapping[str, Any], place: Place) -> ToolResult | None:
    """The result of a tool that starts or addresses a session."""
    tool_id = as_id(message.get("toolCallId"))
    name = as_word(message.get("toolName"))
    if tool_id is None or name not in (SPAWN_TOOL, SEND_TOOL):
        return None
    details = as_mapping(message.get("details"))
    return ToolResult(
        tool_id=tool_id,
        tool_name=name,
        status=as_word(details.get("status")),
        session_key=as_id(details.get("childSessionKey" if name == SPAWN_TOOL else "sessionKey")),
        run_id=as_text(details.get("runId")),
        task_run_id=as_id(details.get("taskRunId")),
        is_error=message.get("isError") is True,
        place=place,
        owes_announcement=as_mapping(details.get("delivery")).get("status") == "pending",
        sent_before_error=details.get("sentBeforeError") is True,
    )


def _cancelled_task(message: Mapping[str, Any]) -> str | None:
    """The task that a tool call has stopped. OpenClaw marks such a result as an error (measured)."""
    details = as_mapping(message.get("details"))
    if message.get("toolName") != _TASKS_TOOL or details.get("cancelled") is not True:
        return None
    return as_id(details.get("taskId"))


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    texts = [as_text(as_mapping(block).get("text")) for block in as_list(content)]
    return "\n".join(text for text in texts if text is not None)
