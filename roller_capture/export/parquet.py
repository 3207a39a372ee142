"""Rows into Parquet, in row groups of bounded size."""

import importlib
from collections.abc import Sequence
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.export.columns import Column, Kind

_GROUP_BYTES: Final = 16 * 1024 * 1024
_GROUP_ROWS: Final = 4096

Row = dict[str, Any]


class Parquet:
    """Columns by their kind, compressed; JSON columns are text."""

    def __init__(self, stream: IO[bytes], columns: Sequence[Column]) -> None:
        self._pa = require_pyarrow()
        self._columns = columns
        self._schema = arrow_schema(columns)
        parquet: Any = importlib.import_module("pyarrow.parquet")
        # A dictionary of whole conversations would only cost memory.
        repeated = [column.name for column in columns if column.kind is Kind.TEXT]
        self._writer = parquet.ParquetWriter(stream, self._schema, compression="zstd", use_dictionary=repeated)
        self._rows: list[Row] = []
        self._bytes = 0

    def write(self, row: Row) -> None:
        flat: Row = {}
        for column in self._columns:
            value = row[column.name]
            if column.kind is Kind.JSON:
                value = json_text.dumps(value).decode()
                self._bytes += len(value)
            elif column.kind is Kind.CHAT:
                self._bytes += sum(_size(message) for message in value)
            flat[column.name] = value
        self._rows.append(flat)
        if self._bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []
        self._bytes = 0


def _size(message: Row) -> int:
    calls = message.get("tool_calls") or ()
    return len(message["content"] or "") + len(message.get("reasoning_content") or "") + sum(map(_call_size, calls))


def _call_size(call: Row) -> int:
    return sum(len(text) for text in call[call["type"]].values())


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The Arrow schema of such rows. Raises `RollerError` (exit 2) where pyarrow is not installed."""
    pa = require_pyarrow()
    text = pa.string()
    call = pa.struct(
        [
            ("id", text),
            ("type", text),
            ("function", pa.struct([("name", text), ("arguments", text)])),
            ("custom", pa.struct([("name", text), ("input", text)])),
        ]
    )
    message = pa.struct(
        [
            ("role", text),
            ("content", text),
            ("reasoning_content", text),
            ("name", text),
            ("tool_call_id", text),
            ("tool_calls", pa.list_(call)),
        ]
    )
    types = {Kind.TEXT: text, Kind.INTEGER: pa.int64(), Kind.JSON: text, Kind.CHAT: pa.list_(message)}
    return pa.schema([(column.name, types[column.kind]) for column in columns])


def require_pyarrow() -> Any:
    """The module; it is no dependency of the package. Raises `RollerError` (exit 2) where it is not installed."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise RollerError(
            "--format parquet needs pyarrow: install it with pip install 'roller-capture[parquet]'", exit_code=2
        ) from None
