"""How Chat Completions deltas add up: text is appended, lists go on, objects merge, names and ids come once.

The protocol says so of its own members, and the vendor's SDK treats every member alike
(https://platform.openai.com/docs/api-reference/chat-streaming). Compatible servers differ in how they number and name
tool calls; the rules for that are in `group_tool_calls`. All pieces are kept until the end and joined once.
"""

from collections.abc import Iterable
from typing import Any

from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.folding import Warnings
from roller_capture.model_protocols.merging import MERGE_DEPTH, joined
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.vocabulary import OutputWarningCode as Code

_ONCE = frozenset({"role", "type", "id", "index", "object", "format"})
"""Members that name something: the first that says anything counts, and a repetition is no continuation."""

_KNOWN_TEXT = frozenset({"content", "refusal", "reasoning_content", "reasoning", "arguments", "input", "data"}) | {
    "transcript",
    "text",
    "summary",
}


class Pieces:
    """The pieces of one object's members, in order of arrival."""

    def __init__(self) -> None:
        self.members: dict[str, list[Any]] = {}

    def add(self, delta: JsonObject) -> None:
        for key, value in delta.items():
            pieces = self.members.setdefault(key, [])
            if value is not None:
                pieces.append(value)

    def texts(self, member: str) -> str:
        """The text so far of one member."""
        return joined(piece for piece in self.members.get(member, ()) if isinstance(piece, str))


def message_of(pieces: Pieces, warnings: Warnings) -> JsonObject:
    """The message that a choice's deltas add up to."""
    message: JsonObject = {}
    for key, values in pieces.members.items():
        if key == "tool_calls":
            deltas = _flat(key, values, warnings)
            message[key] = [_tool_call(group, warnings) for group in group_tool_calls(deltas, warnings)]
        elif key == "function_call":
            message[key] = _function(shapes.objects(values), warnings) if values else None
        elif key == "content":
            message[key] = _content(values, warnings)
        elif key == "reasoning_details":
            message[key] = _reasoning_details(_flat(key, values, warnings)) if values else None
        else:
            message[key] = add_up(key, values, warnings)
    if "content" not in message:
        # Without streaming the member always stands there, if only as null.
        message = {"role": message.pop("role"), "content": None, **message} if "role" in message else message
        message.setdefault("content", None)
    return message


def add_up(key: str, values: list[Any], warnings: Warnings, depth: int = MERGE_DEPTH) -> Any:
    """What the non-null pieces of one member make together."""
    if len(values) <= 1:
        return values[0] if values else None
    if key in _ONCE:
        return next((value for value in values if value != ""), values[0])
    if all(isinstance(value, str) for value in values):
        if key not in _KNOWN_TEXT:
            warnings.add(Code.UNKNOWN_DELTA, shapes.name_of(key))
        return joined(values)
    if all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if all(isinstance(value, dict) for value in values) and depth:
        return _object(values, warnings, depth - 1)
    if not all(isinstance(value, int | float) for value in values):
        warnings.add(Code.UNEXPECTED_SHAPE, f"{shapes.name_of(key)} changes its type")
    return values[-1]


def _object(values: Iterable[JsonObject], warnings: Warnings, depth: int = MERGE_DEPTH) -> JsonObject:
    pieces = Pieces()
    for value in values:
        pieces.add(value)
    return {key: add_up(key, parts, warnings, depth) for key, parts in pieces.members.items()}


def _flat(key: str, values: list[Any], warnings: Warnings) -> list[JsonObject]:
    """The objects of all the lists."""
    result: list[JsonObject] = []
    for value in values:
        items = value if isinstance(value, list) else [value]
        result += shapes.objects(items)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in items):
            warnings.add(Code.UNEXPECTED_SHAPE, f"{key} holds {shapes.name_of(value)}")
    return result


def _content(values: list[Any], warnings: Warnings) -> Any:
    """Text; or, for servers whose content comes in parts, the list of all parts."""
    if all(isinstance(value, str) for value in values):
        return joined(values) if values else None
    parts: list[Any] = []
    for value in values:
        if isinstance(value, list):
            parts += value
        elif isinstance(value, str):
            parts += [{"type": "text", "text": value}] if value else []
        else:
            warnings.add(Code.UNEXPECTED_SHAPE, f"content holds {shapes.name_of(value)}")
            parts.append(value)
    return parts


