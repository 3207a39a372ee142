#!/usr/bin/env python3
"""Trains a tiny model of random weights on exported rows, with TRL's own SFTTrainer: does TRL take them as they are?

    python -m venv trl && trl/bin/pip install trl torch
    roller-capture export main RUN_DIR --output train.parquet --as sft
    trl/bin/python scripts/check_trl.py train.parquet

Takes the files of `export main --as sft` (JSON lines or Parquet) and of `export calls --as chat`. Nothing is
downloaded: the tokenizer is made of the rows themselves, the chat templates are those of Qwen in TRL's package. TRL
prepares every row as a whole; the loss is computed on the end of a few (--steps).

What is checked in what TRL made of each row, with `assistant_only_loss`: that the tokens with a label are the
assistant's messages, each by itself and in order, with their tool calls; that what others said and the tools are in the
text, without a label; that the loss is a number. What a template has no words for (some know no reasoning, some no role
`developer`) is told: the template leaves it away, not TRL and not the rows.

Exit codes: 0 taken; 1 not taken, or not as it was said; 3 NOT RUN: TRL or something that it needs is not installed.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NEEDED = ("torch", "trl", "transformers", "tokenizers", "datasets")
TEMPLATES = ("qwen3.jinja", "qwen2_5.jinja")
"""Of TRL's package: they know tools and write calls as JSON, and TRL has a form of them that marks what to train on."""
MEMBERS = ("role", "content", "reasoning_content", "name", "tool_call_id")
PLAIN_ROLES = ("system", "user", "tool")
"""Which every template has to have words for."""
VOCABULARY = 1024
LONGEST = 2048
"""Tokens of a row that the loss is computed on, its last ones: the cost grows with their square."""
FAILED, NOT_RUN = 1, 3
UNLABELLED = -100

Row = dict[str, Any]


class NotTakenError(Exception):
    """What TRL made of a row is not what the row says."""


def main() -> int:
    """The check; the exit code."""
    asked = _arguments()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        _say(f"NOT RUN: {', '.join(missing)} not installed: pip install trl torch")
        return NOT_RUN
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # more only wait for each other, in a model of this size
    _say(", ".join(f"{name} {importlib.import_module(name).__version__}" for name in NEEDED))
    with tempfile.TemporaryDirectory(prefix="check-trl-") as scratch:
        taken = [_is_taken(file, template, asked.steps, scratch) for file in asked.files for template in TEMPLATES]
    return 0 if all(taken) else FAILED


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--steps", type=int, default=2, help="steps of training, a row each (default: 2)")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"check_trl: {line}\n")
    sys.stdout.flush()


def _is_taken(path: Path, template: str, steps: int, scratch: str) -> bool:
    try:
        _say(f"{path}: {template}: {check(path, template, steps, scratch)}")
    except Exception as error:  # noqa: BLE001 - whatever TRL raises is the answer to the question
        _say(f"{path}: {template}: NOT TAKEN: {type(error).__name__}: {error}")
        return False
    return True


