"""OpenAI Responses: stream events folded into the response object that `stream: false` would have brought.

Terminal marker: `response.completed`, `response.incomplete` or `response.failed`, each with the whole response; an
`error` event ends a stream too (https://platform.openai.com/docs/api-reference/responses-streaming). Some services send
a terminal response without its output; then the output is rebuilt from the items that were streamed. Items are told
apart by `output_index`, since some services give an item a new id in every event.

When is an item whole? When the terminal response lists it, or at its `response.output_item.done`, which is where
harnesses act on it. A rebuilt output that holds an item with neither is not whole (`Folded.unfinished`), and neither is
a listed item that had no such event and is still `in_progress`; unless the response ended as `incomplete`, which says
itself that its last item was broken off. Arguments are text in this protocol, and count as such whether or not they
are JSON.
"""

import dataclasses
from functools import partial
from typing import Any

from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.folding import EventHandler, Folded, TypedFold, Warnings, id_of, usage_of
from roller_capture.model_protocols.response_items import ITEM_TEXTS, PART_TEXTS, PARTS, PROGRESS, Item
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.model_protocols.types import ToolRef
from roller_capture.vocabulary import OutputWarningCode as Code

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_FAILED = frozenset({"failed", "cancelled"})
_UNFINISHED = frozenset({"queued", "in_progress"})


class ResponsesFold(TypedFold):
    """The fold of one stream. `terminal` is set by the three terminal events."""

    def __init__(self, warnings: Warnings) -> None:
        super().__init__(warnings)
        self._response: JsonObject | None = None
        self._items: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._word: str | None = None
        self._unfinished: str | None = None
        self._handlers: dict[str, EventHandler] = {
            **{kind: partial(self._end, word) for kind, word in _TERMINAL.items()},
            **dict.fromkeys(PROGRESS, lambda _: True),
            "response.created": self._lifecycle,
            "response.queued": self._lifecycle,
            "response.in_progress": self._lifecycle,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.output_text.annotation.added": self._annotation,
        }

    def _handler(self, kind: str) -> EventHandler | None:
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler
        stem, _, ending = kind.rpartition(".")
        if ending in ("delta", "done") and stem in PART_TEXTS:
            return partial(self._part_text, stem, ending)
        if ending in ("delta", "done") and stem in ITEM_TEXTS:
            return partial(self._item_text, stem, ending)
        if ending in ("added", "done") and stem in PARTS:
            return partial(self._part, stem, ending)
        return None

    def _lifecycle(self, payload: JsonObject) -> bool:
        response = payload.get("response")
        if not isinstance(response, dict):
            self._warnings.unexpected("response", response)
            return False
        if self._response is None:
            self._response = {}
        elif response.get("id") != self._response.get("id"):
            self._warnings.add(Code.RESPONSE_ID_CHANGED, "id")
        self._response.update(response)
        self._add_usage(response.get("usage"))
        return True

    def _end(self, word: str, payload: JsonObject) -> bool:
        self.terminal = True
        self._word = word
        if word in _FAILED:
            response = shapes.object_or_none(payload.get("response")) or {}
            self._error = self._error or shapes.provider_error(response) or f"response {word}"
        return self._lifecycle(payload)

    def _item_added(self, payload: JsonObject) -> bool:
        start = payload.get("item")
        if not isinstance(start, dict):
            self._warnings.unexpected("item", start)
            return False
        index = shapes.int_or_none(payload.get("output_index"))
        if index is not None and index in self._by_index:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "a second item at one output_index")
        self._new_item(index, start)
        return True

    def _new_item(self, index: int | None, start: JsonObject) -> Item:
        item = Item(index, start)
        self._items.append(item)
        if index is not None:
            self._by_index[index] = item
        if isinstance(start.get("id"), str):
            self._by_id[start["id"]] = item
        return item

    def _item_done(self, payload: JsonObject) -> bool:
        done = payload.get("item")
        if not isinstance(done, dict):
            self._warnings.unexpected("item", done)
            return False
        item = self._find(payload, shapes.text_or_none(done.get("id")))
        if item is None:
            item = self._new_item(shapes.int_or_none(payload.get("output_index")), done)
        item.finish(done, self._warnings)
        return True

    def _find(self, payload: JsonObject, item_id: str | None) -> Item | None:
        index = shapes.int_or_none(payload.get("output_index"))
        if index is not None:
            return self._by_index.get(index)
        return self._by_id.get(item_id) if item_id is not None else None

    def _item(self, payload: JsonObject, item_type: str | None) -> Item:
        """The item that an event is about. One that was never announced begins with what the event says of it."""
        item_id = shapes.text_or_none(payload.get("item_id"))
        item = self._find(payload, item_id)
        if item is not None:
            return item
        self._warnings.add(Code.EVENT_OUT_OF_ORDER, "an event of an item that was not added")
        start = {"id": item_id, "type": item_type}
        known = {key: value for key, value in start.items() if value is not None}
        return self._new_item(shapes.int_or_none(payload.get("output_index")), known)

    def _part_text(self, stem: str, ending: str, payload: JsonObject) -> bool:
        name, index_name, member, part_type, item_type = PART_TEXTS[stem]
        item = self._item(payload, item_type)
        part = item.part(name, shapes.int_or_none(payload.get(index_name)) or 0, {"type": part_type})
        value = payload.get("delta" if ending == "delta" else member)
        if not isinstance(value, str):
            self._warnings.unexpected(f"{ending} of an item", value)
        elif ending == "delta":
            part.text(member).add(value)
            logprobs = payload.get("logprobs")
            part.logprobs += logprobs if isinstance(logprobs, list) else []
        else:
            part.text(member).final = value
        return isinstance(value, str)

    def _item_text(self, stem: str, ending: str, payload: JsonObject) -> bool:
        member, item_type = ITEM_TEXTS[stem]
        item = self._item(payload, item_type)
        value = payload.get("delta" if ending == "delta" else member)
        if not isinstance(value, str):
            self._warnings.unexpected(f"{ending} of an item", value)
        elif ending == "delta":
            item.text(member).add(value)
        else:
            item.text(member).final = value
        return isinstance(value, str)

    def _part(self, stem: str, ending: str, payload: JsonObject) -> bool:
        name, index_name = PARTS[stem]
        value = payload.get("part")
        if not isinstance(value, dict):
            self._warnings.unexpected("part", value)
            return False
        part = self._item(payload, None).part(name, shapes.int_or_none(payload.get(index_name)) or 0, value)
        if ending == "done":
            if part.differs(value):
                self._warnings.add(Code.DELTA_FINAL_MISMATCH, name)
            part.done = value
        return True

    def _annotation(self, payload: JsonObject) -> bool:
        part = self._item(payload, "message").part("content", shapes.int_or_none(payload.get("content_index")) or 0)
        part.annotations.append(payload.get("annotation"))
        return True

    def finish(self) -> Folded:
        if self._response is None and not self._items:
            return self._only_error()
        output = dict(self._response or {})
        output["output"] = self._output_items(output.get("output"))
        if self._word is not None and output.get("status") in _UNFINISHED:
            output["status"] = self._word  # the terminal event came without a response
        if self._usage.value:
            output["usage"] = self._usage.value
        result = _read(output, self._warnings)
        words = [self._word, *result.finish_reasons] if self._word else result.finish_reasons
        return dataclasses.replace(
            result,
            finish_reasons=tuple(dict.fromkeys(word for word in words if word and word not in _UNFINISHED)),
            terminal=self.terminal,
            error=self._error or (result.error if self.terminal else None),
            unfinished=self._unfinished,
        )

    def _output_items(self, final: object) -> list[Any]:
        """The terminal response's own items where it has them all, else the streamed ones."""
        listed = final if isinstance(final, list) else []
        streamed = sorted(self._items, key=lambda item: len(self._items) if item.index is None else item.index)
        if self.terminal and len(listed) >= len(streamed):
            for item in streamed:
                position = item.index if item.index is not None else -1
                if 0 <= position < len(listed) and isinstance(listed[position], dict):
                    self._compare(listed[position], item)
            return listed
        items = [self._rebuilt(item, listed) for item in streamed]
        if self.terminal:
            self._warnings.add(Code.TERMINAL_OUTPUT_REBUILT, f"{len(items)} items, {len(listed)} in the terminal event")
        return items

    def _rebuilt(self, item: Item, listed: list[Any]) -> JsonObject:
        """The item as it was finished, or as the terminal response lists it, or what there is of it."""
        item_id = item.start.get("id")
        same = [final for final in shapes.objects(listed) if item_id is not None and final.get("id") == item_id]
        if item.done is None and len(same) == 1:
            self._compare(same[0], item)
            return same[0]
        if item.done is None:
            self._unfinished = self._unfinished or f"output item {item.index} never ended"
        return item.value(self._warnings)

    def _compare(self, final: JsonObject, item: Item) -> None:
        """Name what the terminal response says otherwise than the stream did."""
        if item.done is None:
            item.compare(final, self._warnings)
            if final.get("status") == "in_progress":
                self._unfinished = self._unfinished or f"output item {item.index} never ended"
            return
        keys = item.done.keys() | final.keys()
        names = sorted(key for key in keys if item.done.get(key) != final.get(key) and key != "id")
        if item.done.get("id") != final.get("id"):
            self._warnings.add(Code.UNKNOWN_FIELD_CONFLICT, "id of an item")
        if names:
            detail = ", ".join(map(shapes.name_of, names[:5]))
            self._warnings.add(Code.DELTA_FINAL_MISMATCH, f"{detail} of output item {item.index}")


