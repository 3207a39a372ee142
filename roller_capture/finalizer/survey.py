"""First pass: reads and parses each request and each response once, and keeps only small facts of them.

Contexts grow with every call, so a session's bytes grow with the square of its calls: the parsed tree of a request
lives only while this module looks at it. The decoded output, which the second pass writes, waits in a spool file.
"""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.capture_protocol import NativeCapture, NotificationItem, ToolResultItem
from roller_capture.model_protocols import (
    DECODED_LIMIT,
    decode_body,
    decode_response,
    iter_messages_text,
    iter_tool_results,
)
from roller_capture.model_protocols.types import DecodedResponse, DecodeError
from roller_capture.records import CallError
from roller_capture.vocabulary import Blocker, CallErrorCode, ExecutionStatus, Protocol, ResponseCaptureStatus
from roller_capture.working_files import BodyFile, RecordedCall, body_bytes, body_pieces

_ASSUMED_STATUS: Final = 200
_MOST_NUMBER: Final = 1 << 53
_NO_LOSS: Final = frozenset(
    {CallErrorCode.CONTENT_CODING_UNKNOWN, CallErrorCode.CONTENT_CODING_INVALID, CallErrorCode.DECODED_BODY_TOO_LARGE}
)
"""The bytes are all on disk, though they cannot be read as text; the blocker for that is another one."""


@dataclass(frozen=True, slots=True)
class Interest:
    """What to look for in request bodies: only ids and texts that native logs named. `number_pointers` are those of
    `context_pointers` where a whole number may stand."""

    tool_call_ids: frozenset[str]
    notifications: tuple[tuple[str, ...], ...]
    context_pointers: frozenset[str]
    number_pointers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, native: NativeCapture) -> "Interest":
        """What the adapter's probes and claims need to see."""
        items = [probe.item for probe in native.context_probes]
        fields = {claim.field for claim in native.identity_claims} | {claim.field for claim in native.purpose_claims}
        notices = [item for item in items if isinstance(item, NotificationItem)]
        fields |= {native.coverage.field} | {item.field for item in notices}
        return cls(
            frozenset(item.tool_call_id for item in items if isinstance(item, ToolResultItem)),
            tuple(dict.fromkeys(texts for item in notices for texts in (item.texts, item.later_texts) if texts)),
            _pointers(fields),
            _pointers({native.coverage.field}),
        )


def _pointers(fields: Iterable[str]) -> frozenset[str]:
    return frozenset(field.removeprefix("context:") for field in fields if field.startswith("context:"))


@dataclass(frozen=True, slots=True)
class HeldText:
    """A message or block that holds a notification: where it stands, the digest of its whole text, and the id of the
    item of `input` that it belongs to, where there is one."""

    pointer: str
    digest: str
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a request body holds, as far as anything later needs it.

    `tool_results` maps the tool ids of interest to the pointers of their results in this context; `notifications` the
    texts of interest to every message or block that holds them all.
    """

    whole: bool
    is_json: bool
    wire_sha256: str | None
    context_sha256: str | None
    model: str | None
    tool_results: dict[str, tuple[str, ...]]
    notifications: dict[tuple[str, ...], tuple[HeldText, ...]]
    context_values: dict[str, str]
    errors: tuple[CallError, ...]


@dataclass(frozen=True, slots=True)
class SpooledOutput:
    """Where the output's JSON text stands in the spool."""

    offset: int
    length: int


