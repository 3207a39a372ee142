"""Copies a harness's SQLite database out of a home, of one moment, without a trace in the home.

Two ways. Where nobody writes, the files are copied as they lie: a database, its write-ahead log and its rollback
journal that stayed the same all the while are what a crash at that moment would have left, and SQLite makes the last
whole transaction of it when it opens the copy. Where somebody writes all the time, only SQLite can tell one moment
from the next: its backup interface then copies the pages from within one reading transaction.

The second way opens the database in the home, which must leave no trace there either (measured with SQLite 3.40 and
3.51; as root it sets the owner of `-wal` and `-shm` to that of the database, which is a change of their status time):

- `mode=ro` alone makes `-wal` and `-shm` where they are missing, and writes to `-shm` where nobody has it open. With
  `readonly_shm` a `-shm` is neither made nor written to; `-wal` is made all the same, and removed beside a database
  without a byte. So it is opened only where there is nothing to be made or removed, and that stays so for as long as we
  hold the locks of a reader (rules: https://sqlite.org/lockingv3.html): who closes a database last needs it for itself
  to remove these two files.
- SQLite takes a path and follows it wherever it leads by then. What it has opened is therefore compared with the files
  that were found without following a link.
- POSIX forgets all locks that a process has on a file as soon as it closes one descriptor of it
  (https://sqlite.org/howtocorrupt.html, 2.2). Ours is closed after SQLite's, and its locks belong to the descriptor.

Whoever writes a database with a rollback journal waits while it is read, so that is given up soon; beside a write-ahead
log nobody waits.
"""

import errno
import fcntl
import os
import shutil
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.vocabulary import AttemptErrorCode

_COPY: Final = "db"
_WAL: Final = "-wal"
_SHM: Final = "-shm"
_JOURNAL: Final = "-journal"

_MOST_COPIES: Final = 3
_CLOCK_TICKS: Final = 0.02
"""Seconds. A file that was written to twice within one tick of the kernel's clock (at most 10 ms) has one time."""

_PATIENCE: Final = 10.0
"""Seconds to wait for writers to let a reader in."""
_POLL: Final = 0.001
_LONGEST_READ: Final = {True: 60.0, False: 2.0}
"""Seconds of one backup, with a write-ahead log and without. Without, writers wait: by the default of most bindings for
5 seconds, before their program is told that the database is locked."""
_PAGES_AT_ONCE: Final = 512

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_READ_VERSION: Final = 19
"""Where the header says how a database is read: 2 with a write-ahead log (https://sqlite.org/fileformat.html, 1.3)."""
_SUPER_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
"""Ends a journal that names a further file: one which SQLite would open, and perhaps remove, wherever it lies."""
_PENDING: Final = (0x40000000, 1)
_SHARED: Final = (0x40000002, 510)
"""Bytes of a database, as offset and length. While we hold the second, nobody else has it for themselves; while we hold
the first as well, nobody waits for that either, and SQLite's own reading lock is never refused."""

_Way = Callable[[NativeTree, PurePosixPath, Path], bool]
"""Makes the copy in a folder, and returns whether there was a database to open."""


class _UnsettledError(Exception):
    """Why there is no copy of one moment."""


def copy_database(tree: NativeTree, path: PurePosixPath, folder: Path, gaps: GapLog) -> Path | None:
    """A copy of the database at `path`, in `folder`, which is ours alone; `None` where there is none that could be
    made. Unless there is no file at `path` to begin with, that is a gap."""
    reasons: dict[str, None] = {}
    ways: list[_Way] = [*[_copy_files] * _MOST_COPIES, _back_up, _copy_files]  # the writer may end before the last
    try:
        for way in ways:
            try:
                if way(tree, path, folder):
                    return folder / _COPY
                if not reasons:
                    return None
                raise _UnsettledError("it can be opened no more")
            except _UnsettledError as error:
                reasons[str(error)] = None
        reason = f"no copy of one moment can be made: {'; '.join(reasons)}"
    except OSError as error:
        reason = f"cannot be copied: {error.strerror}"
    gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(path))
    return None


def _copy_files(tree: NativeTree, path: PurePosixPath, folder: Path) -> bool:
    """Copies the files of a database that nobody writes to meanwhile."""
    with ExitStack() as stack:
        streams = _opened(stack, tree, path)
        if streams is None:
            return False
        before = [_state(stream) for stream in streams.values()]
        time.sleep(_CLOCK_TICKS)
        _make_room(folder, *streams.values())
        for suffix, stream in streams.items():
            with (folder / f"{_COPY}{suffix}").open("wb") as copy:
                shutil.copyfileobj(stream, copy, 1024 * 1024)
        added = [suffix for suffix in (_WAL, _JOURNAL) if suffix not in streams and _kind(tree, path, suffix)]
        if added or before != [_state(stream) for stream in streams.values()]:
            raise _UnsettledError("it is being written to")
    if _JOURNAL in streams and _end(folder / f"{_COPY}{_JOURNAL}") == _SUPER_JOURNAL:
        raise _UnsettledError("its rollback journal names a further file")
    return True


