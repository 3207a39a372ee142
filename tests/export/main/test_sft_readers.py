"""SFT rows load as they were written, and a chat template with tools takes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from roller_capture.export.main.command import export_main
from roller_capture.export.request import Format, MainExport, MainForm
from tests.export.main.test_main import GO, RESULT, asked, completion, two_turns
from tests.export.published import publish_calls

pytestmark = pytest.mark.filterwarnings("ignore")

TEMPLATE = """\
{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{"name": "{{ call.function.name }}", \
"arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}"""
"""As the templates of common models are written: arguments go through `tojson`, so they must not be text."""


OTHER_ARGUMENTS = '{"path": ["x"], "deep": {"n": null, "b": true}}'


def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two attempts whose tools have other arguments."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    publish_calls(tmp_path / "run" / "a", monkeypatch, two_turns())
    other = completion(1, "I look.", "t1", OTHER_ARGUMENTS)
    turns = [
        ("openai-chat-completions", asked(GO), other),
        ("openai-chat-completions", asked(GO, other["choices"][0]["message"], RESULT), completion(2, "done")),
    ]
    publish_calls(tmp_path / "run" / "b", monkeypatch, turns, capture_id="cap_b2345678901234567890")
    return tmp_path / "run"


@pytest.fixture(params=list(Format))
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The rows as `datasets` loads them from either file format, and as they were written."""
    run = _runs(tmp_path, monkeypatch)
    written, output = tmp_path / "sft.jsonl", tmp_path / f"rows.{request.param}"
    assert export_main(MainExport((run,), written, MainForm.SFT)) == 0
    assert export_main(MainExport((run,), output, MainForm.SFT, file_format=request.param)) == 0
    kind = "parquet" if request.param is Format.PARQUET else "json"
    loaded = load_dataset(kind, data_files=str(output), split="train", cache_dir=str(tmp_path / "cache"))
    return loaded, [json.loads(line) for line in written.read_text().splitlines()]


def without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """Typed columns give every message every member."""
    return {name: value for name, value in message.items() if value is not None}


def test_arguments_of_one_row_do_not_appear_in_another(rows: Any) -> None:
    """Each call has its own, nulls in them included."""
    loaded, written = rows
    assert len(loaded) == 2
    for row, expected in zip(loaded, written, strict=True):
        assert [without_nulls(message) for message in row["messages"]] == expected["messages"]
        assert row["tools"] == expected["tools"]


def test_a_chat_template_takes_messages_and_tools(rows: Any) -> None:
    """With a small tokenizer; every text and every argument is in what it makes."""
    loaded, written = rows
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator([TEMPLATE], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core)
    tokenizer.chat_template = TEMPLATE
    for row, expected in zip(loaded, written, strict=True):
        text = tokenizer.apply_chat_template(row["messages"], tools=row["tools"], tokenize=False)
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
        call = expected["messages"][2]["tool_calls"][0]["function"]
        assert f'"arguments": {json.dumps(call["arguments"])}' in text
        assert all(message["content"] in text for message in expected["messages"])
        assert json.dumps(expected["tools"][0]) in text


@pytest.mark.parametrize("reader", ["pandas", "polars"])
def test_other_readers_of_parquet_see_json_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """Of the arguments, and of the tools."""
    output = tmp_path / "rows.parquet"
    run = _runs(tmp_path, monkeypatch)
    assert export_main(MainExport((run,), output, MainForm.SFT, file_format=Format.PARQUET)) == 0
    module = pytest.importorskip(reader)
    frame = module.read_parquet(output)
    row = (frame.to_dict("records") if reader == "pandas" else frame.to_dicts())[1]
    (call,) = row["messages"][2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == json.loads(OTHER_ARGUMENTS)
    assert json.loads(row["tools"])[0]["function"]["name"] == "ls"


def test_the_card_tells_the_types_that_the_beginning_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the reader looks at has no tools and no calls; behind it stand rows with both."""
    run = _runs(tmp_path, monkeypatch)
    (tmp_path / "set").mkdir()
    output = tmp_path / "set" / "sft.jsonl"
    assert export_main(MainExport((run,), output, MainForm.SFT)) == 0
    real = output.read_bytes()
    plain = {**json.loads(real.splitlines()[0]), "tools": [], "notifications": [], "call_ids": ["c"]}
    plain["messages"] = [{"role": "user", "content": "x" * 100_000}]
    output.write_bytes((json.dumps(plain) + "\n").encode() * 250 + real)
    card = output.with_name("sft.jsonl.card.md")
    card.rename(output.with_name("README.md"))
    loaded = load_dataset(str(output.parent), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == 252
    assert loaded[251]["tools"] == json.loads(real.splitlines()[1])["tools"]
    assert loaded[251]["messages"][2]["tool_calls"][0]["function"]["arguments"] == json.loads(OTHER_ARGUMENTS)
