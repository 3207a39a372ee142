"""What an import reads: which kind of file it is, and its exchanges in the order in which their requests began."""

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.importing.exchange import ImportedExchange, ImportGap

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_LINE: Final = 16 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_OF_A_NATIVE_LOG: Final = frozenset({"sessionId", "parentUuid", "uuid", "session_id", "timestamp", "type"})
_WHY_NOT: Final = (
    "a harness's own log is no record of its requests: the system prompt, the tools and what was really sent are not "
    "in it, so no call can be made from it: import a mitmdump -w file or a HAR, and give the log with --native"
)


class Place(NamedTuple):
    """Where a record stands. `started_at` orders it (0 where the source does not tell), `number` names it, from 1.

    `identity` is the id that its recorder gave the exchange, the same in all files; `None` where there are no ids.
    """

    started_at: float
    number: int
    offset: int
    length: int
    identity: bytes | None = None


class Source(Protocol):
    """A file of exchanges."""

    kind: str
    has_ids: bool
    """Whether its records have ids, by which copies in other files are known."""
    gaps: list[ImportGap]
    """What the file as a whole does not prove; complete once `places` has returned."""

    def places(self) -> Sequence[Place]:
        """The records that can be read as far as their heads go. What cannot is in `gaps`."""

    def read(self, place: Place) -> ImportedExchange:
        """One exchange. Raises `DamagedRecordError`."""


def open_file(path: Path) -> IO[bytes]:
    """The file. Raises `RollerError`: exit 2 where there is none, exit 1 for what is no record of requests."""
    if path.is_dir():
        if _holds_logs(path):
            raise RollerError(f"{path}: {_WHY_NOT}")
        raise RollerError(f"{path}: is a folder: name the file that mitmdump -w wrote, or a HAR", exit_code=2)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = "there is no such file" if missing else f"cannot be read ({error.strerror})"
        raise RollerError(f"{path}: {reason}", exit_code=2) from None
    stream = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        stream.close()
        raise RollerError(f"{path}: is no regular file", exit_code=2)
    return stream


def open_source(path: Path, stream: IO[bytes]) -> Source:
    """The reader of its kind. Raises `RollerError` (exit 1) for a file of no known kind."""
    start = stream.read(_LONGEST_LINE).removeprefix(_BOM).lstrip()
    stream.seek(0)
    if start[:1].isdigit():
        from roller_capture.importing.flow_file import FlowFile  # noqa: PLC0415 - only this kind needs mitmproxy

        return FlowFile(path, stream)
    if start[:1] == b"{":
        if _is_line_of_a_log(start):
            raise RollerError(f"{path}: {_WHY_NOT}")
        from roller_capture.importing.har import HarFile  # noqa: PLC0415

        return HarFile(path, stream)
    raise RollerError(
        f"{path}: {'is empty: it holds no exchange' if not start else 'is neither a mitmdump -w file nor a HAR'}"
    )


def describe(path: Path, stream: IO[bytes], kind: str) -> dict[str, Any]:
    """What attempt.json keeps of a source: its name without folders, kind, size and hash."""
    digest, size = hashlib.sha256(), 0
    stream.seek(0)
    while piece := stream.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    return {"name": path.name, "kind": kind, "bytes": size, "sha256": digest.hexdigest()}


def refuse_copies(paths: Sequence[Path], described: Sequence[dict[str, Any]]) -> None:
    """Raises `RollerError` (exit 2) where two of the files are the same one: each of its calls would be two."""
    first: dict[str, Path] = {}
    for path, source in zip(paths, described, strict=True):
        other = first.setdefault(source["sha256"], path)
        if other is not path:
            what = "named twice" if other == path else f"the same file as {other}"
            raise RollerError(f"{path}: is {what}: name each file once, or its calls would count twice", exit_code=2)


def _is_line_of_a_log(start: bytes) -> bool:
    """Whether the first line is a JSON object of its own; a HAR on one line is one too, but with a `log`."""
    line, _, _ = start.partition(b"\n")
    try:
        value = json_text.parse(line)
    except json_text.JsonError:
        return False
    return isinstance(value, dict) and "log" not in value and bool(_OF_A_NATIVE_LOG & value.keys())


def _holds_logs(folder: Path) -> bool:
    """Whether a folder is one in which a harness keeps its logs, told by a few names."""
    return any((folder / name).exists() for name in (".claude", "projects")) or any(folder.glob("*.jsonl"))
