"""Gives imported exchanges to the recorder's own writing half: allow-lists, masking and files are the same there."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from roller_capture.importing.exchange import ImportedExchange, ImportGap
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.call_recorder import CallRecorder
from roller_capture.recording.credentials import Credentials
from roller_capture.recording.endpoints import classify, model_endpoint
from roller_capture.recording.headers import asks_for_websocket
from roller_capture.recording.other_recorder import OtherRecorder
from roller_capture.vocabulary import AttemptErrorCode, OtherRequestKind, Protocol

MOST_KEYS: Final = 64
"""Real keys to look for in the native logs: no run has more."""

_REFUSED: Final = 426


class Feeder:
    """Records exchanges one after the other.

    `calls` and `others` count them, `unproven` the gaps by code; `keys` are the real keys that the requests carried.
    """

    def __init__(self, recorder: AttemptRecorder) -> None:
        self._recorder = recorder
        self.calls = 0
        self.others = 0
        self.unrecognised = 0
        self.unproven: Counter[str] = Counter()
        self.keys: dict[str, None] = {}

    def feed(self, flow: str, exchange: ImportedExchange) -> None:
        """Records one exchange under a flow id of its own."""
        head = exchange.head
        kind = classify(head.method, head.path)
        if isinstance(kind, Protocol):
            self._feed_call(self._recorder.begin_call(flow, head, kind), exchange)
            self._note_gaps(flow, exchange)
            self.calls += 1
        else:
            if exchange.response is not None and exchange.response.status == _REFUSED and _is_model_websocket(exchange):
                kind = OtherRequestKind.WEBSOCKET_REFUSED
            other = self._recorder.begin_other(flow, head, kind)
            self._feed_other(other, exchange)
            self.others += 1
            self.unrecognised += other.keeps_response
        self._recorder.exchanges.pop(flow)

    def note(self, gaps: Iterable[ImportGap], flow: str | None = None) -> None:
        """Records what is not proven, of the whole or of one exchange."""
        for gap in dict.fromkeys(gaps):
            self.unproven[gap.code] += 1
            self._recorder.journal.event("import_gap", flow=flow, code=gap.code, message=gap.message)

    def _feed_call(self, call: CallRecorder, exchange: ImportedExchange) -> None:
        if exchange.request_body:
            call.request_chunk(exchange.request_body)
        # As in a recording: what was not sent whole has no end.
        if exchange.request_complete:
            call.end_request(exchange.request_times, complete=True, seen=exchange.request_body is not None)
        if exchange.response is not None:
            call.begin_response(exchange.response)
            if exchange.response_body:
                call.response_chunk(exchange.response_body)
        if exchange.is_websocket:
            call.websocket_passed()
        if exchange.failure is not None or exchange.response is None:
            assert exchange.failure is not None
            call.fail(exchange.failure)
        else:
            call.end_response(exchange.ended_at, exchange.trailers)

    def _feed_other(self, other: OtherRecorder, exchange: ImportedExchange) -> None:
        if other.undecided and exchange.request_body:
            other.judge(exchange.request_body)
        if exchange.response is not None:
            other.begin_response(exchange.response)
            if other.keeps_response and exchange.response_body:
                other.response_chunk(exchange.response_body)
        if exchange.is_websocket:
            other.websocket_passed()
        other.end()

    def _note_gaps(self, flow: str, exchange: ImportedExchange) -> None:
        credentials = Credentials(exchange.head.fields, exchange.head.path)
        for key in credentials.real_keys:
            if len(self.keys) < MOST_KEYS:
                self.keys[key.decode("utf-8", "surrogateescape")] = None
        gaps = exchange.gaps
        if exchange.head.decoded and not credentials.real_keys:
            message = "the source has no key of the request, so an echo of it in the answer cannot have been masked"
            gaps = (*gaps, ImportGap(AttemptErrorCode.IMPORT_CREDENTIALS_UNKNOWN, message))
        self.note(gaps, flow)


def _is_model_websocket(exchange: ImportedExchange) -> bool:
    return asks_for_websocket(exchange.head.fields) and model_endpoint(exchange.head.path) is not None
