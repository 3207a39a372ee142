"""The SFT form of an ACTF row: messages and tools as chat templates take them, and nothing that tells how to train."""

from typing import Any, Final

from roller_capture import json_text
from roller_capture.export.chat.transcript import AGENT_MESSAGE
from roller_capture.export.columns import Column, Kind
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.main.trajectory import Row
from roller_capture.export.surrogates import has_lone_surrogate

SFT: Final = "roller.sft/v1"

SFT_COLUMNS: Final = (
    Column("schema", Kind.TEXT, "the form of the row"),
    Column("sample_id", Kind.TEXT, "the sample of a run directory that the attempt belongs to"),
    Column("attempt", Kind.TEXT, "the attempt's folder name"),
    Column("capture_id", Kind.TEXT, "the attempt's random id"),
    Column("manifest_path", Kind.TEXT, "the attempt's manifest, from the folder that was exported on"),
    Column("manifest_sha256", Kind.TEXT, "its hash: which publication of the attempt this is"),
    Column("harness", Kind.TEXT, "what made the calls"),
    Column("execution_status", Kind.TEXT, "how the run ended"),
    Column("capture_status", Kind.TEXT, "whether anything of the run is missing"),
    Column("finish", Kind.TEXT, "the provider's own word for how the last response ended"),
    Column("segment", Kind.INTEGER, "which part of the conversation, between compactions"),
    Column("segments", Kind.INTEGER, "of how many"),
    Column("messages", Kind.TURNS, "the last request and its answer, as chat templates take them"),
    Column("tools", Kind.VALUE, "function tools, as of Chat Completions"),
    Column("call_ids", Kind.TEXTS, "the calls of this conversation"),
    Column("notifications", Kind.INTEGERS, "positions of messages that the harness itself put there"),
    Column("unproven_answers", Kind.INTEGERS, "positions of assistant messages that no exportable call here gave"),
    Column("system_changed_at", Kind.TEXTS, "calls whose system messages are not those of the call before"),
)

_ORIGIN: Final = ("sample_id", "attempt", "capture_id", "manifest_path", "manifest_sha256")
_LARGEST_INTEGER: Final = 1 << 63


def sft_row(trajectory: Row) -> Row:
    """The row. Raises `NoTrajectoryError` where a static list of tools, or of texts, would not be what was sent."""
    if trajectory["tools_changed_at"]:
        raise NoTrajectoryError("the tools changed on the way", trajectory["tools_changed_at"][0])
    if trajectory["other_tools"] or any(tool["type"] != "function" for tool in trajectory["tools"]):
        raise NoTrajectoryError("a tool that is no function")
    messages = trajectory["messages"]
    row = {
        "schema": SFT,
        **{name: trajectory[name] or "" for name in _ORIGIN},
        "harness": trajectory["harness"]["name"],
        "execution_status": trajectory["execution_status"],
        "capture_status": trajectory["capture_status"],
        "finish": trajectory["finish"] or "",
        "segment": trajectory["segment"]["number"],
        "segments": trajectory["segment"]["of"],
        "messages": [_message(message) for message in messages],
        "tools": trajectory["tools"],
        "call_ids": trajectory["call_ids"],
        "notifications": [place for place, item in enumerate(messages) if item["notifications"]],
        "unproven_answers": [place for place, item in enumerate(messages) if _is_unproven(item)],
        "system_changed_at": trajectory["system_changed_at"],
    }
    if has_lone_surrogate(row):
        raise NoTrajectoryError("lone surrogate")
    if not _fits_tables([row["messages"], row["tools"]]):
        raise NoTrajectoryError("a number that tables cannot hold")
    return row


def _is_unproven(message: Row) -> bool:
    """An answer that another run, a barred call or the harness itself gave, as far as anybody knows."""
    return bool(message["role"] == "assistant" and message["call_id"] is None)


def _message(message: Row) -> Row:
    """Members of chat templates; arguments are objects there."""
    if message["role"] == AGENT_MESSAGE:
        raise NoTrajectoryError("a message between agents")
    row: Row = {"role": message["role"], "content": message["content"] or ""}
    for name in ("reasoning_content", "name", "tool_call_id"):
        if name in message:
            row[name] = message[name]
    if "tool_calls" in message:
        row["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    return row


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    if call["type"] != "function":
        raise NoTrajectoryError("a call of a tool that is no function")
    function = call["function"]
    try:
        arguments = json_text.parse(function["arguments"].encode("utf-8", "surrogatepass"))
    except json_text.JsonError:
        arguments = None
    if not isinstance(arguments, dict):
        raise NoTrajectoryError("arguments that are no JSON object")
    return {**call, "function": {"name": function["name"], "arguments": arguments}}


def _fits_tables(value: Any) -> bool:
    """Whether every number is one of 64 bits. Without recursion: arguments may nest deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, int):
            if not -_LARGEST_INTEGER <= item < _LARGEST_INTEGER:
                return False
        elif not isinstance(item, str | float | None):
            return False
    return True
