"""Reads what `mitmdump -w` wrote: flows one behind the other, each with its length before it (a tnetstring).

Each is cut out and read strictly here, and mitmproxy makes a flow of it, whichever of its versions wrote it: so a torn
or damaged flow costs nothing but itself, and a length that lies reads nothing. Memory is bounded by the largest flow.

Flows are saved when they have ended, so they stand in the order of their ends; their own times tell when they began.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from roller_capture.errors import RollerError
from roller_capture.importing import netstrings
from roller_capture.importing.exchange import DamagedRecordError, ImportedExchange, ImportGap, check_head
from roller_capture.importing.sources import Place
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead, ResponseHead
from roller_capture.recording.headers import split_roller
from roller_capture.vocabulary import AttemptErrorCode, CutBy

try:
    from mitmproxy import http
    from mitmproxy.flow import Error, Flow
    from mitmproxy.io import compat
except ImportError as error:
    raise RollerError(
        f"flow files are read with mitmproxy, which cannot be imported here ({error}): install it, or import a HAR",
        exit_code=2,
    ) from None

LARGEST_FLOW: Final = 1024 * 1024 * 1024
"""Bytes of one flow, both bodies included."""

_LONGEST_PREFIX: Final = 13
_SWITCHED: Final = 101


class FlowFile:
    """A `mitmdump -w` file."""

    kind = "mitmproxy-flows"
    has_ids = True

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path = path
        self._stream = stream
        self.gaps: list[ImportGap] = [
            ImportGap(AttemptErrorCode.IMPORT_CALLS_UNPROVEN, "a flow file does not prove that every request is in it"),
            ImportGap(
                AttemptErrorCode.IMPORT_TIMING_UNKNOWN, "flows do not tell when and in how many pieces responses came"
            ),
        ]

    def places(self) -> list[Place]:
        """Where the HTTP flows stand."""
        places: list[Place] = []
        others = 0
        for number, offset, length in self._frames():
            try:
                kind, flow_id, started_at = _glance(self._frame(offset, length))
            except DamagedRecordError as error:
                self._damaged(number, str(error))
                continue
            if kind != "http":
                others += 1
            else:
                places.append(Place(started_at, number, offset, length, flow_id))
        if others:
            message = f"{others} flows are no HTTP, and nobody can tell what was in them"
            self.gaps.append(ImportGap(AttemptErrorCode.IMPORT_CALLS_UNPROVEN, message))
        return places

    def read(self, place: Place) -> ImportedExchange:
        """One flow. Raises `DamagedRecordError`."""
        flow = _load(self._frame(place.offset, place.length))
        try:
            return check_head(_exchange(flow))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise DamagedRecordError(f"its members are not what they should be ({type(error).__name__})") from None

    def _frames(self) -> Iterator[tuple[int, int, int]]:
        """Number, offset and length of each record, up to the first whose length cannot be true."""
        size = os.fstat(self._stream.fileno()).st_size
        number, offset = 0, 0
        while offset < size:
            number += 1
            length = self._length_at(offset)
            if length is None:
                self._damaged(number, "it has no length, so what stands behind it cannot be found either")
                return
            if offset + length > size:
                self._damaged(number, "the file ends within it")
                return
            if length > LARGEST_FLOW:
                self._damaged(number, f"it is larger than {LARGEST_FLOW >> 20} MiB")
            else:
                yield number, offset, length
            offset += length

    def _length_at(self, offset: int) -> int | None:
        """Bytes of the record that begins there, prefix and type mark included."""
        self._stream.seek(offset)
        digits, mark, _ = self._stream.read(_LONGEST_PREFIX + 1).partition(b":")
        if not mark or not digits.isdigit():
            return None
        return len(digits) + len(mark) + int(digits) + 1

    def _frame(self, offset: int, length: int) -> bytes:
        self._stream.seek(offset)
        return self._stream.read(length)

    def _damaged(self, number: int, reason: str) -> None:
        self.gaps.append(ImportGap(AttemptErrorCode.IMPORT_SOURCE_DAMAGED, f"record {number} cannot be read: {reason}"))


def _state(frame: bytes) -> dict[str, Any]:
    try:
        state = netstrings.loads(frame)
    except netstrings.NetstringError as error:
        raise DamagedRecordError(f"it is no flow ({error})") from None
    if not isinstance(state, dict):
        raise DamagedRecordError("it is no flow")
    return state


def _glance(frame: bytes) -> tuple[str, bytes, float]:
    """Type, id and beginning of a flow, without making one of it."""
    state = _state(frame)
    request = state.get("request")
    started_at = request.get("timestamp_start") if isinstance(request, dict) else None
    return str(_text(state.get("type"))), _text(state.get("id")).encode("utf-8", "replace"), _moment(started_at) or 0.0


def _load(frame: bytes) -> http.HTTPFlow:
    state = _state(frame)
    try:
        # It migrates what it knows, in place, and tells of a newer format by a ValueError.
        flow = Flow.from_state(compat.migrate_flow(state))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - mitmproxy checks little, and a wrong type can raise anything
        newer = isinstance(error, ValueError) and "flow format version" in str(error)
        reason = "a newer mitmproxy wrote it" if newer else f"mitmproxy cannot read it ({type(error).__name__})"
        raise DamagedRecordError(reason) from None
    if not isinstance(flow, http.HTTPFlow):
        raise DamagedRecordError("it is no HTTP flow")
    return flow


def _exchange(flow: http.HTTPFlow) -> ImportedExchange:
    request, response = flow.request, flow.response
    failure = _failure(flow)
    request_complete = request.timestamp_end is not None or response is not None
    body = _bytes(request.raw_content) if request_complete else None
    answer = None if response is None else _bytes(response.raw_content)
    trailers = () if response is None or response.trailers is None else response.trailers.fields
    return ImportedExchange(
        head=_request_head(request),
        request_body=body,
        request_times=BodyTimes(_moment(request.timestamp_start), _moment(request.timestamp_end)),
        request_complete=request_complete,
        response=None if response is None else _response_head(response),
        response_body=answer,
        ended_at=None if response is None else _moment(response.timestamp_end),
        failure=failure,
        trailers=_fields(trailers),
        is_websocket=flow.websocket is not None or (response is not None and response.status_code == _SWITCHED),
        gaps=tuple(_gaps(flow, failure, request_unseen=request_complete and body is None)),
    )


def _request_head(request: http.Request) -> RequestHead:
    forwarded, roller = split_roller(_fields(request.headers.fields))
    return RequestHead(
        method=_text(request.method),
        scheme=_text(request.scheme),
        host=_text(request.host).rpartition("@")[2],
        port=int(request.port),
        path=_text(request.path),
        http_version=_text(request.http_version),
        fields=tuple(forwarded),
        roller=tuple(roller),
        imported=True,
    )


def _response_head(response: http.Response) -> ResponseHead:
    return ResponseHead(
        status=int(response.status_code),
        http_version=_text(response.http_version),
        fields=_fields(response.headers.fields),
        started_at=_moment(response.timestamp_start),
    )


def _failure(flow: http.HTTPFlow) -> Failure | None:
    """How it broke. Of the sides only the proxy itself is known: mitmproxy's words for the others are the same whoever
    it was, also for a service that was never reached, and the state of the connections is not saved with the flow."""
    response, complete = flow.response, flow.request.timestamp_end is not None
    if flow.error is not None:
        message, ended_at = _text(flow.error.msg), _moment(flow.error.timestamp)
        cut_by = CutBy.PROXY if message == Error.KILLED_MESSAGE else None
        return Failure(cut_by, message, request_complete=complete, ended_at=ended_at)
    if response is None or response.timestamp_end is None:
        return Failure(None, "the exchange had not ended when it was saved", request_complete=complete)
    if 100 <= response.status_code < 200 and response.status_code != _SWITCHED:
        text = f"the proxy forwards no answer that comes after an interim one ({response.status_code})"
        return Failure(CutBy.PROXY, text, request_complete=complete)
    return None


def _gaps(flow: http.HTTPFlow, failure: Failure | None, *, request_unseen: bool) -> Iterator[ImportGap]:
    if failure is not None and failure.cut_by is None:
        message = "a flow that broke does not tell which side broke it"
        yield ImportGap(AttemptErrorCode.IMPORT_CUT_SIDE_UNKNOWN, message)
    if request_unseen:
        yield ImportGap(AttemptErrorCode.IMPORT_BODY_MISSING, "the request's body passed without being kept")
    if flow.response is not None and flow.response.raw_content is None:
        yield ImportGap(AttemptErrorCode.IMPORT_BODY_MISSING, "the response's body passed without being kept")
    if flow.modified():
        yield ImportGap(AttemptErrorCode.IMPORT_ALTERED, "the flow was edited before it was saved")
    if flow.is_replay:
        yield ImportGap(AttemptErrorCode.IMPORT_ALTERED, "mitmproxy replayed the flow: no harness and service did it")


def _fields(fields: Any) -> tuple[tuple[bytes, bytes], ...]:
    pairs = tuple((name, value) for name, value in fields)
    if not all(isinstance(part, bytes) for pair in pairs for part in pair):
        raise TypeError("headers are bytes")
    return pairs


def _bytes(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, bytes):
        raise TypeError("bodies are bytes")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DamagedRecordError("a text of it is none")
    return value


def _moment(value: Any) -> float | None:
    """Seconds since 1970, if it is a time at all."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0 < value < 253402300800 else None
