"""OpenAI Responses: stream events folded into the response object that `stream: false` would have brought.

Terminal marker: `response.completed`, `response.incomplete` or `response.failed`, each with the whole response; an
`error` event ends a stream too (https://platform.openai.com/docs/api-reference/responses-streaming). Some services send
a terminal response without its output; then the output is rebuilt from the items that were streamed. Items are told
apart by `output_index`, since some services give an item a new id in every event.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from roller_capture.model_protocols.folding import (
    Folded,
    JsonObject,
    Merger,
    Warnings,
    id_of,
    name_of,
    object_or_none,
    objects,
    provider_error,
    text_or_none,
    usage_of,
)
from roller_capture.model_protocols.response_items import ITEM_TEXTS, PART_TEXTS, PARTS, Item
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
_PROGRESS_OF = ("_call.", "response.mcp_list_tools.")  # `response.web_search_call.searching` and its like
_IGNORED = frozenset({"keepalive", "ping"})


class ResponsesFold:
    """The fold of one stream. `terminal` is set by the three terminal events."""

    def __init__(self, warnings: Warnings) -> None:
        self.terminal = False
        self._warnings = warnings
        self._response: JsonObject | None = None
        self._items: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._usage = Merger()
        self._word: str | None = None
        self._error: str | None = None
        self._error_payload: JsonObject | None = None
        self._handlers: dict[str, Callable[[JsonObject], None]] = {
            "response.created": self._lifecycle,
            "response.queued": self._lifecycle,
            "response.in_progress": self._lifecycle,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.output_text.annotation.added": self._annotation,
            "error": self._fail,
        }

    def add(self, kind: str | None, payload: JsonObject) -> None:
        if self.terminal:
            return
        stem, _, ending = (kind or "").rpartition(".")
        handler = self._handlers.get(kind or "")
        if handler is not None:
            handler(payload)
        elif kind in _TERMINAL:
            self._end(_TERMINAL[kind], payload)
        elif stem in PART_TEXTS:
            self._part_text(stem, ending, payload)
        elif stem in ITEM_TEXTS:
            self._item_text(stem, ending, payload)
        elif stem in PARTS:
            self._part(stem, ending, payload)
        elif provider_error(payload) is not None:
            self._fail(payload)
        else:
            self._other(kind, ending, payload)

    def done(self) -> None:
        """Gateways end a stream so; it says nothing about the response."""

    def _lifecycle(self, payload: JsonObject) -> None:
        response = payload.get("response")
        if not isinstance(response, dict):
            self._warnings.add(Code.UNEXPECTED_SHAPE, f"response is {name_of(response)}")
            return
        if self._response is None:
            self._response = {}
        elif response.get("id") != self._response.get("id"):
            self._warnings.add(Code.RESPONSE_ID_CHANGED, "id")
        self._response.update(response)
        usage = usage_of(response.get("usage"), self._warnings)
        if usage is not None:
            self._usage.add(usage)

    def _end(self, word: str, payload: JsonObject) -> None:
        self.terminal = True
        self._word = word
        self._lifecycle(payload)
        if word in _FAILED:
            response = object_or_none(payload.get("response")) or {}
            self._error = self._error or provider_error(response) or f"response {word}"

    def _fail(self, payload: JsonObject) -> None:
        self._error = self._error or provider_error({"type": "error", **payload})
        self._error_payload = self._error_payload or payload

    def _item_added(self, payload: JsonObject) -> None:
        start = payload.get("item")
        if not isinstance(start, dict):
            self._warnings.add(Code.UNEXPECTED_SHAPE, f"item is {name_of(start)}")
            return
        index = _int(payload, "output_index")
        if index is not None and index in self._by_index:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "a second item at one output_index")
        self._new_item(index, start)

    def _new_item(self, index: int | None, start: JsonObject) -> Item:
        item = Item(index, start)
        self._items.append(item)
        if index is not None:
            self._by_index[index] = item
        if isinstance(start.get("id"), str):
            self._by_id[start["id"]] = item
        return item

    def _item_done(self, payload: JsonObject) -> None:
        done = payload.get("item")
        if not isinstance(done, dict):
            self._warnings.add(Code.UNEXPECTED_SHAPE, f"item is {name_of(done)}")
            return
        item = self._find(payload, text_or_none(done.get("id")))
        if item is None:
            item = self._new_item(_int(payload, "output_index"), done)
        item.finish(done, self._warnings)

    def _find(self, payload: JsonObject, item_id: str | None) -> Item | None:
        index = _int(payload, "output_index")
        if index is not None:
            return self._by_index.get(index)
        return self._by_id.get(item_id) if item_id is not None else None

    def _item(self, payload: JsonObject, item_type: str | None) -> Item:
        """The item that an event is about. One that was never announced begins with what the event says of it."""
        item_id = text_or_none(payload.get("item_id"))
        item = self._find(payload, item_id)
        if item is not None:
            return item
        self._warnings.add(Code.EVENT_OUT_OF_ORDER, "an event of an item that was not added")
        start = {"id": item_id, "type": item_type}
        known = {key: value for key, value in start.items() if value is not None}
        return self._new_item(_int(payload, "output_index"), known)

    def _part_text(self, stem: str, ending: str, payload: JsonObject) -> None:
        name, index_name, member, part_type, item_type = PART_TEXTS[stem]
        item = self._item(payload, item_type)
        part = item.part(name, _int(payload, index_name) or 0, {"type": part_type})
        value = payload.get("delta" if ending == "delta" else member)
        if not isinstance(value, str):
            self._unexpected(item, payload, ending, value)
        elif ending == "delta":
            part.text(member).add(value)
            logprobs = payload.get("logprobs")
            part.logprobs += logprobs if isinstance(logprobs, list) else []
        else:
            part.text(member).final = value

    def _item_text(self, stem: str, ending: str, payload: JsonObject) -> None:
        member, item_type = ITEM_TEXTS[stem]
        item = self._item(payload, item_type)
        value = payload.get("delta" if ending == "delta" else member)
        if not isinstance(value, str):
            self._unexpected(item, payload, ending, value)
        elif ending == "delta":
            item.text(member).add(value)
        else:
            item.text(member).final = value

    def _unexpected(self, item: Item, payload: JsonObject, ending: str, value: object) -> None:
        self._warnings.add(Code.UNEXPECTED_SHAPE, f"{name_of(ending)} of an item is {name_of(value)}")
        if ending == "delta":
            item.keep(payload)

    def _part(self, stem: str, ending: str, payload: JsonObject) -> None:
        name, index_name = PARTS[stem]
        value = payload.get("part")
        if not isinstance(value, dict):
            self._warnings.add(Code.UNEXPECTED_SHAPE, f"part is {name_of(value)}")
            return
        part = self._item(payload, None).part(name, _int(payload, index_name) or 0, value)
        if ending == "done":
            if part.differs(value):
                self._warnings.add(Code.DELTA_FINAL_MISMATCH, name)
            part.done = value

    def _annotation(self, payload: JsonObject) -> None:
        part = self._item(payload, "message").part("content", _int(payload, "content_index") or 0)
        part.annotations.append(payload.get("annotation"))

    def _other(self, kind: str | None, ending: str, payload: JsonObject) -> None:
        if kind in _IGNORED or (kind is not None and any(word in kind for word in _PROGRESS_OF) and ending != "delta"):
            return
        if ending == "delta" and (item := self._find(payload, text_or_none(payload.get("item_id")))) is not None:
            self._warnings.add(Code.UNKNOWN_DELTA, name_of(kind))
            item.keep(payload)
        else:
            self._warnings.add(Code.UNKNOWN_EVENT, name_of(kind) if kind else "no type")

    def finish(self) -> Folded:
        if self._response is None and not self._items:
            return Folded(output=self._error_payload, terminal=self.terminal, error=self._error)
        output = dict(self._response or {})
        output["output"] = self._output_items(output.get("output"))
        if self._usage.value:
            output["usage"] = self._usage.value
        result = _read(output, self._warnings)
        words = [self._word, *result.finish_reasons] if self._word else result.finish_reasons
        return dataclasses.replace(
            result,
            finish_reasons=tuple(dict.fromkeys(word for word in words if word and word not in _UNFINISHED)),
            terminal=self.terminal,
            error=self._error or (result.error if self.terminal else None),
        )

    def _output_items(self, final: object) -> list[Any]:
        """The terminal response's own items where it has them all, else the streamed ones."""
        listed = final if isinstance(final, list) else []
        streamed = sorted(self._items, key=lambda item: len(self._items) if item.index is None else item.index)
        if self.terminal and len(listed) >= len(streamed):
            self._compare(listed, streamed)
            return listed
        items = [item.value(self._warnings) for item in streamed]
        if self.terminal:
            self._warnings.add(Code.TERMINAL_OUTPUT_REBUILT, f"{len(items)} items, {len(listed)} in the terminal event")
        return items

    def _compare(self, listed: list[Any], streamed: list[Item]) -> None:
        for item in streamed:
            position = item.index if item.index is not None else -1
            final = listed[position] if 0 <= position < len(listed) else None
            if item.done is None or not isinstance(final, dict) or item.done == final:
                continue
            keys = item.done.keys() | final.keys()
            names = sorted(key for key in keys if item.done.get(key) != final.get(key) and key != "id")
            if item.done.get("id") != final.get("id"):
                self._warnings.add(Code.UNKNOWN_FIELD_CONFLICT, "id of an item")
            if names:
                detail = ", ".join(map(name_of, names[:5]))
                self._warnings.add(Code.DELTA_FINAL_MISMATCH, f"{detail} of output item {item.index}")