def _reasoning_details(details: list[JsonObject]) -> list[JsonObject]:
    """OpenRouter's list: pieces of one text or summary follow each other, anything else stands for itself."""
    groups: list[list[JsonObject]] = []
    for detail in details:
        last = groups[-1][0] if groups else None
        if last is not None and _continues(last, detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [group[0] if len(group) == 1 else _detail(group) for group in groups]


def _continues(last: JsonObject, detail: JsonObject) -> bool:
    return detail.get("type") in ("reasoning.text", "reasoning.summary") and all(
        detail.get(member) == last.get(member) for member in ("type", "index")
    )


def _detail(group: list[JsonObject]) -> JsonObject:
    result: JsonObject = {}
    for detail in group:
        for key, value in detail.items():
            if value is not None or key not in result:
                result[key] = value
    for member in ("text", "summary"):
        parts = [detail[member] for detail in group if isinstance(detail.get(member), str)]
        if parts:
            result[member] = joined(parts)
    return result


class _Call:
    """The deltas of one tool call."""

    def __init__(self) -> None:
        self.deltas: list[JsonObject] = []
        self.call_id: str | None = None
        self.name: str | None = None

    def add(self, delta: JsonObject) -> None:
        self.deltas.append(delta)
        self.call_id = self.call_id or _filled(delta.get("id"))
        self.name = self.name or _name(delta)


def group_tool_calls(deltas: list[JsonObject], warnings: Warnings) -> list[list[JsonObject]]:
    """Which deltas make one call.

    By `index`. Servers that do not number their calls are read by what they do send: a new id, or a further name where
    there is no id, begins the next call, also at an index that is in use; anything else goes on with the call before.
    """
    calls: list[tuple[Any, _Call]] = []
    by_index: dict[int, _Call] = {}
    by_id: dict[str, _Call] = {}
    for delta in deltas:
        index, call_id = delta.get("index"), _filled(delta.get("id"))
        if isinstance(index, int):
            call = by_index.get(index)
            if call is not None and call_id and call.call_id and call_id != call.call_id:
                warnings.add(Code.UNEXPECTED_SHAPE, "a second tool call at one index")
                call = None
        else:
            warnings.unexpected("index of a tool call", index)
            index = None
            call = by_id.get(call_id) if call_id else _going_on(calls, delta)
        if call is None:
            call = _Call()
            calls.append((index, call))
        if index is not None:
            by_index[index] = call
        call.add(delta)
        if call.call_id:
            by_id.setdefault(call.call_id, call)
    indexes = [index for index, _ in calls]
    if None not in indexes and len(set(indexes)) == len(indexes):
        calls.sort(key=lambda item: item[0])
    return [call.deltas for _, call in calls]


def _going_on(calls: list[tuple[Any, _Call]], delta: JsonObject) -> _Call | None:
    last = calls[-1][1] if calls else None
    return None if last is not None and last.name and _name(delta) else last


def _filled(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _name(delta: JsonObject) -> str | None:
    for member in ("function", "custom"):
        inner = delta.get(member)
        if isinstance(inner, dict) and _filled(inner.get("name")):
            return _filled(inner.get("name"))
    return None


def _tool_call(deltas: list[JsonObject], warnings: Warnings) -> JsonObject:
    pieces = Pieces()
    for delta in deltas:
        pieces.add(delta)
    return {
        key: _function(shapes.objects(values), warnings)
        if key in ("function", "custom") and all(isinstance(value, dict) for value in values)
        else add_up(key, values, warnings)
        for key, values in pieces.members.items()
        if key != "index"
    }


def _function(deltas: list[JsonObject], warnings: Warnings) -> JsonObject:
    """Name and arguments. A name that is sent again with every delta is one name; different pieces are joined."""
    pieces = Pieces()
    for delta in deltas:
        pieces.add(delta)
    names = [name for name in pieces.members.get("name", ()) if name != ""]
    result = {key: add_up(key, values, warnings) for key, values in pieces.members.items() if key != "name"}
    if "name" not in pieces.members:
        return result
    if not names or all(name == names[0] for name in names):
        name = names[0] if names else next(iter(pieces.members["name"]), None)
    else:
        warnings.add(Code.UNEXPECTED_SHAPE, "the name of a tool call comes in pieces")
        name = joined(text for text in map(shapes.text_or_none, names) if text)
    return {"name": name, **result}
