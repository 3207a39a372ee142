"""Reads single native records: which tool calls, tool results and notifications one holds.

The shapes are those that 2.1.332 and 2.1.197 write (docs/harnesses/claude-code.md), and older ones as far as real logs
show them. Every function takes a record of any shape and returns what it can prove.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from roller_capture import json_text
from roller_capture.adapters.claude_code.facts import Notification, Place, ResultKind, ToolResult, ToolUse
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word

SYNTHETIC_MODEL = "<synthetic>"
"""The model name of assistant records that the harness wrote itself: no model output."""

DELEGATION_TOOLS = frozenset({"Agent", "Task"})
"""`Task` up to 2.1.50, `Agent` from 2.1.114 on."""

RESUME_TOOLS = frozenset({"SendMessage"})
RETRIEVAL_TOOLS = frozenset({"TaskOutput", "AgentOutputTool"})
STOP_TOOLS = frozenset({"TaskStop", "KillShell"})

TOOLS_BY_RESULT: Mapping[ResultKind, frozenset[str]] = {
    ResultKind.COMPLETED: DELEGATION_TOOLS | RESUME_TOOLS,
    ResultKind.LAUNCHED: DELEGATION_TOOLS | RESUME_TOOLS,
    ResultKind.OTHER_STATUS: DELEGATION_TOOLS | RESUME_TOOLS,
    ResultKind.RESUMED: RESUME_TOOLS,
    ResultKind.RETRIEVED: RETRIEVAL_TOOLS,
}
"""The tools whose results can say so of an agent. Any other tool's result is the words of that tool."""

_LAUNCH_TEXT = "Async agent launched successfully"
_AGENT_LINE = re.compile(r"^agentId: ([A-Za-z0-9_-]{1,128})\b", re.MULTILINE)
_USAGE_LINE = re.compile(r"^<usage>", re.MULTILINE)
_NOTIFICATION = re.compile(
    r"\s*<task-notification>\s*<task-id>([^<>\s]{1,128})</task-id>\s*(?:<tool-use-id>([^<>\s]{1,512})</tool-use-id>)?"
)
_STATUS = re.compile(r"<status>([a-z_]{1,40})</status>")
_ID_KEYS: Mapping[str, str] = {"tool_use": "id", "tool_result": "tool_use_id"}
_TARGET_KEYS = ("to", "task_id", "resume", "agentId", "shell_id")


def blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The content blocks of a message; a plain string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in as_list(content) if isinstance(block, dict)]


def is_damaged(message: Mapping[str, Any]) -> bool:
    """Whether a message's content has not the form that every version gives it: a text, or a list of blocks of which
    each names its type and each tool call and tool result its id."""
    content = message.get("content")
    if isinstance(content, str):
        return False
    return not isinstance(content, list) or not all(map(_is_block, content))


def _is_block(block: object) -> bool:
    kind = as_text(as_mapping(block).get("type"))
    if kind is None:
        return False
    id_key = _ID_KEYS.get(kind)
    return id_key is None or as_id(as_mapping(block).get(id_key)) is not None


def tool_uses(message: Mapping[str, Any], *, uuid: str | None, place: Place) -> Iterator[ToolUse]:
    """The tool calls of an assistant message."""
    for block in blocks(message):
        tool_id = as_id(block.get("id"))
        if block.get("type") == "tool_use" and tool_id is not None:
            given = as_mapping(block.get("input"))
            target = next((as_id(given[key]) for key in _TARGET_KEYS if as_id(given.get(key))), None)
            yield ToolUse(tool_id, as_word(block.get("name")), as_id(message.get("id")), uuid, target, place)


INTERRUPTED_TEXT = "[Request interrupted by user"
"""With it the harness begins what it writes in place of a message or result that was cut from outside."""


