"""One model call: from its head to its end mark, as events and body files.

A call has two sides, request and response, which may end in either order when a large request is streamed. Methods of
one call are never run at the same time; those named `…_chunk` run inside the proxy's stream callables and never raise.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from roller_capture.recording.attempt_journal import AttemptJournal
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.credentials import Credentials, HeaderField
from roller_capture.recording.endpoints import recorded_path
from roller_capture.recording.exchange import BodyTimes, Failure, FailurePhase, Progress, RequestHead, ResponseHead
from roller_capture.recording.failure_text import failure_text
from roller_capture.recording.headers import content_encoding, header_names, select, select_ids
from roller_capture.recording.response_body import ResponseBody, response_body
from roller_capture.vocabulary import Protocol


class CallRecorder:
    """Records one call. Making it writes `request_headers`."""

    def __init__(
        self, journal: AttemptJournal, flow: str, sequence: int, head: RequestHead, protocol: Protocol
    ) -> None:
        self.flow: Final = flow
        self._journal: Final = journal
        self._head: Final = head
        self._name: Final = f"{sequence:06d}"
        self._credentials: Final = Credentials(
            head.fields, head.path, journal.identity_headers, head.keys, (value for _, value in head.roller)
        )
        self._request: BodyFile | None = None
        self._response: ResponseBody | None = None
        self._progress: Final = Progress()
        self.request_ended = False
        self.response_ended = False
        self._write_head(sequence, head, protocol)

    def _write_head(self, sequence: int, head: RequestHead, protocol: Protocol) -> None:
        stored = select(head.fields, self._journal.identity_headers, self._credentials)
        roller, withheld = select_ids(head.roller, self._credentials)
        self._journal.event(
            "request_headers",
            flow=self.flow,
            sequence=sequence,
            protocol=protocol,
            method=head.method,
            scheme=head.scheme,
            host=head.host,
            port=head.port,
            path=recorded_path(head.path, self._credentials, opaque=False),
            http_version=head.http_version,
            headers=stored.headers,
            other_headers=[*stored.other, *withheld],
            roller_headers=[list(pair) for pair in roller],
            content_encoding=None if head.decoded else stored.content_encoding,
            **({} if head.credential is None else {"credential": head.credential}),
            **({"imported": True} if head.imported else {}),
            **({"decoded": True} if head.decoded else {}),
        )

    def request_chunk(self, data: bytes) -> None:
        """Takes a piece of the request body; it is written when this returns."""
        if self._request is None:
            self._request = self._body_file("request")
        self._request.write(data)

    def end_request(self, times: BodyTimes, *, complete: bool, seen: bool = True) -> None:
        """The request body has ended: writes `request`. Without a file of the body where nobody has `seen` it."""
        if self.request_ended:
            return
        self.request_ended = True
        if seen:
            self.request_chunk(b"")
        self._journal.event(
            "request",
            flow=self.flow,
            body=self._request.describe() if self._request else None,
            complete=complete,
            started_at=times.started_at,
            ended_at=times.ended_at,
        )
        if self.response_ended:
            self._close_request()

    def begin_response(self, head: ResponseHead) -> None:
        """The head of the response is there: writes `response_headers`."""
        stored = select(head.fields, self._journal.identity_headers, self._credentials)
        self._journal.event(
            "response_headers",
            flow=self.flow,
            status=head.status,
            http_version=head.http_version,
            headers=stored.headers,
            other_headers=stored.other,
            started_at=head.started_at,
            **({"decoded": True} if head.decoded else {}),
        )
        file = self._body_file("response")
        encoding = None if head.decoded else content_encoding(head.fields)
        self._response = response_body(file, head.status, encoding, self._credentials)

    def response_chunk(self, data: bytes) -> None:
        """Takes a piece of the response body; it is written when this returns."""
        if self._response is None or self.response_ended:
            return
        if self._progress.first_byte_at is None and not self._head.imported:
            self._progress.first_byte_at = time.time()
            self._progress.first_byte_mono_ns = time.monotonic_ns()
        self._progress.chunks += 1
        self._response.write(data)

    @property
    def ends_slowly(self) -> bool:
        """Whether ending it takes more than a few writes, and so belongs into a thread."""
        return self._response is not None and self._response.ends_slowly

    @property
    def chunks(self) -> int:
        """How many pieces of the response have come."""
        return self._progress.chunks

    def end_response(self, ended_at: float | None, trailers: Sequence[HeaderField] = ()) -> None:
        """The response ended normally: writes `response`; of trailers only the names."""
        names = header_names(trailers, self._credentials)
        self._end("response", ended_at, **({"trailers": names} if names else {}))

    def fail(self, failure: Failure) -> None:
        """The exchange broke: writes `failure`."""
        if self._request is not None:
            self.end_request(BodyTimes(), complete=False)
        self._end(
            "failure",
            failure.ended_at,
            phase=self._phase(failure),
            cut_by=failure.cut_by,
            unreachable=failure.unreachable,
            message=failure_text(failure.message, self._credentials),
        )
        self.request_ended = True

    def websocket_passed(self) -> None:
        """The exchange became a websocket, whose messages nobody records: an error of the attempt."""
        self._journal.event(
            "websocket_passed",
            flow=self.flow,
            host=self._head.host,
            path=recorded_path(self._head.path, self._credentials, opaque=False),
        )

    def _phase(self, failure: Failure) -> FailurePhase:
        if failure.unreachable:
            return FailurePhase.CONNECT
        # A response can begin before the request has ended; then it is the response that broke.
        sending = self._response is None and not failure.request_complete
        return FailurePhase.REQUEST if sending else FailurePhase.RESPONSE

    def _end(self, kind: str, ended_at: float | None, **fields: Any) -> None:
        if self.response_ended:
            return
        self.response_ended = True
        if self._response is not None:
            self._response.finish()
        if self.request_ended or kind == "failure":
            self._close_request()
        self._journal.event(
            kind,
            flow=self.flow,
            body=self._response.describe() if self._response else None,
            chunks=None if self._head.imported else self._progress.chunks,
            first_byte_at=self._progress.first_byte_at,
            first_byte_mono_ns=self._progress.first_byte_mono_ns,
            ended_at=ended_at if ended_at or self._head.imported else time.time(),
            masked=self._response.masked if self._response else False,
            **fields,
        )

    def _close_request(self) -> None:
        if self._request is not None:
            self._request.close()

    def _body_file(self, side: str) -> BodyFile:
        return self._journal.body_file(self.flow, f"{self._name}.{side}")