class OutputSpool:
    """An anonymous file for output texts between the two passes, so that memory stays bounded by one call."""

    def __init__(self, directory: Path) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by close()
        self._end = 0
        self._flushed = 0

    def put(self, text: bytes) -> SpooledOutput:
        """Appends a text."""
        self._file.write(text)
        place = SpooledOutput(self._end, len(text))
        self._end += len(text)
        return place

    def get(self, place: SpooledOutput) -> bytes:
        """Reads a text back."""
        if self._flushed < self._end:
            self._file.flush()
            self._flushed = self._end
        return os.pread(self._file.fileno(), place.length, place.offset)

    def close(self) -> None:
        """Frees the file."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class SurveyedCall:
    """A recorded call with the facts of its request and its response; `response.output` is dropped for `output`."""

    recorded: RecordedCall
    request: RequestFacts
    response: DecodedResponse
    output: SpooledOutput

    def values(self, field: str) -> set[str]:
        """What this call has in `field` (as in `IdentityClaim`)."""
        if field == "response_id":
            return {self.response.response_id} if self.response.response_id is not None else set()
        if field.startswith("header:"):
            return set(self.recorded.header_values(field.removeprefix("header:")))
        value = self.request.context_values.get(field.removeprefix("context:"))
        return {value} if value is not None else set()


def survey_call(call: RecordedCall, interest: Interest, spool: OutputSpool) -> SurveyedCall:
    """Reads both bodies of `call`; whatever is wrong with them is in the result, nothing is raised for bad data."""
    request = _survey_request(call, interest)
    response = _decode(call)
    place = spool.put(json_text.dumps(response.output))
    return SurveyedCall(call, request, dataclasses.replace(response, output=None), place)


def _decode(call: RecordedCall) -> DecodedResponse:
    body = call.response_body
    if call.status is None and body is not None and body.path is not None and body.actual:
        return _decode_headless(call)
    return _decode_as(call, call.status)


def _decode_headless(call: RecordedCall) -> DecodedResponse:
    """There is a body on disk, but no record of its head: what it holds is kept, and it can never be called whole."""
    decoded = _decode_as(call, _ASSUMED_STATUS)
    error = DecodeError(CallErrorCode.RESPONSE_CUT, "the head of the response is not on record")
    blockers = (one for one in decoded.blockers if one is not Blocker.EXECUTION_NOT_COMPLETED)  # nobody knows its end
    return dataclasses.replace(
        decoded,
        execution_status=ExecutionStatus.INTERRUPTED,
        response_capture_status=ResponseCaptureStatus.PARTIAL,
        blockers=tuple(dict.fromkeys((*blockers, Blocker.RESPONSE_INCOMPLETE))),
        errors=(*decoded.errors, error),
    )


def _decode_as(call: RecordedCall, status: int | None) -> DecodedResponse:
    body = call.response_body
    return decode_response(
        call.protocol,
        status=status,
        content_type=call.response_header("content-type"),
        content_encoding=None
        if call.masked == "decoded" or call.response_decoded
        else call.response_header("content-encoding"),
        body=body_pieces(body.path, body.actual) if body is not None and body.path is not None else (),
        http_end=call.end,
    )


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body after its content coding. `data` is the wire's own bytes where the coding could not be undone.

    `wire_sha256` is None where it is that of `data`.
    """

    data: bytes
    wire_sha256: str | None = None
    error: CallErrorCode | None = None


def read_request_body(call: RecordedCall) -> RequestBody | None:
    """The request body from disk, or None when there is no file of it."""
    body = call.request_body
    if body is None or body.path is None:
        return None
    wire = body_bytes(body.path, body.actual)
    if call.content_encoding is None:
        return RequestBody(wire)
    decoded = decode_body(wire, call.content_encoding, limit=DECODED_LIMIT)
    if decoded.unknown:
        return RequestBody(wire, error=CallErrorCode.CONTENT_CODING_UNKNOWN)
    if decoded.too_large:
        return RequestBody(wire, error=CallErrorCode.DECODED_BODY_TOO_LARGE)
    if decoded.invalid:
        return RequestBody(wire, error=CallErrorCode.CONTENT_CODING_INVALID)
    error = None if decoded.ended else CallErrorCode.CONTENT_CODING_INCOMPLETE
    return RequestBody(wire if error else decoded.data, None if error else hashlib.sha256(wire).hexdigest(), error)


