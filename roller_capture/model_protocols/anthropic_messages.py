"""Anthropic Messages: stream events folded into the message that `stream: false` would have brought.

Event order: `message_start`, then per block `content_block_start`, `content_block_delta`…, `content_block_stop`, then
`message_delta` with stop reason and usage, then `message_stop`, the terminal marker; `ping` anywhere; `error` instead
of the rest (https://docs.anthropic.com/en/docs/build-with-claude/streaming). Counts in `message_delta.usage` are
totals.

When is a content block whole? At its `content_block_stop`, which is where harnesses act on it: a text without it may
have lost its end, and nobody can tell. Only a tool input shows by itself that it is whole, because it is a JSON object;
and it has to show it, with or without the stop. Events bear no numbers, so input that is no JSON is the only trace of a
lost piece; where the model itself wrote it so, the shape without streaming has no place for it. Either way the text is
kept as `partial_json`, and a message with such a block is not whole (`Folded.unfinished`), unless its stop reason says
that it was broken off: then the end of its last block is missing for that reason.
"""

import dataclasses
from typing import Any

from roller_capture import json_text
from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.folding import EventHandler, Folded, TypedFold, Warnings, id_of, usage_of
from roller_capture.model_protocols.merging import Merger, joined
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.model_protocols.types import ToolRef
from roller_capture.vocabulary import OutputWarningCode as Code

_APPENDED = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking")}
"""Delta type to the member that it appends to, and to the type of a block whose start is missing."""

_REPLACED = {"signature_delta": ("signature",), "compaction_delta": ("content", "encrypted_content")}
"""Delta type to the members whose whole value it brings."""

_BLOCK_OF_DELTA = {"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking"} | {
    "signature_delta": "thinking",
    "compaction_delta": "compaction",
}


class _Block:
    """One content block being streamed. `fault` says why it is not whole; it is final when `block` was called."""

    def __init__(self, index: object, start: JsonObject) -> None:
        self.index = index
        self.stopped = False
        self.fault: str | None = None
        self._start = start
        self._texts: dict[str, list[str]] = {}
        self._input: list[str] | None = None
        self._citations: list[Any] = []
        self._members = Merger()
        self._unknown: list[Any] = []

    def add(self, delta: JsonObject, warnings: Warnings) -> None:
        kind = delta.get("type")
        if not isinstance(kind, str):
            self._keep(delta, warnings)
        elif kind in _APPENDED:
            member = _APPENDED[kind][0]
            self._append(self._texts.setdefault(member, []), delta, member, warnings)
        elif kind == "input_json_delta":
            self._input = [] if self._input is None else self._input
            self._append(self._input, delta, "partial_json", warnings)
        elif kind == "citations_delta" and "citation" in delta:
            self._citations.append(delta["citation"])
            self._members.add(delta, without=("type", "citation"))
        elif kind in _REPLACED:
            self._replace(delta, _REPLACED[kind], warnings)
        else:
            self._keep(delta, warnings)

    def _append(self, buffer: list[str], delta: JsonObject, member: str, warnings: Warnings) -> None:
        value = delta.get(member)
        if isinstance(value, str):
            buffer.append(value)
            if len(delta) > 2:
                self._members.add(delta, without=("type", member))
        else:
            warnings.unexpected(f"{member} of a delta", value)
            self._unknown.append(delta)
            if value is not None:
                self.fault = f"a delta of content block {self.index} cannot be read"

    def _replace(self, delta: JsonObject, members: tuple[str, ...], warnings: Warnings) -> None:
        for member in members:
            earlier, later = self._members.value.get(member), delta.get(member)
            if earlier and later and earlier != later:
                warnings.add(Code.UNKNOWN_FIELD_CONFLICT, f"a second {member} for one block")
        self._members.add(delta, without=("type",))

    def _keep(self, delta: JsonObject, warnings: Warnings) -> None:
        warnings.add(Code.UNKNOWN_DELTA, shapes.name_of(delta.get("type")))
        self._unknown.append(delta)

    def block(self, warnings: Warnings) -> JsonObject:
        """The block as it stands."""
        result = dict(self._start)
        for member, parts in self._texts.items():
            result[member] = joined([shapes.text_or_none(result.get(member)) or "", *parts])
        if self._citations:
            started = result.get("citations")
            result["citations"] = [*(started if isinstance(started, list) else []), *self._citations]
        for member, value in self._members.value.items():
            if value is not None or member not in result:
                result[member] = value
        if self._input is not None or (not self.stopped and result.get("input") == {}):
            self._set_input(result, joined(self._input or []), warnings)
        elif not self.stopped and not isinstance(result.get("input"), dict | list):
            self.fault = f"content block {self.index} never ended"
        if self._unknown:
            result["unknown_deltas"] = self._unknown
        return result

    def _set_input(self, result: JsonObject, text: str, warnings: Warnings) -> None:
        """Put the joined text in as `input` if it is whole; else keep it beside the started input."""
        if self.stopped and not text:
            if not isinstance(result.get("input"), dict):
                result["input"] = {}
            return
        value, is_json = _parsed(text)
        # Behind no `content_block_stop`, a number or a word might have gone on.
        if is_json and self._start and (self.stopped or isinstance(value, dict | list)):
            if result.get("input") and result["input"] != value:
                warnings.add(Code.DELTA_FINAL_MISMATCH, "the input at the block's start differs from its deltas")
            result["input"] = value
            return
        code = Code.TOOL_INPUT_NOT_JSON if self.stopped and not is_json else Code.TOOL_INPUT_INCOMPLETE
        warnings.add(code, shapes.name_of(result.get("name")))
        result["partial_json"] = text
        self.fault = f"the tool input in content block {self.index} is no whole JSON"