def _int(payload: JsonObject, member: str) -> int | None:
    value = payload.get(member)
    return value if isinstance(value, int) else None


def read_response(value: Any, warnings: Warnings) -> Folded:
    """The same about a JSON body. A response that is queued or in progress is not over."""
    if not isinstance(value, dict):
        return Folded(shape=f"a JSON {name_of(value)}")
    if value.get("object") != "response" and not isinstance(value.get("output"), list):
        error = provider_error(value)
        return Folded(output=value, error=error, shape=None if error else "a JSON object that is no response")
    result = _read(value, warnings)
    return dataclasses.replace(result, terminal=value.get("status") not in _UNFINISHED)


def _read(response: JsonObject, warnings: Warnings) -> Folded:
    items = response.get("output")
    if items is not None and not isinstance(items, list):
        warnings.add(Code.UNEXPECTED_SHAPE, f"output is {name_of(items)}")
    status = text_or_none(response.get("status"))
    details = object_or_none(response.get("incomplete_details")) or {}
    filtered = status == "incomplete" and details.get("reason") == "content_filter"
    error = provider_error(response)
    if error is None and status in _FAILED:
        error = f"response {status}"
    calls = [item for item in objects(items) if str(item.get("type")).endswith("_call")]
    return Folded(
        output=response,
        response_id=id_of(response, "id", warnings),
        model=text_or_none(response.get("model")) or None,
        usage=usage_of(response.get("usage"), warnings),
        tool_refs=tuple(_tool_ref(item, warnings) for item in calls),
        finish_reasons=tuple(word for word in (status, "content_filter" if filtered else None) if word),
        error=error,
    )


def _tool_ref(item: JsonObject, warnings: Warnings) -> ToolRef:
    return ToolRef(id_of(item, "call_id", warnings), id_of(item, "id", warnings), text_or_none(item.get("name")))
