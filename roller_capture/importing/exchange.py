"""An HTTP exchange as the file of another recorder tells it, as plain values."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from roller_capture.recording.credentials import HeaderField
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead, ResponseHead
from roller_capture.vocabulary import AttemptErrorCode

LARGEST_HEAD: Final = 1024 * 1024
"""Bytes of a request or response without its body. No server takes more; the recorder's events are small lines."""


class DamagedRecordError(Exception):
    """A record of the source that cannot be read: its words say why, and quote nothing of it."""


class ImportGap(NamedTuple):
    """What the source does not prove: one of the vocabulary's `import_…` codes, and a clause for people."""

    code: AttemptErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class ImportedExchange:
    """One exchange. A body is `None` where the source does not hold it; an empty one is known to be empty.

    `failure` says how it broke, `None` that it ended normally. `is_websocket`: it became one.
    """

    head: RequestHead
    request_body: bytes | None
    request_times: BodyTimes
    request_complete: bool
    response: ResponseHead | None
    response_body: bytes | None
    ended_at: float | None
    failure: Failure | None
    trailers: tuple[HeaderField, ...] = ()
    is_websocket: bool = False
    gaps: tuple[ImportGap, ...] = ()


def check_head(exchange: ImportedExchange) -> ImportedExchange:
    """The exchange. Raises `DamagedRecordError` where its heads are larger than any that a server takes."""
    head, response = exchange.head, exchange.response
    fields = [*head.fields, *(response.fields if response is not None else ()), *exchange.trailers]
    size = sum(len(name) + len(value) for name, value in fields) + len(head.path) + len(head.host) + len(head.method)
    size += sum(len(name) + len(value) for name, value in head.roller)
    if size > LARGEST_HEAD:
        raise DamagedRecordError("its head is larger than any that a server takes")
    return exchange
