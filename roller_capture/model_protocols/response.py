"""One response, from its wire bytes to `DecodedResponse`: content coding, then events or JSON, then the truth table."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from roller_capture import json_text
from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.anthropic_messages import MessagesFold, read_message
from roller_capture.model_protocols.chat_completions import ChatFold, read_completion
from roller_capture.model_protocols.content_coding import DECODED_LIMIT, ContentDecoding
from roller_capture.model_protocols.event_stream import fold_stream
from roller_capture.model_protocols.folding import Fold, Folded, Warnings
from roller_capture.model_protocols.responses import ResponsesFold, read_response
from roller_capture.model_protocols.types import DecodedResponse
from roller_capture.model_protocols.verdict import Transfer, Verdict, judge, judge_without_head
from roller_capture.vocabulary import HttpEnd, OutputWarningCode, Protocol

FOLDS: dict[Protocol, Callable[[Warnings], Fold]] = {
    Protocol.ANTHROPIC_MESSAGES: MessagesFold,
    Protocol.OPENAI_CHAT_COMPLETIONS: ChatFold,
    Protocol.OPENAI_RESPONSES: ResponsesFold,
}
READERS: dict[Protocol, Callable[[Any, Warnings], Folded]] = {
    Protocol.ANTHROPIC_MESSAGES: read_message,
    Protocol.OPENAI_CHAT_COMPLETIONS: read_completion,
    Protocol.OPENAI_RESPONSES: read_response,
}

UNKNOWN_EVENTS = "unknown_events"
"""The member that a streamed output has only where events came that are not known here: their payloads, in order."""

_SPACE = b"\xef\xbb\xbf \t\r\n"
_LONGEST_FIELD = 8
_EVENT_FIELD = re.compile(rb"(data|event|id|retry)?:|(data|event|id|retry)[\r\n]")


def decode_response(
    protocol: Protocol,
    *,
    status: int | None,
    content_type: str | None,
    content_encoding: str | None,
    body: Iterable[bytes],
    http_end: HttpEnd,
    limit: int = DECODED_LIMIT,
) -> DecodedResponse:
    """What came back from one model call. Never raises for what the body holds.

    `status` is `None` when no response head came. `body` is the body's pieces as they were on the wire; an `OSError`
    while reading them becomes the error `disk_error`. `content_encoding` is the coding of these very bytes, so `None`
    where the stored copy is already decoded. Whether the body is JSON or an event stream is told by its content;
    `content_type` decides only where that says nothing.

    The output of a JSON body, also an error's, is the body's own text on one line (`RawJson`). Where a stream held
    events that are not known here, its output has `unknown_events`, even if nothing else came.
    """
    if status is None:
        return _decoded(judge_without_head(http_end), Folded(), Warnings(), 0)
    decoding = ContentDecoding(content_encoding, limit=limit)
    source = _Source(body)
    warnings = Warnings()
    folded, torn = _read(protocol, content_type, decoding.pieces(source), warnings)
    if decoding.trailing_bytes:
        warnings.add(OutputWarningCode.TRAILING_BYTES, "behind the end of the content coding")
    transfer = Transfer(
        status=status,
        http_end=http_end,
        encoded_bytes=decoding.encoded_bytes,
        torn=torn,
        coding_ended=decoding.ended,
        coding_invalid=decoding.invalid,
        coding_unknown=decoding.unknown,
        too_large=decoding.too_large,
        disk_error=source.error,
    )
    return _decoded(judge(transfer, folded), folded, warnings, decoding.decoded_bytes)


class _Source:
    """The body's pieces up to the first read error."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body
        self.error: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except OSError as error:
            self.error = error.strerror or type(error).__name__


def _decoded(verdict: Verdict, folded: Folded, warnings: Warnings, decoded_bytes: int) -> DecodedResponse:
    return DecodedResponse(
        output=folded.output,
        execution_status=verdict.execution,
        response_capture_status=verdict.capture,
        response_id=folded.response_id,
        model=folded.model,
        finish_reason=folded.finish_reasons[0] if folded.finish_reasons else None,
        usage=folded.usage,
        tool_refs=folded.tool_refs,
        blockers=verdict.blockers,
        warnings=warnings.all(),
        errors=verdict.errors,
        ended=folded.terminal,
        decoded_bytes=decoded_bytes,
    )


def _read(
    protocol: Protocol, content_type: str | None, pieces: Iterator[bytes], warnings: Warnings
) -> tuple[Folded, bool]:
    """The body's meaning, and whether it is an event stream that ends inside an event."""
    head, start = [], b""
    for piece in pieces:
        head.append(piece)
        start = (start + piece[: len(piece) if not start else _LONGEST_FIELD]).lstrip(_SPACE)[:_LONGEST_FIELD]
        if len(start) == _LONGEST_FIELD:
            break
    if start.startswith((b"{", b"[")):
        return _read_json(protocol, b"".join([*head, *pieces]), warnings), False
    is_stream = _EVENT_FIELD.match(start) is not None or "event-stream" in (content_type or "").lower()
    if is_stream and not start.startswith(b"<"):
        return _read_events(protocol, itertools.chain(head, pieces), warnings)
    for _ in pieces:  # the flags of the content coding are known only at the end
        pass
    return Folded(shape="the body is neither JSON nor an event stream" if start else None), False


def _read_events(protocol: Protocol, pieces: Iterator[bytes], warnings: Warnings) -> tuple[Folded, bool]:
    fold = FOLDS[protocol](warnings)
    end = fold_stream(fold, pieces, warnings)
    folded = fold.finish()
    output = folded.output
    if end.unknown_events is not None:
        output = {**(output or {}), UNKNOWN_EVENTS: end.unknown_events}
    return dataclasses.replace(folded, output=output, loss=folded.loss or end.loss), end.torn


def _read_json(protocol: Protocol, data: bytes, warnings: Warnings) -> Folded:
    text = data.strip(_SPACE)
    try:
        value = json_text.parse(text)
    except json_text.JsonError as error:
        repaired = text.decode("utf-8", "replace").encode()
        if repaired == text:
            return Folded(loss=f"the body is no whole JSON value: {error}")
        folded = _read_json(protocol, repaired, warnings)
        if folded.output is not None:
            warnings.add(OutputWarningCode.TEXT_NOT_UTF8, "the body")
        return folded
    folded = READERS[protocol](value, warnings)
    if folded.shape is not None and isinstance(value, dict) and (message := shapes.bare_error(value)) is not None:
        folded = dataclasses.replace(folded, error=message, shape=None)
    line, _ = json_text.one_line(text)
    # A JSON value is over where it is over: it is its own end mark, whatever it says.
    over = folded.terminal or folded.error is not None or folded.shape is not None
    return dataclasses.replace(folded, output=json_text.RawJson(line), terminal=over)
