"""Feeds the events of one stream to a fold: what is an event of the protocol, what is padding, what is damage.

An event's meaning is its payload's own `type`; the `event:` line counts only where that is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from roller_capture import json_text
from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.folding import Fold, Warnings
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.model_protocols.sse import ServerSentEvent, SseParser
from roller_capture.vocabulary import OutputWarningCode as Code

_DONE = b"[DONE]"
_PADDING = frozenset({"ping", "keepalive", "keep-alive"})


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """What is known of the stream beside the fold's result.

    `torn`: the bytes end inside an event. `loss`: an event before the terminal marker could not be read, and why.
    `unknown_events`: the payloads that found no place in the result, in their order and their own text, as one JSON
    list; `None` if there are none.
    """

    torn: bool
    loss: str | None
    unknown_events: json_text.RawJson | None


def fold_stream(fold: Fold, pieces: Iterator[bytes], warnings: Warnings) -> StreamEnd:
    """Feed all events to `fold`. Never raises for what the stream holds."""
    parser = SseParser()
    reader = _Reader(fold, warnings)
    for piece in pieces:
        for event in parser.feed(piece):
            reader.take(event)
    for event in parser.finish():
        reader.take(event)
    return StreamEnd(reader.torn, reader.loss, reader.unknown.listed())


class _UnknownEvents:
    """Payloads kept as text, joined as they come: in memory they take no more than they took in the body."""

    def __init__(self) -> None:
        self._text = bytearray()

    def keep(self, data: bytes) -> None:
        line, _ = json_text.one_line(data)
        self._text += b"," if self._text else b"["
        self._text += line

    def listed(self) -> json_text.RawJson | None:
        return json_text.RawJson(bytes(self._text) + b"]") if self._text else None


class _Reader:
    def __init__(self, fold: Fold, warnings: Warnings) -> None:
        self._fold = fold
        self._warnings = warnings
        self.unknown = _UnknownEvents()
        self.torn = False
        self.loss: str | None = None

    def take(self, event: ServerSentEvent) -> None:
        data = event.data
        if data.startswith(b"{"):
            try:
                payload = json_text.parse(data)
            except json_text.JsonError as error:
                self._unreadable(event, error)
                return
            self._give(event, payload, data)
        else:
            self._other(event, data.strip())

    def _give(self, event: ServerSentEvent, payload: JsonObject, data: bytes) -> None:
        own = payload.get("type")
        kind = own if isinstance(own, str) else event.name
        if kind in _PADDING:
            return
        if self._fold.terminal:
            self._warnings.add(Code.EVENT_AFTER_TERMINAL, shapes.name_of(kind) if kind else "no type")
        if not self._fold.add(kind, payload):
            self.unknown.keep(data)

    def _unreadable(self, event: ServerSentEvent, error: json_text.JsonError) -> None:
        repaired = event.data.decode("utf-8", "replace").encode()
        if not event.terminated:
            # Half an event at the end of a cut stream: an object cut short is never JSON, so nothing is made up.
            self.torn = True
        elif repaired != event.data:
            self._warnings.add(Code.TEXT_NOT_UTF8, shapes.name_of(event.name) if event.name else "an event")
            self.take(event._replace(data=repaired))
        else:
            self._warnings.add(Code.MALFORMED_EVENT, shapes.name_of(event.name) if event.name else "an event")
            if not self._fold.terminal:
                self.loss = self.loss or f"an event of the stream is no JSON: {error}"

    def _other(self, event: ServerSentEvent, data: bytes) -> None:
        """Data that is no object: the closing word, padding, or an object behind white space."""
        if data == _DONE:
            self._fold.done()
        elif data.startswith(b"{"):
            self.take(event._replace(data=data))
        elif not event.terminated:
            self.torn = True
        elif data and event.name == "error":
            message: JsonObject = {"message": data.decode("utf-8", "replace")}
            self._give(event, message, json_text.dumps(message))
        elif data:
            self._no_object(event, data)

    def _no_object(self, event: ServerSentEvent, data: bytes) -> None:
        try:
            value = json_text.parse(data)
        except json_text.JsonError as error:
            if data.startswith(b"["):
                self._unreadable(event, error)
            else:
                self._warnings.add(Code.MALFORMED_EVENT, "text that is no JSON")
            return
        self._warnings.add(Code.UNEXPECTED_SHAPE, f"an event is a JSON {type(value).__name__}")
        self.unknown.keep(data)
