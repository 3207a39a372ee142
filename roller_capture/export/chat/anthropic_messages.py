"""Anthropic Messages in the chat form (https://docs.anthropic.com/en/api/messages)."""

from typing import Any, Final

from roller_capture.export.chat.transcript import (
    IMAGE_ELSEWHERE,
    Image,
    NoChatFormError,
    Part,
    Transcript,
    function_call,
    objects,
    word,
)

_TEXT: Final = ("type", "text")


def add_request(transcript: Transcript, context: dict[str, Any]) -> None:
    """The system prompt and the messages, in their order."""
    system = context.get("system")
    if system is not None:
        transcript.say("system", _texts(transcript, system, "/system"), "/system")
    for at, message in objects(context.get("messages"), "/messages"):
        _add_message(transcript, message, at)


def add_output(transcript: Transcript, output: dict[str, Any]) -> None:
    """The answer."""
    _add_content(transcript, "assistant", output.get("content"), "/content", "")
    transcript.end_turn()


def _add_message(transcript: Transcript, message: dict[str, Any], at: str) -> None:
    role = message.get("role")
    if not isinstance(role, str):
        raise NoChatFormError("a message without a role", at)
    transcript.keep_rest(at, message, ("role", "content"))
    _add_content(transcript, role, message.get("content"), f"{at}/content", at)
    transcript.end_turn()


def _add_content(transcript: Transcript, role: str, content: Any, at: str, turn: str) -> None:
    if role == "assistant":
        transcript.begin_turn(turn, turn)
        if isinstance(content, str):
            transcript.answer([content], turn, turn)
            return
        for place, block in objects(content, at):
            _add_assistant_block(transcript, block, place, turn)
        return
    if isinstance(content, str):
        transcript.say(role, [content], turn)
        return
    _add_user_blocks(transcript, role, content, at, turn)


def _add_assistant_block(transcript: Transcript, block: dict[str, Any], at: str, turn: str) -> None:
    kind = block.get("type")
    if kind == "text":
        transcript.answer([_text(transcript, block, at)], turn, turn)
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        transcript.keep_rest(at, block, ("type", "thinking"))
        transcript.think(block["thinking"], turn, turn)
    elif kind == "redacted_thinking":
        transcript.keep(at, block)
    elif kind == "tool_use":
        transcript.keep_rest(at, block, ("type", "id", "name", "input"))
        transcript.call(function_call(block.get("id"), block.get("name"), block.get("input"), at), turn, turn)
    else:
        raise NoChatFormError(word(kind), at)


def _add_user_blocks(transcript: Transcript, role: str, content: Any, at: str, turn: str) -> None:
    """Tool results become messages of their own, in the order of the blocks; texts side by side are one message."""
    parts: list[Part] = []
    blocks = objects(content, at)
    for place, block in blocks:
        kind = block.get("type")
        if kind == "tool_result":
            if parts:
                transcript.say(role, parts, turn)
                parts = []
            _add_tool_result(transcript, block, place)
        else:
            parts.append(_part(transcript, block, place))
    if parts or not blocks:
        transcript.say(role, parts, turn)


def _add_tool_result(transcript: Transcript, block: dict[str, Any], at: str) -> None:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise NoChatFormError("a tool result without an id", at)
    transcript.keep_rest(at, block, ("type", "tool_use_id", "content"))
    content = block.get("content")
    transcript.say("tool", _parts(transcript, content, f"{at}/content"), at, tool_call_id=call_id)


def _parts(transcript: Transcript, content: Any, at: str) -> list[Part]:
    if content is None or isinstance(content, str):
        return [] if content is None else [content]
    return [_part(transcript, block, place) for place, block in objects(content, at)]


def _part(transcript: Transcript, block: dict[str, Any], at: str) -> Part:
    if block.get("type") != "image" or not transcript.images:
        return _text(transcript, block, at)
    source = block.get("source")
    told = source if isinstance(source, dict) else {}
    media_type, data = told.get("media_type"), told.get("data")
    if told.get("type") != "base64":
        raise NoChatFormError(IMAGE_ELSEWHERE, at)
    if not isinstance(media_type, str) or not isinstance(data, str):
        raise NoChatFormError("an unknown shape", at)
    transcript.keep_rest(at, block, ("type", "source"))
    transcript.keep_rest(f"{at}/source", told, ("type", "media_type", "data"))
    return Image(media_type, data)


def _texts(transcript: Transcript, content: Any, at: str) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [_text(transcript, block, place) for place, block in objects(content, at)]


def _text(transcript: Transcript, block: dict[str, Any], at: str) -> str:
    if block.get("type") != "text" or not isinstance(block.get("text"), str):
        raise NoChatFormError(word(block.get("type")), at)
    transcript.keep_rest(at, block, _TEXT)
    return str(block["text"])
