"""Rows into files."""

from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.export.columns import Column, Kind
from roller_capture.export.parquet import Parquet, require_pyarrow
from roller_capture.export.request import Format

Row = dict[str, Any]


class RowWriter(Protocol):
    """Takes rows one by one. What it holds back is bounded."""

    def write(self, row: Row) -> None:
        """Appends a row."""

    def close(self) -> None:
        """Writes what was held back."""


class JsonLines:
    """One row a line. `nested` writes the values of JSON columns, not their text."""

    def __init__(self, stream: IO[bytes], columns: Sequence[Column], *, nested: bool = False) -> None:
        self._stream = stream
        self._columns = columns
        self._as_text = frozenset(column.name for column in columns if column.kind is Kind.JSON and not nested)

    def write(self, row: Row) -> None:
        parts = []
        for column in self._columns:
            value = json_text.dumps(row[column.name])
            if column.name in self._as_text:
                value = json_text.dumps(value.decode())
            parts.append(b'"%s":%s' % (column.name.encode(), value))
        self._stream.write(b"{" + b",".join(parts) + b"}\n")

    def close(self) -> None:
        self._stream.flush()


def writer_for(file_format: Format, columns: Sequence[Column], *, nested: bool) -> Callable[[IO[bytes]], RowWriter]:
    """What makes the writer, once there is a file. Raises `RollerError` (exit 2) where it cannot be had."""
    if file_format is Format.JSONL:
        return lambda stream: JsonLines(stream, columns, nested=nested)
    if nested:
        raise RollerError("--nested is for --format jsonl: columns of Parquet are text", exit_code=2)
    require_pyarrow()
    return lambda stream: Parquet(stream, columns)