def check(path: Path, template: str, steps: int, scratch: str) -> str:
    """Prepares all rows of a file and trains on some; what was seen. Raises whatever TRL raises."""
    rows = _loaded(path, scratch)
    trainer = _trainer(rows, _tokenizer(rows, template), steps, scratch)
    prepared = trainer.train_dataset
    if len(prepared) != len(rows):
        raise NotTakenError(f"{len(rows)} rows became {len(prepared)}")
    unsaid: Counter[str] = Counter()
    for row, made in zip(rows, prepared, strict=True):
        check_row(row, _pieces(made, trainer.processing_class), unsaid)
    trainer.train_dataset = prepared.select(range(0, len(prepared), max(1, len(prepared) // steps))).map(_end)
    loss = trainer.train().training_loss
    if not math.isfinite(loss):
        raise NotTakenError(f"the loss is {loss}")
    told = [
        f"{len(rows)} rows taken, {sum(bool(_tools(row)) for row in rows)} with tools",
        f"loss {loss:.3f} after {trainer.state.global_step} steps",
        *(f"{number} times without words for {what}" for what, number in unsaid.items()),
    ]
    return "; ".join(told)


def _loaded(path: Path, scratch: str) -> Any:
    """The rows; those of calls as prompt and completion."""
    datasets: Any = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    loader = "parquet" if path.suffix == ".parquet" else "json"
    rows = datasets.load_dataset(loader, data_files=str(path), split="train", cache_dir=f"{scratch}/datasets")
    if "output" not in rows.column_names:
        return rows
    text = datasets.Value("string")
    function = {"name": text, "arguments": datasets.Json()}
    calls = datasets.List({"id": text, "type": text, "function": function})
    messages = datasets.List({**dict.fromkeys(MEMBERS, text), "tool_calls": calls})
    features = datasets.Features({"prompt": messages, "completion": messages, "tools": text})
    return datasets.Dataset.from_list([_example(row) for row in rows], features=features)


def _example(row: Row) -> Row:
    """Arguments become objects: some templates make text of them, and of a text they would make a quoted one."""
    return {
        "prompt": [_with_objects(message) for message in row["messages"]],
        "completion": [_with_objects(message) for message in row["output"]],
        "tools": row["tools"],
    }


def _with_objects(message: Row) -> Row:
    calls = []
    for call in message.get("tool_calls") or ():
        if call["type"] != "function":
            raise NotTakenError(f"a call of a tool of the type {call['type']}, for which no template has words")
        function = call["function"]
        arguments = json.loads(function["arguments"])
        calls.append({"id": call["id"], "type": "function", "function": {**function, "arguments": arguments}})
    return {**{name: message.get(name) for name in MEMBERS}, "tool_calls": calls or None}


def _trainer(rows: Any, tokenizer: Any, steps: int, scratch: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    trl: Any = importlib.import_module("trl")
    size = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=1 << 20,
    )
    settings = trl.SFTConfig(
        output_dir=f"{scratch}/model",
        assistant_only_loss=True,
        max_length=None,
        max_steps=steps,
        per_device_train_batch_size=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    model = transformers.Qwen3ForCausalLM(size)
    return trl.SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)


def _tokenizer(rows: Any, template: str) -> Any:
    """Bytes, and what often stands side by side in the first rows: every text has tokens, and they give it back."""
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    begin, end = "<|im_start|>", "<|im_end|>"
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=level.alphabet(), special_tokens=[begin, end], show_progress=False
    )
    tokenizer.train_from_iterator((json.dumps(row) for row in rows.select(range(min(20, len(rows))))), trainer)
    folder = Path(importlib.import_module("trl").__file__ or "").parent / "chat_templates"
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=end,
        chat_template=(folder / template).read_text(encoding="utf-8"),
    )


def _pieces(made: Row, tokenizer: Any) -> list[tuple[bool, str]]:
    """The text that TRL made, in pieces with and without a label."""
    pieces: list[tuple[bool, list[int]]] = []
    for token, label in zip(made["input_ids"], made["labels"], strict=True):
        if label not in (UNLABELLED, token):
            raise NotTakenError(f"token {token} has the label {label}")
        if not pieces or pieces[-1][0] != (label == token):
            pieces.append((label == token, []))
        pieces[-1][1].append(token)
    return [(labelled, tokenizer.decode(tokens)) for labelled, tokens in pieces]


def check_row(row: Row, pieces: Sequence[tuple[bool, str]], unsaid: Counter[str]) -> None:
    """Compares a row with the pieces of text, labelled or not, that TRL made of it. Raises `NotTakenError`.

    What the template has no words for is counted in `unsaid`.
    """
    labelled = [text for has_label, text in pieces if has_label]
    others = "".join(text for has_label, text in pieces if not has_label)
    messages = [*row["prompt"], *row["completion"]] if "prompt" in row else row["messages"]
    answers = row.get("completion") or [message for message in messages if message["role"] == "assistant"]
    if len(labelled) != len(answers):
        raise NotTakenError(f"{len(labelled)} labelled pieces for {len(answers)} assistant messages")
    for text, answer in zip(labelled, answers, strict=True):
        for said in _said(answer):
            if said not in text:
                raise NotTakenError(f"of an assistant message is missing: {said[:200]!r}")
        if (answer.get("reasoning_content") or "").strip() not in text:
            unsaid["reasoning"] += 1
    for message in messages:
        role, content = message["role"], (message["content"] or "").strip()
        if role == "assistant" or content in others:
            continue
        if role in PLAIN_ROLES:
            raise NotTakenError(f"of the role {role} is missing: {content[:200]!r}")
        unsaid[f"the role {role}"] += 1
    for tool in _tools(row):
        if json.dumps(tool["function"]["name"], ensure_ascii=False) not in others:
            raise NotTakenError(f"the tool {tool['function']['name']!r} is missing")


def _said(message: Row) -> Iterator[str]:
    """What has to be in the piece of an assistant message. Templates strip line breaks around texts."""
    yield (message["content"] or "").strip()
    for call in message.get("tool_calls") or ():
        inner = call["function"]
        yield json.dumps(inner["name"], ensure_ascii=False)
        yield json.dumps(inner["arguments"], ensure_ascii=False)


def _tools(row: Row) -> list[Row]:
    """The tools; of calls, whose tools are JSON text, as TRL reads them."""
    tools = row["tools"]
    return (json.loads(tools) if isinstance(tools, str) else tools) or []


def _end(made: Row) -> Row:
    return {name: made[name][-LONGEST:] for name in ("input_ids", "labels")}


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.exit(main())
