"""Opens OpenClaw's databases, whose tables have checks that SQLite runs only for a schema that it trusts.

`transcript_events` checks its columns with `json_valid` and others (schema 23). Older SQLite refuses to read such a
table at all with `PRAGMA trusted_schema = OFF` ("unsafe use of json_valid()", measured with 3.40), which is how
`native_sqlite` opens a database. Trust costs nothing here: only stored columns of plain tables are read, so no
expression of the schema is ever run, and a connection of Python's knows no function that could do harm.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_sqlite import LARGEST_VALUE, Database
from roller_capture.vocabulary import AttemptErrorCode


@contextmanager
def open_database(tree: NativeTree, path: PurePosixPath, scratch: Path, gaps: GapLog) -> Iterator[Database | None]:
    """The database at `path`, copied with its write-ahead log into `scratch`; `None` where there is none that can be
    opened."""
    copy = scratch / f"copy-{len(list(scratch.iterdir()))}"
    copy.mkdir(mode=0o700)
    try:
        if not _copied(tree, path, copy / "db", gaps):
            yield None
            return
        _copied(tree, path.with_name(f"{path.name}-wal"), copy / "db-wal", gaps)
        connection = _connected(copy / "db", str(path), gaps)
        if connection is None:
            yield None
            return
        with closing(connection):
            yield Database(connection, str(path), gaps)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copied(tree: NativeTree, path: PurePosixPath, target: Path, gaps: GapLog) -> bool:
    with tree.open(path, as_evidence=False) as source:
        if source is None:
            return False
        try:
            with target.open("wb") as stream:
                shutil.copyfileobj(source, stream, 1024 * 1024)
        except OSError as error:
            reason = f"cannot be copied: {error.strerror}"
            gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(path))
            return False
    return True


def _connected(path: Path, source: str, gaps: GapLog) -> sqlite3.Connection | None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.text_factory = bytes
        for pragma in ("cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # opening alone reads nothing
    except sqlite3.Error as error:
        connection.close()
        reason = f"is no SQLite database that can be read: {type(error).__name__}"
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=source)
        return None
    return connection
