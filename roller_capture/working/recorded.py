"""What the recorder saw, as values."""

from dataclasses import dataclass, field
from pathlib import Path

from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, CutBy, HttpEnd, OtherRequestKind, Protocol


@dataclass(frozen=True, slots=True)
class AttemptFault:
    """Something missing or wrong in the attempt as a whole."""

    code: AttemptErrorCode
    message: str
    source: str | None = None
    locator: str | None = None


@dataclass(frozen=True, slots=True)
class BodyFile:
    """A body on disk: `path` is None when the file is missing or refused; `expected` is what the recorder wrote."""

    path: Path | None
    expected: int | None
    actual: int

    @property
    def damaged(self) -> bool:
        """The file does not hold what the recorder wrote into it."""
        return self.path is not None and self.expected is not None and self.actual != self.expected


@dataclass(slots=True)
class RecordedCall:
    """One model request as the recorder saw it. Header pairs have lower-case names and stand in wire order."""

    flow: str
    sequence: int
    protocol: Protocol
    method: str
    scheme: str
    host: str
    port: int | None
    path: str
    request_line: int
    request_version: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    other_headers: list[str] = field(default_factory=list)
    roller_headers: list[tuple[str, str]] = field(default_factory=list)
    content_encoding: str | None = None
    foreign_credential: bool = False
    """It came without the dummy credential of this attempt, so something else made it (design section 4)."""
    imported: bool = False
    """Another recorder saw it: only the times that its file tells are times of the exchange."""
    request_decoded: bool = False
    response_decoded: bool = False
    """The body on disk is a text that some program made of the wire's bytes."""
    request_body: BodyFile | None = None
    request_complete: bool = False
    request_start: float | None = None
    request_end: float | None = None
    request_end_ns: int | None = None
    status: int | None = None
    response_version: str | None = None
    response_headers: list[tuple[str, str]] = field(default_factory=list)
    response_other_headers: list[str] = field(default_factory=list)
    response_body: BodyFile | None = None
    end: HttpEnd = HttpEnd.PROXY_KILLED
    failure_message: str | None = None
    cut_by: CutBy | None = None
    ended_at: float | None = None
    ended_ns: int | None = None
    first_byte_at: float | None = None
    first_byte_ns: int | None = None
    chunks: int | None = 0
    masked: str | bool = False
    recorder_errors: list[tuple[CallErrorCode, str]] = field(default_factory=list)

    def header_values(self, name: str) -> list[str]:
        """Values of a request header, the harness's own and ours, in wire order."""
        return [value for key, value in (*self.headers, *self.roller_headers) if key == name]

    def response_header(self, name: str) -> str | None:
        """The (joined) value of a response header."""
        values = [value for key, value in self.response_headers if key == name]
        return ", ".join(values) if values else None


@dataclass(frozen=True, slots=True)
class KeptBody:
    """A body that belongs to no call but is kept in raw/: of a model-like request on an endpoint we do not know
    (`unrecognised`), or one that no readable event names (`orphans`)."""

    folder: str
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class WorkingAttempt:
    """All that the working files say."""

    directory: Path
    capture_id: str | None
    harness: str | None
    started_at: float | None
    closed_at: float | None
    closed: bool
    recorder_version: str | None
    calls: tuple[RecordedCall, ...]
    other_requests: dict[OtherRequestKind, int]
    kept_bodies: tuple[KeptBody, ...]
    faults: tuple[AttemptFault, ...]