def _survey_request(call: RecordedCall, interest: Interest) -> RequestFacts:
    errors = _body_file_errors(call.request_body, "request", expected=call.request_complete)
    if not call.request_complete:
        errors.append(CallError(code=CallErrorCode.REQUEST_CUT, message="the request did not arrive whole"))
    body = read_request_body(call)
    if body is None:
        return RequestFacts(False, False, None, None, None, {}, {}, {}, tuple(errors))
    if body.error is not None:
        errors.append(CallError(code=body.error, message=f"request content-encoding {call.content_encoding}"))
    whole = call.request_complete and all(error.code in _NO_LOSS for error in errors)
    context_sha256 = hashlib.sha256(body.data).hexdigest()
    # That of a text says nothing of the wire.
    wire_sha256 = None if call.request_decoded else body.wire_sha256 or context_sha256
    try:
        # Only texts and places of it are used; what is published is its own text.
        context = json_text.parse(body.data, exact_numbers=False)
    except json_text.JsonError as error:
        if error.too_deep:
            errors.append(CallError(code=CallErrorCode.CONTEXT_TOO_DEEP, message=str(error)))
        return RequestFacts(whole, False, wire_sha256, context_sha256, None, {}, {}, {}, tuple(errors))
    return RequestFacts(
        whole=whole,
        is_json=True,
        wire_sha256=wire_sha256,
        context_sha256=context_sha256,
        model=_text_member(context, "model"),
        tool_results=_find_tool_results(call.protocol, context, interest.tool_call_ids),
        notifications=_find_notifications(call.protocol, context, interest.notifications),
        context_values=_find_values(context, interest),
        errors=tuple(errors),
    )


def _body_file_errors(body: BodyFile | None, which: str, *, expected: bool) -> list[CallError]:
    if expected and (body is None or body.path is None):
        return [CallError(code=CallErrorCode.BODY_FILE_MISSING, message=f"the {which} body is not on disk")]
    if body is not None and body.damaged:
        message = f"the {which} body has {body.actual} bytes on disk, {body.expected} were recorded"
        return [CallError(code=CallErrorCode.BODY_FILE_DAMAGED, message=message)]
    return []


def response_file_errors(call: RecordedCall) -> list[CallError]:
    """What is wrong with the response's file, apart from its content."""
    return _body_file_errors(call.response_body, "response", expected=call.response_body is not None)


def _text_member(context: Any, name: str) -> str | None:
    value = context.get(name) if isinstance(context, dict) else None
    return value if isinstance(value, str) and value else None


def _find_tool_results(protocol: Protocol, context: Any, wanted: frozenset[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    if wanted:
        for tool_call_id, place in iter_tool_results(protocol, context, wanted):
            found[tool_call_id] = (*found.get(tool_call_id, ()), place)
    return found


def _find_notifications(
    protocol: Protocol, context: Any, wanted: tuple[tuple[str, ...], ...]
) -> dict[tuple[str, ...], tuple[HeldText, ...]]:
    """Where notifications stand."""
    found: dict[tuple[str, ...], tuple[HeldText, ...]] = {}
    if not wanted:
        return found
    for place, text in iter_messages_text(protocol, context):
        for texts in wanted:
            if all(part in text for part in texts):
                digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                held = HeldText(place, digest, _item_id(context, place))
                found[texts] = (*found.get(texts, ()), held)
    return found


def _item_id(context: Any, place: str) -> str | None:
    """The id of the item of a Responses `input` that the place lies in."""
    _, member, *rest = place.split("/")
    if member != "input" or not rest:
        return None
    item = json_text.resolve_pointer(context, f"/input/{rest[0]}")
    return _text_member(item, "id")


def _find_values(context: Any, interest: Interest) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in interest.context_pointers:
        try:
            value = json_text.resolve_pointer(context, place)
        except LookupError:
            continue
        if isinstance(value, str):
            found[place] = value
        elif place in interest.number_pointers and isinstance(value, int) and 0 <= value <= _MOST_NUMBER:
            found[place] = str(value)
    return found
