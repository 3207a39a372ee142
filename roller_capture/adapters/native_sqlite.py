"""Takes the allowed columns of a harness's SQLite database out, as JSON Lines that serve as log and as evidence.

A harness's database can hold credentials beside its sessions, and lies in a home that is never written to. So it is
copied with its write-ahead log into a scratch folder and opened there, and what is read of it becomes lines such as
`{"table": "message", "id": "msg_1", …}`: one for each row, in the order asked for. Adapters read these lines like any
other native log, and locate evidence in them by `line:N`. Nothing else of a database is ever kept.

Databases are hostile too: damaged, half copied, without their log, with views in place of tables, with huge values.
"""

import base64
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.vocabulary import AttemptErrorCode

LARGEST_VALUE: Final = 64 * 1024 * 1024
"""Bytes of one column of one row; a row that holds more ends the reading of its table."""

_MOST_VARIABLES: Final = 500

Blob = Callable[[bytes], object]
"""Turns a BLOB into a JSON value. Must not raise."""

Row = Mapping[str, Any]


def as_base64(data: bytes) -> object:
    """How a BLOB stands in an extract unless its table says otherwise."""
    return {"base64": base64.b64encode(data).decode("ascii")}


@dataclass(frozen=True, slots=True)
class Table:
    """What may be read of one table.

    A column that a database lacks is left out of its rows; `needed` are those without which the table is of no use.
    `order` are columns by which rows are sorted (default: as they were inserted).
    """

    name: str
    columns: tuple[str, ...]
    needed: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    blobs: Mapping[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of `table` in which `column` has one of `values`; all of its rows without `column`."""

    table: Table
    column: str | None = None
    values: Collection[str] = ()


class Database:
    """An open copy. Whatever cannot be read is a gap, and what could be read before it is kept."""

    def __init__(self, connection: sqlite3.Connection, source: str, gaps: GapLog) -> None:
        self._connection = connection
        self._source = source
        self._gaps = gaps

    def rows(self, selection: Selection) -> Iterator[Row]:
        """The rows, by column name. A table that is not there, or lacks a needed column, is a gap."""
        table = selection.table
        try:
            there = self._columns(table.name)
            missing = [name for name in (*table.needed, *filter(None, (selection.column,))) if name not in there]
            if missing:
                what = f"has no table {table.name}" if not there else f"table {table.name} has no column {missing[0]}"
                self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, what, source=self._source)
                return
            columns = [name for name in table.columns if name in there]
            order = [name for name in table.order if name in there]
            yield from self._select(selection, columns, order)
        except sqlite3.Error as error:
            reason = f"table {table.name} cannot be read on: {type(error).__name__}"
            self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=self._source)

    def extract(self, target: Path, *selections: Selection) -> None:
        """Writes the rows to a new file of mode 0600, a line each. Raises `OSError`."""
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.touch(mode=0o600, exist_ok=False)
        with target.open("wb") as stream:
            for selection in selections:
                for row in self.rows(selection):
                    stream.write(json_text.dumps({"table": selection.table.name, **row}) + b"\n")

    def _columns(self, table: str) -> frozenset[str]:
        kind = self._connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        if kind != [(b"table",)]:  # a view could compute anything
            return frozenset()
        found = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})")
        return frozenset(_text(row[1]) for row in found if row[6] == 0)  # neither hidden nor generated

    def _select(self, selection: Selection, columns: list[str], order: list[str]) -> Iterator[Row]:
        wanted = ", ".join(map(_quoted, columns))
        query = f"SELECT {wanted} FROM {_quoted(selection.table.name)}"  # noqa: S608 - names are ours, and quoted
        ordered = f" ORDER BY {', '.join(map(_quoted, order))}" if order else " ORDER BY rowid"
        if selection.column is None:
            yield from self._read(selection.table, columns, query + ordered, ())
            return
        values = sorted(selection.values)
        for start in range(0, len(values), _MOST_VARIABLES):
            some = values[start : start + _MOST_VARIABLES]
            chosen = f" WHERE {_quoted(selection.column)} IN ({', '.join('?' * len(some))})"
            yield from self._read(selection.table, columns, query + chosen + ordered, tuple(some))

    def _read(self, table: Table, columns: list[str], query: str, values: tuple[str, ...]) -> Iterator[Row]:
        types = ", ".join(f"typeof({_quoted(name)})" for name in columns)
        # Text comes as bytes, since it need not be UTF-8; only its type tells it from a BLOB.
        for row in self._connection.execute(query.replace("SELECT ", f"SELECT {types}, ", 1), values):
            kinds, cells = row[: len(columns)], row[len(columns) :]
            yield {
                name: _value(cell, kind, table.blobs.get(name, as_base64))
                for name, kind, cell in zip(columns, kinds, cells, strict=True)
            }


@contextmanager
def open_database(tree: NativeTree, path: PurePosixPath, scratch: Path, gaps: GapLog) -> Iterator[Database | None]:
    """The database at `path`, copied into `scratch`; `None` where there is none that SQLite can open.

    A missing write-ahead log is no error that SQLite sees: it is what was there when the harness had ended well.
    """
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
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # opening alone reads nothing
    except sqlite3.Error as error:
        connection.close()
        reason = f"is no SQLite database that can be read: {type(error).__name__}"
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=source)
        return None
    return connection


def _value(cell: object, kind: bytes, blob: Blob) -> object:
    if isinstance(cell, bytes):
        return blob(cell) if kind == b"blob" else _text(cell)
    return cell


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
