"""Takes the allowed columns of a harness's SQLite database out, as JSON Lines that serve as log and as evidence.

A harness's database can hold credentials beside its sessions, and lies in a home that is never written to. So what is
opened is a copy of it in a scratch folder, of one moment (`native_sqlite_copy`). What is read of it becomes lines such
as `{"table": "message", "id": "msg_1", …}`: one for each row, in the order asked for. Adapters read these lines like
any other native log, and locate evidence in them by `line:N`. Nothing else of a database is ever kept.

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
from roller_capture.adapters.native_sqlite_copy import copy_database
from roller_capture.vocabulary import AttemptErrorCode

LARGEST_VALUE: Final = 64 * 1024 * 1024
"""Bytes of one row; one that holds more is left out, and named."""

_MOST_VARIABLES: Final = 500
_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises on a damaged database. The second stands for an error whose text quotes what is no UTF-8."""

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
    `order` are columns by which rows are sorted (default: as they were inserted). `optional`: other versions of the
    harness, or homes in which it had nothing to put there, lack the whole table, and that is no gap.
    """

    name: str
    columns: tuple[str, ...]
    needed: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    optional: bool = False
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
        """The rows, by column name. A table that is not there, unless it is optional, or lacks a needed column, is a
        gap."""
        table = selection.table
        try:
            kinds = self._kinds(table.name)
            if table.optional and not kinds:
                return
            there = self._columns(table.name) if kinds == [b"table"] else frozenset()  # a view could compute anything
            missing = [name for name in (*table.needed, *filter(None, (selection.column,))) if name not in there]
            if missing:
                what = f"has no table {table.name}" if not there else f"table {table.name} has no column {missing[0]}"
                self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, what, source=self._source)
                return
            columns = [name for name in table.columns if name in there]
            if columns:
                yield from self._select(selection, columns, there)
        except _ERRORS as error:
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

    def _kinds(self, name: str) -> list[object]:
        """What has this name; SQLite finds it in any case of its letters."""
        query = "SELECT type FROM sqlite_master WHERE name = ? COLLATE NOCASE"
        return [kind for (kind,) in self._connection.execute(query, (name,))]

    def _columns(self, table: str) -> frozenset[str]:
        found = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})")
        return frozenset(_text(row[1]) for row in found if row[6] == 0)  # neither hidden nor generated

    def _select(self, selection: Selection, columns: list[str], there: frozenset[str]) -> Iterator[Row]:
        """Finds the rows first, in their order, and then reads each by itself: so that a row which is too large costs
        no other one. A table without row numbers is read in one go."""
        table = selection.table
        rowid = self._rowid_name(table.name, there)
        wanted = self._wanted(columns)
        order = [_quoted(name) for name in table.order if name in there] + ([rowid] if rowid else [])
        if rowid is None:
            for found in self._found(selection, wanted, order):
                yield _row(found, table, columns)
            return
        read = f"SELECT {wanted} FROM {_quoted(table.name)} WHERE {rowid} = ?"  # noqa: S608 - names are ours, and quoted
        for (number,) in self._found(selection, rowid, order):
            try:
                found = self._connection.execute(read, (number,)).fetchone()
            except sqlite3.DataError:  # longer than LARGEST_VALUE
                reason = f"a row of table {table.name} is too large to be read"
                self._gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=self._source)
                continue
            if found is not None:
                yield _row(found, table, columns)

    def _found(self, selection: Selection, wanted: str, order: list[str]) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {wanted} FROM {_quoted(selection.table.name)}"  # noqa: S608 - as above
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        if selection.column is None:
            yield from self._connection.execute(query + ordered)
            return
        values = sorted(filter(_has_utf8_form, selection.values))  # no row holds what SQLite cannot be asked for
        for start in range(0, len(values), _MOST_VARIABLES):
            some = values[start : start + _MOST_VARIABLES]
            chosen = f" WHERE {_quoted(selection.column)} IN ({', '.join('?' * len(some))})"
            yield from self._connection.execute(query + chosen + ordered, some)

    def _rowid_name(self, table: str, columns: frozenset[str]) -> str | None:
        """A name of the row's number that no column has taken; `None` where the table has none."""
        taken = {name.lower() for name in columns}
        free = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
        if free is not None:
            try:
                self._connection.execute(f"SELECT {free} FROM {_quoted(table)} LIMIT 0")  # noqa: S608 - as above
            except sqlite3.OperationalError:
                return None
        return free

    @staticmethod
    def _wanted(columns: list[str]) -> str:
        # Text comes as bytes, since it need not be UTF-8; only its type tells it from a BLOB.
        return ", ".join([*(f"typeof({_quoted(name)})" for name in columns), *map(_quoted, columns)])


@contextmanager
def open_database(
    tree: NativeTree, path: PurePosixPath, scratch: Path, gaps: GapLog, *, trusted_schema: bool = False
) -> Iterator[Database | None]:
    """The database at `path`, copied into `scratch`; `None` where there is none that SQLite can open, or that can be
    copied as it was at one moment.

    A missing write-ahead log is no error that SQLite sees: it is what was there when the harness had ended well.
    `trusted_schema` is for tables whose checks SQLite would not run otherwise, and so would not read ("unsafe use of
    json_valid()", measured with SQLite 3.40). It costs nothing: only stored columns of plain tables are read, so no
    expression of the schema is ever run.
    """
    copy = scratch / f"copy-{len(list(scratch.iterdir()))}"
    copy.mkdir(mode=0o700)
    try:
        database = copy_database(tree, path, copy, gaps)
        if database is None:
            yield None
            return
        connection = _connected(database, str(path), gaps, trusted_schema=trusted_schema)
        if connection is None:
            yield None
            return
        with closing(connection):
            yield Database(connection, str(path), gaps)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _connected(path: Path, source: str, gaps: GapLog, *, trusted_schema: bool) -> sqlite3.Connection | None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.text_factory = bytes
        for pragma in (f"trusted_schema = {trusted_schema}", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # opening alone reads nothing
    except _ERRORS as error:
        connection.close()
        reason = f"is no SQLite database that can be read: {type(error).__name__}"
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=source)
        return None
    return connection


def _row(found: tuple[Any, ...], table: Table, columns: list[str]) -> Row:
    kinds, cells = found[: len(columns)], found[len(columns) :]
    return {
        name: _value(cell, kind, table.blobs.get(name, as_base64))
        for name, kind, cell in zip(columns, kinds, cells, strict=True)
    }


def _value(cell: object, kind: bytes, blob: Blob) -> object:
    if isinstance(cell, bytes):
        return blob(cell) if kind == b"blob" else _text(cell)
    return cell


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")


def _has_utf8_form(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
