"""The first words of a response, for its line in the list of calls."""

from collections.abc import Iterator
from typing import Any, Final

from roller_capture.view.words import cut
from roller_capture.vocabulary import Protocol

_LENGTH: Final = 120
_ENOUGH: Final = 4 * _LENGTH


def preview(protocol: str, output: Any) -> str | None:
    """At most a line of what the model said; `None` where it said nothing but tool calls."""
    if not isinstance(output, dict):
        return None
    for text in _TEXTS[Protocol(protocol)](output):
        words = " ".join(text[:_ENOUGH].split())
        if words:
            return cut(words, _LENGTH)
    return None


def _messages_texts(output: dict[str, Any]) -> Iterator[str]:
    return _texts(output.get("content"))


def _chat_texts(output: dict[str, Any]) -> Iterator[str]:
    for choice in _objects(output.get("choices")):
        message = choice.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            yield content
        yield from _texts(content)


def _responses_texts(output: dict[str, Any]) -> Iterator[str]:
    for item in _objects(output.get("output")):
        if item.get("type") == "message":
            yield from _texts(item.get("content"))


def _texts(blocks: Any) -> Iterator[str]:
    for block in _objects(blocks):
        text = block.get("text")
        if isinstance(text, str):
            yield text


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_TEXTS: Final = {
    Protocol.ANTHROPIC_MESSAGES: _messages_texts,
    Protocol.OPENAI_CHAT_COMPLETIONS: _chat_texts,
    Protocol.OPENAI_RESPONSES: _responses_texts,
}
