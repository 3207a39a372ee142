"""The SFT form of an ACTF row: messages and tools as chat templates take them, and nothing that tells how to train."""

from typing import Any

from roller_capture import json_text
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.main.trajectory import Row

SFT = "roller.sft/v1"

_ORIGIN = ("sample_id", "attempt", "capture_id", "manifest_path", "manifest_sha256")


def sft_row(trajectory: Row) -> Row:
    """The row. Raises `NoTrajectoryError` where a static list of tools, or of texts, would not be what was sent."""
    if trajectory["tools_changed_at"]:
        raise NoTrajectoryError("the tools changed on the way", trajectory["tools_changed_at"][0])
    if any(tool["type"] != "function" for tool in trajectory["tools"]):
        raise NoTrajectoryError("a tool that is no function")
    return {
        "schema": SFT,
        **{name: trajectory[name] or "" for name in _ORIGIN},
        "harness": trajectory["harness"]["name"],
        "segment": trajectory["segment"]["number"],
        "segments": trajectory["segment"]["of"],
        "messages": [_message(message) for message in trajectory["messages"]],
        "tools": trajectory["tools"],
        "call_ids": trajectory["call_ids"],
        "notifications": [place for place, item in enumerate(trajectory["messages"]) if item["notifications"]],
    }


def _message(message: Row) -> Row:
    """Members of chat templates; arguments are objects there."""
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