def read_response(value: Any, warnings: Warnings) -> Folded:
    """The same about a JSON body. A response that is queued or in progress is not over."""
    if not isinstance(value, dict):
        return Folded(shape=f"a JSON {shapes.name_of(value)}")
    if value.get("object") != "response" and not isinstance(value.get("output"), list):
        error = shapes.provider_error(value)
        return Folded(output=value, error=error, shape=None if error else "a JSON object that is no response")
    result = _read(value, warnings)
    return dataclasses.replace(result, terminal=value.get("status") not in _UNFINISHED)


def _read(response: JsonObject, warnings: Warnings) -> Folded:
    items = response.get("output")
    if items is not None and not isinstance(items, list):
        warnings.unexpected("output", items)
    status = shapes.text_or_none(response.get("status"))
    details = shapes.object_or_none(response.get("incomplete_details")) or {}
    filtered = status == "incomplete" and details.get("reason") == "content_filter"
    error = shapes.provider_error(response)
    if error is None and status in _FAILED:
        error = f"response {status}"
    calls = [item for item in shapes.objects(items) if str(item.get("type")).endswith("_call")]
    return Folded(
        output=response,
        response_id=id_of(response, "id", warnings),
        model=shapes.text_or_none(response.get("model")) or None,
        usage=usage_of(response.get("usage"), warnings),
        tool_refs=tuple(_tool_ref(item, warnings) for item in calls),
        finish_reasons=tuple(word for word in (status, "content_filter" if filtered else None) if word),
        error=error,
    )


def _tool_ref(item: JsonObject, warnings: Warnings) -> ToolRef:
    return ToolRef(id_of(item, "call_id", warnings), id_of(item, "id", warnings), shapes.text_or_none(item.get("name")))
