"""Traffic that is no model call: listed, never stored, unless it turns out to be a model request in disguise."""

from collections.abc import Callable
from typing import Final

from roller_capture.model_protocols.content_coding import decode_body
from roller_capture.recording.attempt_journal import AttemptJournal
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.credentials import Credentials
from roller_capture.recording.endpoints import looks_like_model_request, model_endpoint, recorded_path
from roller_capture.recording.exchange import RequestHead, ResponseHead
from roller_capture.recording.headers import content_encoding, header_names
from roller_capture.recording.response_body import ResponseBody, response_body
from roller_capture.vocabulary import OtherRequestKind

LARGEST_JUDGED_BODY: Final = 64 * 1024 * 1024
"""Bytes, decoded: a larger body is not parsed to see what it is."""


class OtherRecorder:
    """Records one exchange that the endpoint does not show to be a model call.

    `kind` is `None` for a POST on an unknown endpoint: `judge` then looks at its body. Writes one event at the end.
    """

    def __init__(
        self,
        journal: AttemptJournal,
        flow: str,
        head: RequestHead,
        kind: OtherRequestKind | None,
        next_body_number: Callable[[], int],
    ) -> None:
        self.flow: Final = flow
        self._journal: Final = journal
        self._head: Final = head
        self._kind: Final = kind
        self._next_body_number: Final = next_body_number
        self._credentials: Final = Credentials(head.fields, head.path, journal.identity_headers, head.keys)
        self._request: BodyFile | None = None
        self._response: ResponseBody | None = None
        self._status: int | None = None
        self._ended = False

    @property
    def undecided(self) -> bool:
        """Whether the body has to be looked at."""
        return self._kind is None

    @property
    def keeps_response(self) -> bool:
        """Whether the response's chunks are wanted."""
        return self._request is not None

    @property
    def ends_slowly(self) -> bool:
        """Whether ending it takes more than a few writes, and so belongs into a thread."""
        return self._response is not None and self._response.ends_slowly

    def judge(self, body: bytes) -> None:
        """Looks at a whole request body, as on the wire; if it is a model request, keeps it. Blocks."""
        if not self.undecided or not body:
            return
        encoding = None if self._head.decoded else content_encoding(self._head.fields)
        text = decode_body(body, encoding, limit=LARGEST_JUDGED_BODY)
        if looks_like_model_request(self._head.path, text.data):
            self._request = self._journal.body_file(self.flow, f"{self._next_body_number():06d}.request")
            self._request.write(body)

    def begin_response(self, head: ResponseHead) -> None:
        """The head of the response is there."""
        self._status = head.status
        if self._request is not None:
            name = self._request.name.replace(".request", ".response")
            file = self._journal.body_file(self.flow, name)
            encoding = None if head.decoded else content_encoding(head.fields)
            self._response = response_body(file, head.status, encoding, self._credentials)

    def response_chunk(self, data: bytes) -> None:
        """Takes a piece of the response body."""
        if self._response is not None and not self._ended:
            self._response.write(data)

    def end(self) -> None:
        """The exchange is over, one way or the other: writes its event."""
        if self._ended:
            return
        self._ended = True
        fields = {
            "flow": self.flow,
            "kind": self._kind or OtherRequestKind.OTHER,
            "method": self._head.method,
            "scheme": self._head.scheme,
            "host": self._head.host,
            "port": self._head.port,
            "path": self._stored_path(),
            "status": self._status,
            "other_headers": header_names(self._head.fields, self._credentials),
        }
        if self._request is None:
            self._journal.event("other_request", **fields)
            return
        if self._response is not None:
            self._response.finish()
        self._request.close()
        self._journal.event(
            "unrecognised_model_request",
            **fields,
            body=self._request.describe(),
            response_body=self._response.describe() if self._response else None,
        )

    def websocket_passed(self) -> None:
        """The exchange became a websocket: an error of the attempt if it stands on a model endpoint."""
        if model_endpoint(self._head.path) is not None:
            self._journal.event("websocket_passed", flow=self.flow, host=self._head.host, path=self._stored_path())

    def _stored_path(self) -> str:
        opaque = self._kind is OtherRequestKind.OTHER or (self._kind is None and self._request is None)
        return recorded_path(self._head.path, self._credentials, opaque=opaque)
