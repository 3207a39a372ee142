"""The one common chat form, and how messages of the three protocols are put into it.

A message has the members of Chat Completions and no others: `role`, `content` (a text), `reasoning_content`, `name`,
`tool_call_id`, `tool_calls`. What a provider's message says beyond that is kept under its JSON Pointer in `extra`, and
`origins` tells where each message comes from; so nothing is lost. What the model saw or said and no such message can
say (an image, a web search of the service) raises `NoChatFormError`: it is never left away.

Several texts of one message become one text, put together without anything between them; `origins` has their lengths.

Formats that have a place for images ask for them (`Transcript.images`). Then a message with an image has one member
more, `parts`: its texts and images in their order.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from roller_capture import json_text

Message = dict[str, Any]

_DATA_URL: Final = re.compile(r"data:([^;,]+)(?:;[^;,]*)*;base64,(.*)\Z", re.DOTALL | re.IGNORECASE)
"""RFC 2397. Parameters between media type and `;base64` (`;charset=utf-8`) say nothing of an image."""

AGENT_MESSAGE: Final = "agent_message"
"""The role of what one agent of Codex writes to another. No chat has it: only formats with a place for it take it."""


IMAGE_ELSEWHERE: Final = "an image that is not in the request"


class NoChatFormError(Exception):
    """The call says something that the chat form cannot: `what`, and where."""

    def __init__(self, what: str, pointer: str) -> None:
        super().__init__(f"{what} at {pointer or '/'}")
        self.what = what
        self.pointer = pointer


class Image(NamedTuple):
    """An image that stands in the request itself: its media type and base64, as they were sent."""

    media_type: str
    data: str


Part = str | Image


@dataclass(slots=True)
class Transcript:
    """Messages in the chat form, in the order in which they were sent."""

    images: bool = False
    """Whether images have a place."""
    messages: list[Message] = field(default_factory=list)
    origins: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    _turn: str | None = None

    def say(self, role: str, parts: Sequence[Part] | None, at: str, **members: Any) -> None:
        """A message of system, developer, user or tool; `parts=None` where it has no content at all."""
        self.end_turn()
        self._add({"role": role, "content": None, **members}, at)
        if parts is None:
            return
        texts = [part for part in parts if isinstance(part, str)]
        self._set_texts(texts)
        if len(texts) < len(parts):
            self.messages[-1]["parts"] = [_told(part) for part in parts]

    def think(self, text: str, at: str, turn: str) -> None:
        """Reasoning that can be read; what follows in the same turn belongs to the same message."""
        current = self._assistant(at, turn)
        if {"reasoning_content", "tool_calls"} & current.keys() or current["content"] is not None:
            current = self._new_assistant(at, turn)
        current["reasoning_content"] = text

    def answer(self, texts: Sequence[str], at: str, turn: str) -> None:
        """What the model said; again in one turn only where nothing was called between."""
        current = self._assistant(at, turn)
        if "tool_calls" in current:
            current = self._new_assistant(at, turn)
        before = self._texts() if current["content"] is not None else []
        self._set_texts([*before, *texts])

    def call(self, tool_call: dict[str, Any], at: str, turn: str) -> None:
        """A tool call."""
        self._assistant(at, turn).setdefault("tool_calls", []).append(tool_call)

    def begin_turn(self, at: str, turn: str) -> None:
        """An assistant message that may stay without content."""
        self._assistant(at, turn)

    def end_turn(self) -> None:
        """What comes now belongs to a new message."""
        self._turn = None

    def keep(self, pointer: str, value: Any) -> None:
        """What has no place in the form."""
        if value is not None:
            self.extra[pointer] = value

    def keep_rest(self, pointer: str, value: dict[str, Any], known: Collection[str]) -> None:
        """The members of an object that were not read."""
        for name, item in value.items():
            if name not in known:
                self.keep(pointer + json_text.pointer(name), item)

    def _assistant(self, at: str, turn: str) -> Message:
        return self.messages[-1] if self._turn == turn else self._new_assistant(at, turn)

    def _new_assistant(self, at: str, turn: str) -> Message:
        self._add({"role": "assistant", "content": None}, at)
        self._turn = turn
        return self.messages[-1]

    def _add(self, message: Message, at: str) -> None:
        self.messages.append(message)
        self.origins.append({"at": at})

    def _set_texts(self, texts: Sequence[str]) -> None:
        self.messages[-1]["content"] = "".join(texts)
        if len(texts) != 1:
            self.origins[-1]["parts"] = [len(text) for text in texts]
        else:
            self.origins[-1].pop("parts", None)

    def _texts(self) -> list[str]:
        return split_parts(self.messages[-1]["content"], self.origins[-1])


def _told(part: Part) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", **part._asdict()}


def split_parts(content: str, origin: dict[str, Any]) -> list[str]:
    """The texts that a message's content was put together from."""
    lengths = origin.get("parts", [len(content)])
    texts, start = [], 0
    for length in lengths:
        texts.append(content[start : start + length])
        start += length
    return texts


def function_call(call_id: Any, name: Any, arguments: Any, at: str) -> dict[str, Any]:
    """A call of a function tool; arguments that are no text become their JSON text."""
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise NoChatFormError("a tool call without id or name", at)
    text = arguments if isinstance(arguments, str) else json_text.dumps(arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def custom_call(call_id: Any, name: Any, text: Any, at: str) -> dict[str, Any]:
    """A call of a custom tool, whose input is free text."""
    if not isinstance(call_id, str) or not isinstance(name, str) or not isinstance(text, str):
        raise NoChatFormError("a tool call without id, name or input", at)
    return {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}


def image_of_url(url: Any, at: str) -> Image:
    """The image that a data URL holds. Any other leads to something that the request does not hold."""
    found = _DATA_URL.match(url) if isinstance(url, str) else None
    if found is None:
        raise NoChatFormError(IMAGE_ELSEWHERE, at)
    return Image(found[1].lower(), found[2])


def objects(value: Any, at: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a list with their pointers. Anything else cannot be told."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise NoChatFormError("an unknown shape", at)
    return [(f"{at}/{position}", item) for position, item in enumerate(value)]


def word(value: Any) -> str:
    """A provider's type word for use in sentences; what is no short word is not repeated."""
    if isinstance(value, str) and 0 < len(value) <= 60 and value.replace("_", "").replace(".", "").isalnum():
        return value
    return "an unknown type"
