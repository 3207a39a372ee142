"""Which calls of the root form one conversation, and where it was cut.

A call goes on from the one before if its request holds, message for message, what that call had sent and what came
back. Nothing less counts: no time, no order, no similarity. Two ways of writing the same arguments are the same. The
leading system messages are configuration and may change.

A request that does not is one of three things. After a call of the root with the purpose `compaction` it begins a new
segment. If it asks again what an earlier call asked (with nothing behind it but further input), that call's answer was
not taken, and those after it neither. Else nobody knows what happened to the history, and there is no main trajectory.

Of a conversation only hashes are kept, but for its last call.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from roller_capture import json_text
from roller_capture.export.chat import ChatCall, Message
from roller_capture.vocabulary import Purpose

_HEAD: Final = ("system", "developer")
_OF_THE_PAST: Final = ("assistant", "tool")


NO_ROOT: Final = "no root is known"
UNKNOWN_PURPOSE: Final = f"purpose {Purpose.UNKNOWN}"


class NoTrajectoryError(Exception):
    """Why there is no main trajectory: a reason to count by, and the call."""

    def __init__(self, reason: str, call_id: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.call_id = call_id


class Link(NamedTuple):
    """A call in its conversation: its answer stands at the positions from `start` to `end` of the messages.

    `asked` is the hash of the messages up to `start`, `answered` of those up to `end`.
    """

    call_id: str
    start: int
    end: int
    asked: bytes
    answered: bytes
    head: bytes
    tools: bytes


@dataclass(slots=True)
class Segment:
    """A conversation between two cuts. `abandoned` are calls whose answers later requests do not hold."""

    links: list[Link]
    last: ChatCall
    cut_by: str | None = None
    abandoned: list[str] = field(default_factory=list)

    def changes(self, name: str) -> list[str]:
        """The calls at which `head` or `tools` are not what they were before."""
        pairs = zip(self.links, self.links[1:], strict=False)
        return [after.call_id for before, after in pairs if getattr(before, name) != getattr(after, name)]


class Chain:
    """Takes the root's calls in order."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._compaction: str | None = None

    def compacted(self, call_id: str) -> None:
        """A call of the root that made a compaction."""
        self._compaction = call_id

    def add(self, call_id: str, chat: ChatCall) -> Segment | None:
        """The next call; the segment that is over with it, if one is. Raises `NoTrajectoryError`."""
        body = body_of(chat.messages)
        digests = _digests(body)
        over = self.segments[-1] if self.segments else None
        kept = None if over is None else self._goes_on(over, body, digests)
        compaction, self._compaction = self._compaction, None
        if over is None or kept is None:
            if over is not None and compaction is None:
                raise NoTrajectoryError("the history changed, and no compaction is known that changed it", call_id)
            self.segments.append(Segment([_link(call_id, chat, digests)], chat, compaction if over else None))
            return over
        over.abandoned += [link.call_id for link in over.links[kept:]]
        over.links[kept:] = [_link(call_id, chat, digests)]
        over.last = chat
        return None

    def _goes_on(self, segment: Segment, body: Sequence[Message], digests: list[bytes]) -> int | None:
        """How many of the segment's calls the request goes on from; `None` if it is another conversation."""
        last = segment.links[-1]
        if last.end < len(digests) and digests[last.end] == last.answered:
            return len(segment.links)
        if self._compaction is not None:
            return None
        for position in range(len(segment.links) - 1, -1, -1):
            link = segment.links[position]
            same = link.start < len(digests) and digests[link.start] == link.asked
            if same and not any(message["role"] in _OF_THE_PAST for message in body[link.start :]):
                return position
        return None


def head_length(messages: Sequence[Message]) -> int:
    """How many system messages stand first."""
    return next((place for place, item in enumerate(messages) if item["role"] not in _HEAD), len(messages))


def body_of(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages behind the leading system messages."""
    return messages[head_length(messages) :]


def _link(call_id: str, chat: ChatCall, digests: list[bytes]) -> Link:
    end = _digests(chat.output, digests[-1])
    length = head_length(chat.messages)
    start = len(digests) - 1
    head = _hash(json_text.dumps(chat.messages[:length]))
    tools = _hash(json_text.dumps([chat.tools, chat.other_tools]))
    return Link(call_id, start, start + len(chat.output), digests[-1], end[-1], head, tools)


def _digests(messages: Sequence[Message], start: bytes = b"") -> list[bytes]:
    """The hash of nothing, of the first message, of the first two, and so on."""
    digests = [start]
    for message in messages:
        digests.append(_hash(digests[-1] + json_text.dumps(_essence(message))))
    return digests


def _essence(message: Message) -> list[Any]:
    """What makes it this message. Reasoning is left out: harnesses drop it from later requests."""
    calls = [[call["id"], call[call["type"]]["name"], _arguments(call)] for call in message.get("tool_calls", ())]
    ids = [message.get(name) for name in ("tool_call_id", "name", "id")]
    seen = [message["parts"]] if "parts" in message else []  # of a message with images
    return [message["role"], message["content"] or "", *ids, calls, *seen]


def _arguments(call: dict[str, Any]) -> Any:
    if call["type"] == "custom":
        return call["custom"]["input"]
    text = call["function"]["arguments"]
    try:
        value = json_text.parse(text.encode("utf-8", "surrogatepass"))
    except json_text.JsonError:
        return text
    return _sorted(value)


def _sorted(value: Any) -> Any:
    """Objects by the order of their names: harnesses write arguments anew."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
