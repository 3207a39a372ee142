"""Parquet: row groups of bounded size; without pyarrow one clear line."""

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from roller_capture.errors import RollerError
from roller_capture.export import parquet
from roller_capture.export.columns import CHAT_COLUMNS, Kind
from roller_capture.export.parquet import Parquet, require_pyarrow
from roller_capture.export.request import Format
from roller_capture.export.row_writers import writer_for


def row(text: str) -> dict[str, Any]:
    """A row of the chat form."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    message = {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call]}
    values: dict[Kind, Any] = {Kind.TEXT: "x", Kind.INTEGER: 1, Kind.JSON: None, Kind.CHAT: [message]}
    return {column.name: values[column.kind] for column in CHAT_COLUMNS}


@pytest.mark.parametrize(("name", "limit"), [("_GROUP_BYTES", 3000), ("_GROUP_ROWS", 2)])
def test_rows_are_held_back_up_to_a_bound(monkeypatch: pytest.MonkeyPatch, name: str, limit: int) -> None:
    """Of bytes, and of rows."""
    monkeypatch.setattr(parquet, name, limit)
    stream = io.BytesIO()
    writer = Parquet(stream, CHAT_COLUMNS)
    for _ in range(6):
        writer.write(row("y" * 300))
    writer.close()
    file = pq.ParquetFile(io.BytesIO(stream.getvalue()))
    assert file.metadata.num_rows == 6
    assert file.metadata.num_row_groups == 3
    assert file.read().to_pylist()[0]["messages"][0]["tool_calls"][0]["custom"] is None


def test_without_pyarrow_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, before anything is read."""

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(parquet.importlib, "import_module", missing)
    with pytest.raises(RollerError, match=r"roller-capture\[parquet\]") as caught:
        writer_for(Format.PARQUET, CHAT_COLUMNS, nested=False)
    assert caught.value.exit_code == 2
    with pytest.raises(RollerError):
        require_pyarrow()


def test_a_pyarrow_without_the_type_of_json_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said before anything is read, too."""
    monkeypatch.setattr(parquet.importlib, "import_module", lambda _name: object())
    with pytest.raises(RollerError, match="pyarrow 19 or newer"):
        require_pyarrow()