def _opened(stack: ExitStack, tree: NativeTree, path: PurePosixPath) -> dict[str, BinaryIO] | None:
    """The database and what there is of its other two files, by suffix. `None` without a database, and where one of the
    others is refused: alone, a database can hold half of a transaction."""
    streams: dict[str, BinaryIO] = {}
    for suffix in ("", _WAL, _JOURNAL):
        stream = stack.enter_context(tree.open(_beside(path, suffix), as_evidence=False))
        if stream is not None:
            streams[suffix] = stream
        elif not suffix or _kind(tree, path, suffix) is PathKind.REFUSED:
            return None
    return streams


def _back_up(tree: NativeTree, path: PurePosixPath, folder: Path) -> bool:
    """Has SQLite copy the pages out of the database in the home."""
    with ExitStack() as stack:
        database = stack.enter_context(tree.open(path, as_evidence=False))
        if database is None:
            return False
        try:
            _lock(database)
            has_log = _has_log(tree, path, database)
            _make_room(folder, database)
            source = stack.enter_context(closing(_connected(tree.place(path), database)))
            _begin(source, [tree.place(_beside(path, suffix)) for suffix in (_WAL, _SHM) if has_log])
            target = stack.enter_context(closing(sqlite3.connect(folder / _COPY, isolation_level=None)))
            target.execute("PRAGMA synchronous = OFF")
            source.backup(target, pages=_PAGES_AT_ONCE, progress=_limit(_LONGEST_READ[has_log]))
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            raise _UnsettledError(f"SQLite cannot back it up ({name})") from None
    return True


def _has_log(tree: NativeTree, path: PurePosixPath, database: BinaryIO) -> bool:
    """Whether the database, locked for reading, has a write-ahead log. Raises `_UnsettledError` where SQLite would make
    or remove a file as it opens the database, or would wait for a pipe."""
    kinds = {suffix: _kind(tree, path, suffix) for suffix in (_WAL, _SHM, _JOURNAL)}
    if not set(kinds.values()) <= {PathKind.FILE, None}:
        raise _UnsettledError("what lies beside it is no regular file")
    header = os.pread(database.fileno(), _HEADER_BYTES, 0)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise _UnsettledError("it has no header of a database")
    has_log = header[_READ_VERSION] == 2 or kinds[_WAL] is PathKind.FILE
    if has_log and None in (kinds[_WAL], kinds[_SHM]):
        raise _UnsettledError("nobody has it open any more")
    return has_log


def _connected(place: Path, database: BinaryIO) -> sqlite3.Connection:
    """A connection that only reads, to the very file that is open as `database`; of its other files none is open."""
    uri = f"{place.as_uri()}?mode=ro&readonly_shm=1"
    source = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
    if _open_files()[_identity(os.fstat(database.fileno()))] < 2:  # ours, and SQLite's
        source.close()
        raise _UnsettledError("another file has come in its place")
    return source


def _begin(source: sqlite3.Connection, beside: list[Path]) -> None:
    """Begins a transaction that reads, with the files that lie `beside` the database."""
    source.execute("BEGIN")
    source.execute("PRAGMA schema_version").fetchall()  # beginning alone reads nothing
    opened = _open_files()
    try:
        if any(_identity(place.lstat()) not in opened for place in beside):
            raise _UnsettledError("another file has come in the place of one beside it")
    except FileNotFoundError:
        raise _UnsettledError("a file beside it is gone") from None


def _lock(database: BinaryIO) -> None:
    """Locks the database for readers, until it is closed."""
    end = time.monotonic() + _PATIENCE
    for offset, length in (_PENDING, _SHARED):
        request = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, offset, length, 0)  # struct flock
        while True:
            try:
                fcntl.fcntl(database, fcntl.F_OFD_SETLK, request)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > end:
                    raise _UnsettledError("it is locked by who writes to it") from None
            time.sleep(_POLL)


def _limit(seconds: float) -> Callable[[int, int, int], None]:
    """Ends a backup that takes longer."""
    end = time.monotonic() + seconds

    def progress(status: int, remaining: int, total: int) -> None:  # noqa: ARG001 - called by SQLite
        if remaining and time.monotonic() > end:
            raise _UnsettledError("reading it takes longer than its writers should wait")

    return progress


def _make_room(folder: Path, *streams: BinaryIO) -> None:
    """Empties the folder of what an earlier way has left. Raises `OSError` where it cannot take what is to come."""
    for left in folder.iterdir():
        left.unlink()
    if sum(os.fstat(stream.fileno()).st_size for stream in streams) > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _end(journal: Path) -> bytes:
    with journal.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - len(_SUPER_JOURNAL)))
        return stream.read()


def _state(stream: BinaryIO) -> tuple[int, ...]:
    """What changes with every write to a file, and when it is removed."""
    found = os.fstat(stream.fileno())
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink


def _open_files() -> Counter[tuple[int, int]]:
    """How many descriptors this process has of each file."""
    found: Counter[tuple[int, int]] = Counter()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # of the listing itself
            found[_identity(os.fstat(int(descriptor.name)))] += 1
    return found


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _kind(tree: NativeTree, path: PurePosixPath, suffix: str) -> PathKind | None:
    """What lies beside the database under this suffix; `None` for nothing."""
    kind = tree.kind(_beside(path, suffix))
    return None if kind is PathKind.MISSING else kind


def _beside(path: PurePosixPath, suffix: str) -> PurePosixPath:
    return path.with_name(path.name + suffix)