def _parsed(text: str) -> tuple[Any, bool]:
    """The JSON value that the text spells, and whether it spells one."""
    try:
        return json_text.parse(text.encode("utf-8", "surrogatepass")), True
    except json_text.JsonError:
        return None, False


class MessagesFold(TypedFold):
    """The fold of one stream. `terminal` is set by `message_stop`."""

    def __init__(self, warnings: Warnings) -> None:
        super().__init__(warnings)
        self._message: JsonObject | None = None
        self._late = Merger()
        self._blocks: list[_Block] = []
        self._open: dict[object, _Block] = {}
        self._stop_reasons: dict[str, None] = {}
        self._served_by: str | None = None
        self._loss: str | None = None
        self._handlers: dict[str, EventHandler] = {
            "content_block_delta": self._block_delta,
            "content_block_start": self._block_start,
            "content_block_stop": self._block_stop,
            "message_start": self._message_start,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
        }

    def _handler(self, kind: str) -> EventHandler | None:
        return self._handlers.get(kind)

    def _message_start(self, payload: JsonObject) -> bool:
        message = payload.get("message")
        if not isinstance(message, dict):
            self._warnings.unexpected("message", message)
            return False
        if self._message is not None:
            self._warnings.add(Code.SECOND_START, "message_start")
            if message.get("id") != self._message.get("id"):
                self._warnings.add(Code.RESPONSE_ID_CHANGED, shapes.name_of(message.get("id")))
            if self._blocks:
                self._loss = "a second message began in the middle of the first"
            return True
        if self._blocks:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "message_start")
        self._message = message
        self._add_usage(message.get("usage"))
        return True

    def _block_start(self, payload: JsonObject) -> bool:
        start, index = payload.get("content_block"), _index(payload)
        readable = isinstance(start, dict)
        if not isinstance(start, dict):
            self._warnings.unexpected("content_block", start)
            self._loss = "the start of a content block cannot be read"
            start = {}
        if index is None:
            self._warnings.unexpected("index", payload.get("index"))
        elif index in self._open:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "a second content_block_start for one index")
        # After a fallback to another model, the message bears the name of the one that served it last.
        if start.get("type") == "fallback" and isinstance(served := shapes.object_or_none(start.get("to")), dict):
            self._served_by = shapes.text_or_none(served.get("model")) or self._served_by
        self._new_block(index, start)
        return readable

    def _new_block(self, index: object, start: JsonObject) -> _Block:
        block = _Block(index, start)
        self._blocks.append(block)
        self._open[index] = block
        return block

    def _block_delta(self, payload: JsonObject) -> bool:
        delta, index = payload.get("delta"), _index(payload)
        if not isinstance(delta, dict):
            self._warnings.unexpected("delta", delta)
            if delta:
                self._loss = "a delta of a content block cannot be read"
            return False
        block = self._open.get(index)
        if block is None:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "content_block_delta without its start")
            self._loss = "the start of a content block never came"
            kind = delta.get("type")
            known = _BLOCK_OF_DELTA.get(kind) if isinstance(kind, str) else None
            block = self._new_block(index, {"type": known} if known else {})
        elif block.stopped:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "content_block_delta behind its stop")
        block.add(delta, self._warnings)
        return True

    def _block_stop(self, payload: JsonObject) -> bool:
        block = self._open.get(_index(payload))
        if block is None:
            self._warnings.add(Code.EVENT_OUT_OF_ORDER, "content_block_stop without its start")
        else:
            block.stopped = True
        return True

    def _message_delta(self, payload: JsonObject) -> bool:
        delta = payload.get("delta")
        if isinstance(delta, dict):
            reason = delta.get("stop_reason")
            if isinstance(reason, str):
                if self._stop_reasons and reason not in self._stop_reasons:
                    self._warnings.add(Code.SECOND_FINISH_REASON, shapes.name_of(reason))
                self._stop_reasons.pop(reason, None)
                self._stop_reasons[reason] = None
            self._late.add(delta, without=("type",))
        elif delta is not None:
            self._warnings.unexpected("delta", delta)
        self._add_usage(payload.get("usage"))
        # Some members of the closing events belong to the message, such as `context_management`.
        self._late.add(payload, without=("type", "delta", "usage"))
        return delta is None or isinstance(delta, dict)

    def _message_stop(self, payload: JsonObject) -> bool:
        self.terminal = True
        self._late.add(payload, without=("type",))
        return True

    def finish(self) -> Folded:
        if self._message is None and not self._blocks and not self._late.value:
            return self._only_error()
        if self._message is None:
            self._loss = "message_start never came"
        output = self._output()
        return dataclasses.replace(
            _read(output, self._warnings),
            finish_reasons=tuple(reversed(self._stop_reasons)) or self._started_reason(),
            terminal=self.terminal,
            error=self._error,
            loss=self._loss,
            unfinished=next((block.fault for block in self._blocks if block.fault is not None), None),
        )

    def _started_reason(self) -> tuple[str, ...]:
        reason = (self._message or {}).get("stop_reason")
        return (reason,) if isinstance(reason, str) else ()

    def _output(self) -> JsonObject:
        message = dict(self._message or {})
        # Content at the start is not in the documentation; whatever stands there stays in front.
        started = message.get("content")
        message["content"] = [*(started if isinstance(started, list) else []), *self._content()]
        for member, value in self._late.value.items():
            if member != "content" and (value is not None or member not in message):
                message[member] = value
        if self._served_by is not None:
            message["model"] = self._served_by
        if self._usage.value:
            message["usage"] = self._usage.value
        return message

    def _content(self) -> list[JsonObject]:
        blocks = self._blocks
        indexes = [block.index for block in blocks if isinstance(block.index, int)]
        if len(set(indexes)) == len(blocks):
            blocks = sorted(blocks, key=lambda block: block.index if isinstance(block.index, int) else 0)
        for block in blocks:
            if not block.stopped:
                self._warnings.add(Code.BLOCK_UNFINISHED, f"content block {block.index}")
        return [block.block(self._warnings) for block in blocks]


