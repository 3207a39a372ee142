"""Output items of the Responses protocol while they are streamed: what the deltas say, until the finished item comes.

An item's pieces arrive as `….delta` events, the whole piece again as `….done`, and the whole item as
`response.output_item.done` (https://platform.openai.com/docs/api-reference/responses-streaming). The finished item
counts; deltas matter where it never came, and are compared where it did.
"""

from typing import Any

from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.folding import Warnings
from roller_capture.model_protocols.merging import joined
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.vocabulary import OutputWarningCode as Code

PART_TEXTS = {
    "response.output_text": ("content", "content_index", "text", "output_text", "message"),
    "response.refusal": ("content", "content_index", "refusal", "refusal", "message"),
    "response.reasoning_text": ("content", "content_index", "text", "reasoning_text", "reasoning"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text", "summary_text", "reasoning"),
}
"""Text inside a part: the item's list, the event's index into it, the part's member, types of part and item."""

ITEM_TEXTS = {
    "response.function_call_arguments": ("arguments", "function_call"),
    "response.custom_tool_call_input": ("input", "custom_tool_call"),
    "response.mcp_call_arguments": ("arguments", "mcp_call"),
    "response.code_interpreter_call_code": ("code", "code_interpreter_call"),
    # As these two were called before:
    "response.mcp_call.arguments": ("arguments", "mcp_call"),
    "response.code_interpreter_call.code": ("code", "code_interpreter_call"),
}
"""Text that is a member of the item itself: that member, and the item's type."""

PARTS = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}

PROGRESS = frozenset(
    f"response.{tool}.{state}"
    for tool, states in {
        "web_search_call": ("in_progress", "searching", "completed"),
        "file_search_call": ("in_progress", "searching", "completed"),
        "code_interpreter_call": ("in_progress", "interpreting", "completed"),
        "image_generation_call": ("in_progress", "generating", "partial_image", "completed"),
        "mcp_call": ("in_progress", "completed", "failed"),
        "mcp_list_tools": ("in_progress", "completed", "failed"),
    }.items()
    for state in states
)
"""Events that only tell how far a tool of the service is: the finished item has the outcome. `partial_image` is a
preview of the image in it. `response.audio.…` is not among them, since no item is documented that repeats the sound."""


class _Text:
    """A text that comes in deltas and then once more as a whole."""

    def __init__(self, start: object) -> None:
        self._parts = [start] if isinstance(start, str) else []
        self.final: str | None = None

    def add(self, delta: str) -> None:
        self._parts.append(delta)

    def value(self) -> str:
        return self.final if self.final is not None else joined(self._parts)

    def differs(self, final: object) -> bool:
        """Do deltas, if there were any, say something else than the whole?"""
        text = joined(self._parts)
        return isinstance(final, str) and text not in ("", final)


class _Part:
    """One part of an item's `content` or `summary`."""

    def __init__(self, start: JsonObject) -> None:
        self._start = start
        self.done: JsonObject | None = None
        self.texts: dict[str, _Text] = {}
        self.annotations: list[Any] = []
        self.logprobs: list[Any] = []

    def text(self, member: str) -> _Text:
        if member not in self.texts:
            self.texts[member] = _Text(self._start.get(member))
        return self.texts[member]

    def value(self) -> JsonObject:
        if self.done is not None:
            return self.done
        result = dict(self._start)
        result |= {member: text.value() for member, text in self.texts.items()}
        for member, items in (("annotations", self.annotations), ("logprobs", self.logprobs)):
            if items:
                started = result.get(member)
                result[member] = [*(started if isinstance(started, list) else []), *items]
        return result

    def differs(self, final: object) -> bool:
        return isinstance(final, dict) and any(text.differs(final.get(name)) for name, text in self.texts.items())


class Item:
    """One output item. `start` is what `response.output_item.added` brought."""

    def __init__(self, index: int | None, start: JsonObject) -> None:
        self.index = index
        self.start = start
        self.done: JsonObject | None = None
        self._texts: dict[str, _Text] = {}
        self._parts: dict[str, dict[int, _Part]] = {}

    def text(self, member: str) -> _Text:
        if member not in self._texts:
            self._texts[member] = _Text(self.start.get(member))
        return self._texts[member]

    def part(self, name: str, index: int, start: JsonObject | None = None) -> _Part:
        """The part at `index` of the list `name`; a new one begins as `start`."""
        parts = self._parts.setdefault(name, {})
        if index not in parts:
            started = self.start.get(name)
            known = started[index] if isinstance(started, list) and 0 <= index < len(started) else None
            parts[index] = _Part(known if isinstance(known, dict) else start or {})
        return parts[index]

    def finish(self, done: JsonObject, warnings: Warnings) -> None:
        """Take the finished item, which counts, and compare the deltas with it."""
        if self.done is not None and self.done != done:
            warnings.add(Code.DELTA_FINAL_MISMATCH, "a second, different finished item at one index")
        if self.start.get("id") not in (None, done.get("id")):
            warnings.add(Code.UNKNOWN_FIELD_CONFLICT, "id of an item")
        self.done = done
        self.compare(done, warnings)

    def compare(self, final: JsonObject, warnings: Warnings) -> None:
        """Name where the deltas said something else than the item as a whole."""
        differing = [name for name, text in self._texts.items() if text.differs(final.get(name))]
        for name, parts in self._parts.items():
            listed = final.get(name)
            for index, part in parts.items():
                if isinstance(listed, list) and part.differs(listed[index] if 0 <= index < len(listed) else {}):
                    differing.append(name)
        for name in differing:
            warnings.add(Code.DELTA_FINAL_MISMATCH, f"{name} of {shapes.name_of(final.get('type'))}")

    def value(self, warnings: Warnings) -> JsonObject:
        """The finished item, or what there is of it."""
        if self.done is not None:
            return self.done
        warnings.add(Code.BLOCK_UNFINISHED, f"output item {self.index}")
        result = dict(self.start)
        for member, text in self._texts.items():
            result[member] = text.value()
            if text.final is None:
                warnings.add(
                    Code.TOOL_INPUT_INCOMPLETE, shapes.name_of(shapes.text_or_none(result.get("name")) or member)
                )
        for name, parts in self._parts.items():
            started = result.get(name)
            listed = dict(enumerate(started)) if isinstance(started, list) else {}
            listed |= {index: part.value() for index, part in parts.items()}
            result[name] = [listed[index] for index in sorted(listed)]
        return result