def tool_results(record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> Iterator[ToolResult]:
    """The tool results of a user message. `toolUseResult` speaks for the record, so it counts only for a single one."""
    found = [block for block in blocks(message) if block.get("type") == "tool_result"]
    detail = as_mapping(record.get("toolUseResult")) if len(found) == 1 else {}
    for block in found:
        tool_id = as_id(block.get("tool_use_id"))
        if tool_id is None:
            continue
        kind, agent_id, status = _from_detail(detail)
        structured = kind is not ResultKind.PLAIN
        if not structured:
            kind, agent_id = _from_text(block)
        if block.get("is_error") is True:
            kind = _error_kind(record, block)
        source_uuid = as_id(record.get("sourceToolAssistantUUID"))
        yield ToolResult(tool_id, kind, agent_id, structured, status, source_uuid, place)


def _error_kind(record: Mapping[str, Any], block: Mapping[str, Any]) -> ResultKind:
    detail = as_text(record.get("toolUseResult")) or ""
    if (first_text(block) or "").startswith(INTERRUPTED_TEXT):
        return ResultKind.INTERRUPTED
    if as_text(record.get("toolDenialKind")) is not None or detail.startswith("User rejected"):
        return ResultKind.REJECTED
    return ResultKind.ERROR


def _from_detail(detail: Mapping[str, Any]) -> tuple[ResultKind, str | None, str | None]:
    status = as_word(detail.get("status"))
    resumed = as_id(detail.get("resumedAgentId"))
    if resumed is not None and detail.get("success") is True:
        return ResultKind.RESUMED, resumed, None
    task = as_mapping(detail.get("task"))
    task_id = as_id(task.get("task_id"))
    if task_id is not None:
        done = detail.get("retrieval_status") == "success" and task.get("status") in ("completed", "failed")
        if done:
            return ResultKind.RETRIEVED, task_id, as_word(task["status"])
    agent_id = as_id(detail.get("agentId"))
    if agent_id is None or task_id is not None:
        return ResultKind.PLAIN, None, as_word(detail.get("retrieval_status"))
    if status == "async_launched" or detail.get("isAsync") is True:
        return ResultKind.LAUNCHED, agent_id, status
    return (ResultKind.COMPLETED if status == "completed" else ResultKind.OTHER_STATUS), agent_id, status


def _from_text(block: Mapping[str, Any]) -> tuple[ResultKind, str | None]:
    """What the harness's own part of a result text says, for results in a child's log, which have no detail.

    The harness puts its line with the agent id last; the model's words come before it (2.1.197) or are indented
    (2.1.332), so the last line at column zero is the harness's.
    """
    texts = [as_text(part.get("text")) or "" for part in blocks(block) if part.get("type") == "text"]
    if not texts:
        return ResultKind.PLAIN, None
    agents = _AGENT_LINE.findall(texts[-1])
    if len(texts) == 1 and texts[0].startswith(_LAUNCH_TEXT) and not _USAGE_LINE.search(texts[0]):
        return ResultKind.LAUNCHED, agents[0] if agents else None
    if agents:
        return ResultKind.COMPLETED, agents[-1]
    resumed = _resumed_in_text(texts[0]) if len(texts) == 1 else None
    return (ResultKind.RESUMED, resumed) if resumed is not None else (ResultKind.PLAIN, None)


def _resumed_in_text(text: str) -> str | None:
    if '"resumedAgentId"' not in text[:4096]:
        return None
    try:
        value = as_mapping(json_text.parse(text.encode()))
    except (json_text.JsonError, UnicodeEncodeError):
        return None
    return as_id(value.get("resumedAgentId")) if value.get("success") is True else None


def notification(text: str, *, place: Place, uuid: str | None, delivered: bool) -> Notification | None:
    """The notification at the start of `text`. Only what stands before the agent's own words is read."""
    match = _NOTIFICATION.match(text)
    if match is None:
        return None
    head = text[match.end() :].partition("<summary>")[0].partition("<result>")[0]
    status = _STATUS.search(head)
    return Notification(match[1], match[2], status[1] if status else None, place, uuid, delivered, text.strip())


def notification_text(record: Mapping[str, Any]) -> str | None:
    """The text of a record that the harness itself marks as a notification put into the conversation; empty where such
    a record has none."""
    if record.get("type") == "user":
        marked = as_mapping(record.get("origin")).get("kind") == "task-notification"
        return first_text(as_mapping(record.get("message"))) or "" if marked else None
    attachment = as_mapping(record.get("attachment"))
    if attachment.get("type") == "queued_command" and attachment.get("commandMode") == "task-notification":
        prompt = attachment.get("prompt")
        return first_text({"content": prompt}) or ""
    return None


def parent_uuid(record: Mapping[str, Any]) -> str | None:
    """The record that this one goes on from: `parentUuid`. A compaction begins a new chain without one, and names the
    last record before it in `logicalParentUuid`; what stood there is still in the conversation, whole or summed up."""
    if record.get("type") == "system" and record.get("subtype") == "compact_boundary":
        return as_id(record.get("parentUuid")) or as_id(record.get("logicalParentUuid"))
    return as_id(record.get("parentUuid"))


def first_text(message: Mapping[str, Any]) -> str | None:
    """The first text block of a message."""
    return next((as_text(block.get("text")) for block in blocks(message) if block.get("type") == "text"), None)


def looks_like_notification(record: Mapping[str, Any]) -> bool:
    """Whether an unmarked user text, or queued command, has the form of a notification: perhaps a version that marks
    none."""
    if record.get("type") == "user":
        text = first_text(as_mapping(record.get("message")))
    else:
        text = first_text({"content": as_mapping(record.get("attachment")).get("prompt")})
    return text is not None and _NOTIFICATION.match(text) is not None