def _index(payload: JsonObject) -> int | None:
    return shapes.int_or_none(payload.get("index"))


def read_message(value: Any, warnings: Warnings) -> Folded:
    """The same about a JSON body, which is its own terminal marker."""
    if not isinstance(value, dict):
        return Folded(shape=f"a JSON {shapes.name_of(value)}")
    error = shapes.provider_error(value)
    if error is not None:
        return Folded(output=value, error=error)
    if value.get("type") != "message" and not isinstance(value.get("content"), list):
        return Folded(output=value, shape="a JSON object that is no message")
    return _read(value, warnings)


def _read(message: JsonObject | None, warnings: Warnings) -> Folded:
    if message is None:
        return Folded(terminal=True)
    content = message.get("content")
    if not isinstance(content, list):
        warnings.unexpected("content", content)
    refs = [
        ToolRef(id_of(block, "id", warnings), None, shapes.text_or_none(block.get("name")))
        for block in shapes.objects(content)
        if str(block.get("type")).endswith("tool_use")
    ]
    reason = shapes.text_or_none(message.get("stop_reason"))
    if reason == "tool_use" and not refs:
        warnings.add(Code.UNEXPECTED_SHAPE, "stop_reason tool_use without a tool_use block")
    return Folded(
        output=message,
        response_id=id_of(message, "id", warnings),
        model=shapes.text_or_none(message.get("model")),
        usage=usage_of(message.get("usage"), warnings),
        tool_refs=tuple(refs),
        finish_reasons=(reason,) if reason else (),
        terminal=True,
    )
