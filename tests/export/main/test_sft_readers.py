"""SFT rows load as they were written, and a chat template with tools takes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from roller_capture.export.main.command import export_main
from roller_capture.export.request import MainExport, MainForm
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


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two attempts whose tools have other arguments, loaded by `datasets`."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    publish_calls(tmp_path / "run" / "a", monkeypatch, two_turns())
    other = completion(1, "I look.", "t1", '{"path": ["x"], "deep": {"n": null, "b": true}}')
    turns = [
        ("openai-chat-completions", asked(GO), other),
        ("openai-chat-completions", asked(GO, other["choices"][0]["message"], RESULT), completion(2, "done")),
    ]
    publish_calls(tmp_path / "run" / "b", monkeypatch, turns, capture_id="cap_b2345678901234567890")
    output = tmp_path / "sft.jsonl"
    assert export_main(MainExport((tmp_path / "run",), output, MainForm.SFT)) == 0
    loaded = load_dataset("json", data_files=str(output), split="train", cache_dir=str(tmp_path / "cache"))
    return loaded, [json.loads(line) for line in output.read_text().splitlines()]


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
