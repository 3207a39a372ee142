"""Chat Completions in the chat form, which is its own (https://platform.openai.com/docs/api-reference/chat)."""

from collections.abc import Sequence
from typing import Any, Final

from roller_capture.export.chat.transcript import (
    NoChatFormError,
    Part,
    Transcript,
    custom_call,
    function_call,
    image_of_url,
    objects,
    word,
)

_KNOWN: Final = ("role", "content", "name", "tool_call_id", "tool_calls", "reasoning_content", "reasoning")


def add_request(transcript: Transcript, context: dict[str, Any]) -> None:
    """The messages, in their order."""
    for at, message in objects(context.get("messages"), "/messages"):
        _add_message(transcript, message, at)


def add_output(transcript: Transcript, output: dict[str, Any]) -> None:
    """The answer. Several choices are several answers, of which none is the one."""
    choices = objects(output.get("choices"), "/choices")
    if len(choices) != 1:
        raise NoChatFormError("several choices" if choices else "no choice", "/choices")
    at, choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NoChatFormError("an unknown shape", f"{at}/message")
    _add_message(transcript, {"role": "assistant", **message}, f"{at}/message")


def _add_message(transcript: Transcript, message: dict[str, Any], at: str) -> None:
    role = message.get("role")
    if not isinstance(role, str):
        raise NoChatFormError("a message without a role", at)
    for name in ("refusal", "audio", "function_call"):
        if message.get(name) is not None:
            raise NoChatFormError(name, f"{at}/{name}")
    transcript.keep_rest(at, message, _KNOWN)
    content = message.get("content")
    if role == "assistant":
        _add_assistant(transcript, message, _texts(transcript, content, f"{at}/content"), at)
        return
    parts = _parts(transcript, content, f"{at}/content")
    members = {name: message[name] for name in ("name", "tool_call_id") if isinstance(message.get(name), str)}
    for name in ("tool_calls", "reasoning_content", "reasoning"):
        transcript.keep(f"{at}/{name}", message.get(name))
    transcript.say(role, parts, at, **members)


def _add_assistant(transcript: Transcript, message: dict[str, Any], texts: list[str] | None, at: str) -> None:
    transcript.begin_turn(at, at)
    thought = _thought(transcript, message, at)
    if thought is not None:
        transcript.think(thought, at, at)
    if texts is not None:
        transcript.answer(texts, at, at)
    for name in ("name", "tool_call_id"):
        transcript.keep(f"{at}/{name}", message.get(name))
    for place, call in objects(message.get("tool_calls") or [], f"{at}/tool_calls"):
        transcript.call(_tool_call(transcript, call, place), at, at)
    transcript.end_turn()


def _thought(transcript: Transcript, message: dict[str, Any], at: str) -> str | None:
    """Services name it one way or the other; some send it under both names."""
    named = {name: message.get(name) for name in ("reasoning_content", "reasoning")}
    texts = {name: value for name, value in named.items() if isinstance(value, str)}
    thought = next(iter(texts.values()), None)
    for name, value in named.items():
        if value != thought:
            transcript.keep(f"{at}/{name}", value)
    return thought


def _tool_call(transcript: Transcript, call: dict[str, Any], at: str) -> dict[str, Any]:
    kind = call.get("type", "function")
    inner = call.get(kind) if isinstance(kind, str) else None
    transcript.keep_rest(at, call, ("id", "type", "index", str(kind)))
    if not isinstance(inner, dict):
        raise NoChatFormError("an unknown shape", at)
    if kind == "function":
        transcript.keep_rest(f"{at}/function", inner, ("name", "arguments"))
        return function_call(call.get("id"), inner.get("name"), inner.get("arguments", ""), at)
    if kind == "custom":
        transcript.keep_rest(f"{at}/custom", inner, ("name", "input"))
        return custom_call(call.get("id"), inner.get("name"), inner.get("input"), at)
    raise NoChatFormError(word(kind), at)


def _texts(transcript: Transcript, content: Any, at: str) -> list[str] | None:
    if content is None or isinstance(content, str):
        return None if content is None else [content]
    return [_text(transcript, part, place) for place, part in objects(content, at)]


def _parts(transcript: Transcript, content: Any, at: str) -> Sequence[Part] | None:
    """Texts, and images where they have a place."""
    if not transcript.images or not isinstance(content, list):
        return _texts(transcript, content, at)
    return [_part(transcript, part, place) for place, part in objects(content, at)]


def _part(transcript: Transcript, part: dict[str, Any], at: str) -> Part:
    if part.get("type") != "image_url":
        return _text(transcript, part, at)
    told = part.get("image_url")
    if not isinstance(told, dict):
        raise NoChatFormError("an unknown shape", at)
    transcript.keep_rest(at, part, ("type", "image_url"))
    transcript.keep_rest(f"{at}/image_url", told, ("url",))
    return image_of_url(told.get("url"), at)


def _text(transcript: Transcript, part: dict[str, Any], at: str) -> str:
    if part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise NoChatFormError(word(part.get("type")), at)
    transcript.keep_rest(at, part, ("type", "text"))
    return str(part["text"])
