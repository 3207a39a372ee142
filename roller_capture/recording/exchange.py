"""What the proxy tells about one HTTP exchange, as plain values."""

from dataclasses import dataclass, field
from enum import StrEnum

from roller_capture.recording.credentials import HeaderField
from roller_capture.recording.upstream_key import CredentialMark
from roller_capture.vocabulary import CutBy


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request before its body. `fields` are the headers that are forwarded, `roller` the ones taken off.

    With a key of the proxy's own, `credential` says whose credential the request came with, and `keys` are the secrets
    that must not be stored wherever they appear. `imported`: another recorder saw the exchange, so that the times and
    pieces of this one mean nothing. `decoded`: the body comes as a text, without the content coding that it had.
    """

    method: str
    scheme: str
    host: str
    port: int
    path: str
    http_version: str
    fields: tuple[HeaderField, ...]
    roller: tuple[tuple[str, str], ...] = ()
    credential: CredentialMark | None = None
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    imported: bool = False
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A response before its body. `started_at` is in seconds since 1970; `decoded` as for requests."""

    status: int
    http_version: str
    fields: tuple[HeaderField, ...]
    started_at: float | None = None
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class BodyTimes:
    """When a message began and ended, in seconds since 1970, as far as known."""

    started_at: float | None = None
    ended_at: float | None = None


class FailurePhase(StrEnum):
    """How far an exchange had come when it broke."""

    REQUEST = "request"
    CONNECT = "connect"
    RESPONSE = "response"


class RecorderErrorCode(StrEnum):
    """What went wrong in the recorder itself."""

    DISK_ERROR = "disk_error"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exchange that did not end normally. `message` is the proxy's own text.

    `cut_by` is `None` where nothing tells which side broke it, and `ended_at` where that is now.
    """

    cut_by: CutBy | None
    message: str
    unreachable: bool = False
    request_complete: bool = True
    ended_at: float | None = None


@dataclass(slots=True)
class Progress:
    """What came of a response so far. Times as in the events."""

    chunks: int = 0
    first_byte_at: float | None = None
    first_byte_mono_ns: int | None = None
    ended_at: float | None = field(default=None)
