"""Cuts a request into pieces, and tells what stands in it that the agent's previous request did not have.

Two messages are the same when they differ in nothing but cache marks: a harness moves `cache_control` to the newest
message, and the others lose it. That decides what is shown as new, and nothing else; pieces keep all that was sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roller_capture import json_text
from roller_capture.api import Call
from roller_capture.view.html.pieces import PieceBook, digest
from roller_capture.vocabulary import Protocol

_CONVERSATION: Final = {
    Protocol.ANTHROPIC_MESSAGES: "messages",
    Protocol.OPENAI_CHAT_COMPLETIONS: "messages",
    Protocol.OPENAI_RESPONSES: "input",
}
_OWN_PIECES: Final = ("system", "instructions", "tools")
_CACHE_MARK: Final = "cache_control"
_CACHE_MARK_TEXT: Final = b'"cache_control"'

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Previous:
    """The last request of a line of calls: its place, its messages as pieces and as what they are compared by."""

    index: int
    pieces: list[int]
    keys: list[bytes]
    parts: dict[str, int]


class Contexts:
    """Cuts the requests of one attempt in the order of its calls.

    A line of calls is what one participant sent for one purpose over one protocol. Calls of nobody have no previous
    call, for nothing proves which it was.
    """

    def __init__(self, pieces: PieceBook) -> None:
        self._pieces = pieces
        self._previous: dict[tuple[str | None, str, str], _Previous] = {}

    def document(self, index: int, call: Call) -> Document:
        """What the page needs to show the request of the call at `index`. Raises `RollerError` when it cannot be read.

        `bytes`; `body`, a piece, where the request is no JSON object; else `parts` (name → piece), `list` (the name of
        the conversation's member, and its pieces as differences to the call `base`), `since` (the previous call, how
        many messages at the beginning and at the end are as they were there, how many of its messages are gone).
        """
        text = call.context_text
        value = json_text.parse(text)
        if not isinstance(value, dict):
            raw = call.record.get("context_raw")
            return {"bytes": len(text), "body": self._pieces.add(value if raw is None else raw)}
        name = _CONVERSATION[call.protocol]
        messages = value.pop(name, None)
        if not isinstance(messages, list):  # a single text is one message
            messages = [] if messages is None else [messages]
        own = {key: self._pieces.add(value.pop(key)) for key in _OWN_PIECES if value.get(key) is not None}
        parts = own | ({"parameters": self._pieces.add(value)} if value else {})
        numbers, keys = self._messages(messages)
        line = (call.participant_id, str(call.purpose), str(call.protocol))
        before = self._previous.get(line)
        self._previous[line] = _Previous(index, numbers, keys, parts)
        document: Document = {"bytes": len(text), "parts": parts, "list": _difference(name, before, numbers)}
        if call.participant_id is not None and before is not None:
            # The service keeps what was said before: this request holds only what is new.
            kept_there = value.get("previous_response_id") is not None
            document["since"] = _since(before, keys, parts, kept_there=kept_there)
        return document

    def _messages(self, messages: Sequence[Any]) -> tuple[list[int], list[bytes]]:
        numbers, keys = [], []
        for message in messages:
            text = json_text.dumps(message)
            numbers.append(self._pieces.add_text(text))
            keys.append(digest(_comparable(message, text)))
        return numbers, keys


def _comparable(message: Any, text: bytes) -> bytes:
    """The message without cache marks, and with a content that is one bare text as that text."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or (_CACHE_MARK_TEXT not in text and len(content) != 1):
        return text
    blocks = [_unmarked(block) for block in content]
    only = blocks[0] if len(blocks) == 1 else None
    is_text = isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text"
    return json_text.dumps({**_unmarked(message), "content": only["text"] if is_text and only else blocks})


def _unmarked(value: Any) -> Any:
    return {key: item for key, item in value.items() if key != _CACHE_MARK} if isinstance(value, dict) else value


def _difference(name: str, before: _Previous | None, pieces: list[int]) -> Document:
    """The pieces of a list: how many at both ends are those of `base`, and what stands between."""
    if before is None:
        return {"name": name, "base": None, "head": 0, "tail": 0, "mid": pieces}
    head, tail = _common_ends(before.pieces, pieces)
    return {"name": name, "base": before.index, "head": head, "tail": tail, "mid": pieces[head : len(pieces) - tail]}


def _since(before: _Previous, keys: list[bytes], parts: dict[str, int], *, kept_there: bool) -> Document:
    head, tail = (0, 0) if kept_there else _common_ends(before.keys, keys)
    changed = sorted(name for name in {*parts, *before.parts} if parts.get(name) != before.parts.get(name))
    return {
        "call": before.index,
        "head": head,
        "tail": tail,
        "gone": 0 if kept_there else len(before.keys) - head - tail,
        "changed": changed,
        "kept_there": kept_there,
    }


def _common_ends(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, int]:
    """How many items two lists have in common at the beginning, and at the end after those."""
    shorter = min(len(old), len(new))
    head = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    left = shorter - head
    tail = next((back for back in range(left) if old[-1 - back] != new[-1 - back]), left)
    return head, tail
