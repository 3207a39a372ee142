"""Rows into Parquet, in row groups of bounded size.

Values that readers are to see as objects are text of the type `arrow.json`: `datasets` gives them back as they were,
other readers give their text. A struct would fill every tool's arguments with the names of all others.
"""

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
        self._as_text = arrow_schema(columns, json_type=self._pa.string())
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
            if column.kind in (Kind.JSON, Kind.VALUE):
                value = json_text.dumps(value).decode()
                self._bytes += len(value)
            elif column.kind is Kind.TURNS:
                value = [_with_text_arguments(message) for message in value]
            if column.kind in (Kind.CHAT, Kind.TURNS):
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
            # Arrow makes no column of an extension type out of Python's values, but casts to one without a copy.
            table = self._pa.Table.from_pylist(self._rows, schema=self._as_text)
            self._writer.write_table(table.cast(self._schema))
        self._rows = []
        self._bytes = 0


def _size(message: Row) -> int:
    calls = message.get("tool_calls") or ()
    return len(message["content"] or "") + len(message.get("reasoning_content") or "") + sum(map(_call_size, calls))


def _call_size(call: Row) -> int:
    return sum(len(text) for text in call[call["type"]].values())


def _with_text_arguments(message: Row) -> Row:
    """The message with its arguments as JSON text."""
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        arguments = json_text.dumps(function["arguments"]).decode()
        calls.append({**call, "function": {**function, "arguments": arguments}})
    return {**message, "tool_calls": calls}


def arrow_schema(columns: Sequence[Column], *, json_type: Any = None) -> Any:
    """The Arrow schema of such rows; `json_type` is the type of JSON values, `arrow.json` unless another is named.

    Raises `RollerError` (exit 2) where pyarrow is not installed.
    """
    pa = require_pyarrow()
    text = pa.string()
    json_type = pa.json_(text) if json_type is None else json_type
    types = {
        Kind.TEXT: text,
        Kind.INTEGER: pa.int64(),
        Kind.JSON: text,
        Kind.CHAT: pa.list_(_message_type(text, custom=True)),
        Kind.TURNS: pa.list_(_message_type(json_type, custom=False)),
        Kind.VALUE: json_type,
        Kind.TEXTS: pa.list_(text),
        Kind.INTEGERS: pa.list_(pa.int64()),
    }
    return pa.schema([(column.name, types[column.kind]) for column in columns])


def _message_type(arguments: Any, *, custom: bool) -> Any:
    """A message whose arguments are of this type, with or without calls of custom tools."""
    pa = require_pyarrow()
    text = pa.string()
    call = [("id", text), ("type", text), ("function", pa.struct([("name", text), ("arguments", arguments)]))]
    if custom:
        call.append(("custom", pa.struct([("name", text), ("input", text)])))
    names = ("role", "content", "reasoning_content", "name", "tool_call_id")
    return pa.struct([*((name, text) for name in names), ("tool_calls", pa.list_(pa.struct(call)))])


def require_pyarrow() -> Any:
    """The module, which is no dependency of the package. Raises `RollerError` (exit 2): it is missing, or too old."""
    try:
        module = importlib.import_module("pyarrow")
    except ImportError:
        module = None
    if not hasattr(module, "json_"):
        raise RollerError(
            "--format parquet needs pyarrow 19 or newer: install it with pip install 'roller-capture[parquet]'",
            exit_code=2,
        )
    return module
