"""Tool definitions of the three protocols as those of Chat Completions."""

from typing import Any, Final

from roller_capture.export.chat.transcript import Transcript
from roller_capture.vocabulary import Protocol

_FUNCTION: Final = ("name", "description", "parameters", "strict")
_CUSTOM: Final = ("name", "description", "format")


def add_tools(transcript: Transcript, protocol: Protocol, tools: Any) -> tuple[list[Any], list[Any]]:
    """(function and custom tools, all others as they were sent). What a definition says beyond is kept in `extra`."""
    ours: list[Any] = []
    others: list[Any] = []
    for position, tool in enumerate(tools if isinstance(tools, list) else []):
        converted = _converted(transcript, protocol, tool, f"/tools/{position}") if isinstance(tool, dict) else None
        if converted is None:
            others.append(tool)
        else:
            ours.append(converted)
    return ours, others


def _converted(transcript: Transcript, protocol: Protocol, tool: dict[str, Any], at: str) -> dict[str, Any] | None:
    kind = tool.get("type")
    if protocol is Protocol.ANTHROPIC_MESSAGES:
        if kind not in (None, "custom") or "input_schema" not in tool:
            return None
        transcript.keep_rest(at, tool, ("type", "name", "description", "input_schema", "strict"))
        renamed = {**tool, "parameters": tool["input_schema"]}
        return {"type": "function", "function": _members(renamed, _FUNCTION)}
    if kind == "custom" and protocol is Protocol.OPENAI_RESPONSES and isinstance(tool.get("format"), dict):
        transcript.keep_rest(at, tool, ("type", *_CUSTOM))
        return {"type": "custom", "custom": {**_members(tool, _CUSTOM), "format": _grammar(tool["format"])}}
    known = {"function": _FUNCTION, "custom": _CUSTOM}.get(str(kind))
    inner = tool if protocol is Protocol.OPENAI_RESPONSES else tool.get(str(kind))
    if not isinstance(kind, str) or known is None or not isinstance(inner, dict):
        return None
    if inner is not tool:
        transcript.keep_rest(at, tool, ("type", kind))
        transcript.keep_rest(f"{at}/{kind}", inner, known)
    else:
        transcript.keep_rest(at, tool, ("type", *known))
    return {"type": kind, kind: _members(inner, known)}


def _grammar(form: dict[str, Any]) -> dict[str, Any]:
    """Responses tells a grammar flat, Chat Completions inside a member."""
    if form.get("type") != "grammar":
        return form
    return {"type": "grammar", "grammar": {name: value for name, value in form.items() if name != "type"}}


def _members(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value[name] for name in names if value.get(name) is not None}
