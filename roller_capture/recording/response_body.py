"""How a response body is stored: as it came, or without the credentials that it echoes.

Only the stored copy is ever changed (docs/working-files.md, `masked`). In an error body (not 2xx) everything counts
that may be a credential; in any other only what is one beyond doubt, since an answer has to stay what it was. Any other
matters too: services report errors with status 200, and within streams.
"""

from typing import Any, Final, Protocol

from roller_capture.model_protocols.content_coding import decode_body
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.credentials import Credentials, Masker, StreamMasker

LARGEST_CHECKED_BODY: Final = 8 * 1024 * 1024
"""Bytes. A content-encoded error body is kept in memory up to here, and not stored at all beyond."""

LARGEST_DECODED_BODY: Final = 64 * 1024 * 1024
"""Bytes that such a body may decode to."""


class ResponseBody(Protocol):
    """Takes the chunks of one response. `masked` and `describe()` are final once `finish()` has returned."""

    masked: bool | str

    @property
    def ends_slowly(self) -> bool:
        """Whether `finish()` takes more than a few writes."""

    def write(self, data: bytes) -> None:
        """Takes a chunk. Never raises."""

    def finish(self) -> None:
        """Ends the body."""

    def describe(self) -> dict[str, Any] | None:
        """`body` of the end event."""


def response_body(file: BodyFile, status: int, encoding: str | None, credentials: Credentials) -> ResponseBody:
    """The way to store the body of a response with this status and content coding."""
    if not credentials:
        return PlainBody(file)
    is_answer = 200 <= status < 300
    if is_answer and not credentials.masker_of_answers.patterns:
        return PlainBody(file)
    masker = credentials.masker_of_answers if is_answer else credentials.masker
    if encoding in (None, "identity"):
        return MaskedAnswer(file, masker) if is_answer else MaskedBody(file, masker)
    return CheckedAnswer(file, encoding or "", masker) if is_answer else CheckedBody(file, encoding or "", masker)


class PlainBody:
    """The bytes of the wire."""

    ends_slowly: bool = False

    def __init__(self, file: BodyFile) -> None:
        self._file: Final = file
        self.masked: bool | str = False

    def write(self, data: bytes) -> None:
        """Stores the chunk."""
        self._file.write(data)

    def finish(self) -> None:
        """Closes the file."""
        self._file.close()

    def describe(self) -> dict[str, Any] | None:
        """Where the body is."""
        return self._file.describe()


class MaskedBody(PlainBody):
    """A body as it came, with the request's credentials blotted out."""

    def __init__(self, file: BodyFile, masker: Masker) -> None:
        super().__init__(file)
        self._masker: Final = StreamMasker(masker)

    def write(self, data: bytes) -> None:
        """Stores the chunk, but for an end that may be the beginning of a secret."""
        self._file.write(self._masker.feed(data))

    def finish(self) -> None:
        """Stores what was held back and closes the file."""
        self._file.write(self._masker.finish())
        self.masked = self._masker.masked
        super().finish()


class MaskedAnswer(PlainBody):
    """An answer as it came: on disk before the client sees it, to the last byte; a key in it is blotted out at once."""

    def __init__(self, file: BodyFile, masker: Masker) -> None:
        super().__init__(file)
        self._masker: Final = masker
        self._reach: Final = masker.longest - 1
        self._tail = b""

    def write(self, data: bytes) -> None:
        """Stores the chunk, then looks for a key in it and across its beginning."""
        start = self._file.bytes - len(self._tail)
        super().write(data)
        seen = self._tail + data
        for begin, end in self._masker.intervals(seen):
            self.masked = True
            self._file.overwrite(start + begin, b"*" * (end - begin))
        self._tail = seen[max(0, len(seen) - self._reach) :]


class CheckedBody(PlainBody):
    """A content-encoded error body: what it says is seen only at its end, so it waits in memory until then."""

    ends_slowly = True

    def __init__(self, file: BodyFile, encoding: str, masker: Masker) -> None:
        super().__init__(file)
        self._encoding: Final = encoding
        self._masker: Final = masker
        self._chunks: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Collects the chunk."""
        self._size += len(data)
        if self._size <= LARGEST_CHECKED_BODY:
            self._chunks.append(data)
        else:
            self._chunks.clear()

    def finish(self) -> None:
        """Stores the wire bytes if they hold no secret, else the decoded and masked text, else nothing."""
        encoded = b"".join(self._chunks)
        self._chunks.clear()
        decoded = _decoded(encoded, self._encoding) if self._size <= LARGEST_CHECKED_BODY else None
        if decoded is None:
            self.masked = "decoded"
        elif self._masker.intervals(decoded) or self._masker.intervals(encoded):
            self.masked = "decoded"
            self._file.write(self._masker.mask(decoded))
        else:
            self._file.write(encoded)
        super().finish()

    def describe(self) -> dict[str, Any] | None:
        """Where the body is; `None` when it could not be checked and so was not stored."""
        return None if self.masked and not self._file.bytes else self._file.describe()


class CheckedAnswer(PlainBody):
    """A content-encoded answer: stored as it comes, and put right at its end should it hold a key. One that is too
    large to be checked stays as it came."""

    ends_slowly = True

    def __init__(self, file: BodyFile, encoding: str, masker: Masker) -> None:
        super().__init__(file)
        self._encoding: Final = encoding
        self._masker: Final = masker
        self._chunks: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Stores the chunk, and keeps it for the check."""
        super().write(data)
        self._size += len(data)
        if self._size <= LARGEST_CHECKED_BODY:
            self._chunks.append(data)
        else:
            self._chunks.clear()

    def finish(self) -> None:
        """Checks what the body says."""
        encoded = b"".join(self._chunks)
        self._chunks.clear()
        decoded = _decoded(encoded, self._encoding)
        if decoded is not None and self._masker.intervals(decoded):
            self.masked = "decoded"
            self._file.rewrite(self._masker.mask(decoded))
        super().finish()


def _decoded(encoded: bytes, encoding: str) -> bytes | None:
    """What a body says, as far as it can be decoded; `None` when that cannot be known."""
    body = decode_body(encoded, encoding, limit=LARGEST_DECODED_BODY)
    return None if body.too_large or body.unknown is not None else body.data
