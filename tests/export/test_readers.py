"""What people load data sets with reads every row as it was written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.export.calls import export_calls
from roller_capture.export.request import CallExport, Form, Format
from tests.export.published import CHAT_REQUEST, CHAT_RESPONSE, publish_calls, three_protocols

pytestmark = pytest.mark.filterwarnings("ignore")

Rows = list[dict[str, Any]]


def hugging_face(path: Path) -> Rows:
    """By the path alone; the card stands in the folder as its README.md."""
    datasets = pytest.importorskip("datasets")
    card = path.with_name(f"{path.name}.card.md")
    (path.parent / "README.md").write_bytes(card.read_bytes())
    rows = datasets.load_dataset(str(path.parent), split="train", cache_dir=str(path.parent / "cache"))
    return list(rows.to_list())


def pandas(path: Path) -> Rows:
    import pandas

    if path.suffix == ".parquet":
        return list(pandas.read_parquet(path).to_dict("records"))
    return list(pandas.read_json(path, lines=True, dtype=False).to_dict("records"))


def polars(path: Path) -> Rows:
    import polars

    if path.suffix == ".parquet":
        return polars.read_parquet(path).to_dicts()
    return polars.read_ndjson(path, infer_schema_length=None).to_dicts()


def without_nulls(value: Any) -> Any:
    """Readers of typed columns give every message every member."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Samples whose ids look like numbers; the first row has no tool call."""
    plain = {**CHAT_RESPONSE, "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]}
    plain["choices"][0]["finish_reason"] = "stop"  # type: ignore[index]
    first = ("openai-chat-completions", {**CHAT_REQUEST, "tools": []}, {**plain, "id": "chatcmpl-0"})
    for number, name in enumerate(("0001", "0002")):
        place = tmp_path / "run" / "samples" / name / "capture" / "attempt-0001"
        publish_calls(place, monkeypatch, [first, *three_protocols()], capture_id=f"cap_{number:020}")
    return tmp_path / "run"


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("file_format", list(Format))
@pytest.mark.parametrize("reader", [hugging_face, pandas, polars])
def test_a_reader_gives_back_every_row(
    tmp_path: Path, run: Path, form: Form, file_format: Format, reader: Callable[[Path], Rows]
) -> None:
    """The same values, whatever the reader, the file format and the form."""
    (tmp_path / "lines").mkdir()
    (tmp_path / "rows").mkdir()
    plain, output = tmp_path / "lines" / "rows.jsonl", tmp_path / "rows" / f"rows.{file_format}"
    assert export_calls(CallExport((run,), plain, form=form)) == 0
    assert export_calls(CallExport((run,), output, form=form, file_format=file_format)) == 0
    expected = [json.loads(line) for line in plain.read_text().splitlines()]
    assert len(expected) == 8
    assert without_nulls(reader(output)) == without_nulls(expected)
