"""What lies beside exported rows: a dataset card for people and hubs, and a JSON Schema for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from roller_capture import __version__
from roller_capture.export.columns import CALL_ROW, Column, Kind
from roller_capture.export.request import Format
from roller_capture.export.tally import Tally
from roller_capture.view.words import count

_LOADING: Final = {
    Format.JSONL: """\
```python
import json
from datasets import load_dataset
rows = load_dataset("json", data_files="{name}", split="train")
messages = {message_of_row}
```

pandas: `pandas.read_json("{name}", lines=True, dtype=False)`; without `dtype=False` it makes numbers of ids that look
like numbers. polars: `polars.read_ndjson("{name}", infer_schema_length=None)`. Readers of JSON guess the types of
columns from the beginning of a file, `datasets` even dates; Parquet has them in the file, and this card has them for
`datasets` where it is the README.md of a data set.
""",
    Format.PARQUET: """\
```python
import json
from datasets import load_dataset
rows = load_dataset("parquet", data_files="{name}", split="train")
messages = {message_of_row}
```

pandas: `pandas.read_parquet("{name}")`; polars: `polars.read_parquet("{name}")`.
""",
}
_LOADING_NESTED: Final = """\
```python
import json
with open("{name}", encoding="utf-8") as lines:
    rows = map(json.loads, lines)
    messages = next(rows)["messages"]
```

Provider objects are nested, so readers that make typed tables of it (`datasets`, polars) cannot take it: export it
without `--nested` for them.
"""

_CARD: Final = """\
---
configs:
- config_name: default
  data_files: {file}
{features}tags:
- agents
- roller-capture
---

# Model calls of agents

{count} model calls of {attempts} captured agent runs, one call a row, exported by roller-capture {version}.
{who}

Each row is one request as it was sent and the answer that came back, with the agent that made it. It is **per-call
data**: a session's later calls repeat its earlier messages. It is no main-trajectory SFT file. There is no training
loss, mask, weight or reward in it. Conversations are as they were: whatever an agent read or printed is in them.

## Load it

{loading}
{json_columns}

## Columns

| column | type | content |
|---|---|---|
{columns}

## Left out

{left_out}
"""

_MESSAGES: Final = """\
list:
- name: role
  dtype: string
- name: content
  dtype: string
- name: reasoning_content
  dtype: string
- name: name
  dtype: string
- name: tool_call_id
  dtype: string
- name: tool_calls
  list:
  - name: id
    dtype: string
  - name: type
    dtype: string
  - name: function
    struct:
    - name: name
      dtype: string
    - name: arguments
      dtype: {arguments}"""
_CUSTOM: Final = """
  - name: custom
    struct:
    - name: name
      dtype: string
    - name: input
      dtype: string"""
_FEATURES: Final = {
    Kind.TEXT: "dtype: string",
    Kind.JSON: "dtype: string",
    Kind.INTEGER: "dtype: int64",
    Kind.CHAT: _MESSAGES.format(arguments="string") + _CUSTOM,
    Kind.TURNS: _MESSAGES.format(arguments="json"),
    Kind.VALUE: "dtype: json",
    Kind.TEXTS: "list: string",
    Kind.INTEGERS: "list: int64",
}

_WHO: Final = (("Harnesses", "harness"), ("Models", "model_responded"), ("Agents", "role"))


_AS_TEXT: Final = """\
Columns of the type `json` hold JSON text, since no two tools have the same arguments: `json.loads` gives the provider's
own objects. An absent text is empty, an absent object is `null`."""
_AS_OBJECTS: Final = "Columns of the type `json` hold the provider's own objects. An absent text is empty."


def card_text(name: str, file_format: Format, columns: Sequence[Column], tally: Tally, *, nested: bool = False) -> str:
    """The card of a file of this name."""
    chat = any(column.kind is Kind.CHAT for column in columns)
    message_of_row = 'rows[0]["messages"]' if chat else 'json.loads(rows[0]["messages"])'
    reasons = [f"- {number:,}: {inline(reason)}" for reason, number in tally.left_out.counts.most_common()]
    older, refused = tally.attempts.superseded, len(tally.attempts.refused)
    reasons += [f"- {count(older, 'attempt')} of samples that were made again"] if older else []
    reasons += [f"- {count(refused, 'attempt')} that cannot be trusted"] if refused else []
    return _CARD.format(
        file=json.dumps(name),
        count=f"{tally.exported:,}",
        attempts=f"{tally.attempts.read:,}",
        version=__version__,
        who="  \n".join([*(_group_line(tally, title, group) for title, group in _WHO), _ends_line(tally)]),
        features="" if nested else features(columns),
        json_columns=_AS_OBJECTS if nested else _AS_TEXT,
        loading=(_LOADING_NESTED if nested else _LOADING[file_format]).format(name=name, message_of_row=message_of_row),
        columns="\n".join(f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in columns),
        left_out="\n".join(reasons) or "Nothing.",
    )


def features(columns: Sequence[Column]) -> str:
    """The columns as the metadata of a card tell them to `datasets`."""
    lines = ["dataset_info:", "  features:"]
    for column in columns:
        lines.append(f"  - name: {column.name}")
        lines += [f"    {line}" for line in _FEATURES[column.kind].splitlines()]
    return "\n".join(lines) + "\n"


def _group_line(tally: Tally, title: str, group: str) -> str:
    words = (f"{inline(word)} ({number:,})" for word, number in tally.groups[group].most_common(20))
    return f"{title}: {', '.join(words)}."


def _ends_line(tally: Tally) -> str:
    return f"Ends of their runs: {tally.runs.ends()}. A run that did not complete is in here like the others."


def inline(text: str) -> str:
    """Names that services and harnesses chose are data: they make no markup."""
    return "".join(char if char.isalnum() or char in " -_.:+/@" else "?" for char in text[:100])


def row_schema(form: str, columns: Sequence[Column], *, nested: bool) -> str:
    """JSON Schema 2020-12 of a row, as JSON lines hold it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:roller-capture:{form.replace('/', '.')}",
        "title": "A model call of an agent" + ("" if form == CALL_ROW else ", in the chat form"),
        "type": "object",
        "additionalProperties": False,
        "properties": {column.name: _property(column, form, nested=nested) for column in columns},
        "required": [column.name for column in columns],
    }
    if any(column.kind is Kind.CHAT for column in columns):
        schema["$defs"] = {"message": _MESSAGE}
    return json.dumps(schema, indent=1) + "\n"


def _property(column: Column, form: str, *, nested: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": column.meaning}
    if column.name == "schema":
        return {**described, "const": form}
    if column.kind is Kind.INTEGER:
        return {**described, "type": "integer"}
    if column.kind is Kind.CHAT:
        return {**described, "type": "array", "items": {"$ref": "#/$defs/message"}}
    if column.kind is Kind.JSON:
        return described if nested else {**described, "type": "string", "contentMediaType": "application/json"}
    return {**described, "type": "string"}


def _texts(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def _closed(properties: dict[str, Any], required: Iterable[str]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


_MESSAGE: Final = _closed(
    {
        "role": {"type": "string"},
        "content": {"type": ["string", "null"]},
        "reasoning_content": {"type": "string"},
        "name": {"type": "string"},
        "tool_call_id": {"type": "string"},
        "tool_calls": {
            "type": "array",
            "items": _closed(
                {
                    "id": {"type": "string"},
                    "type": {"enum": ["function", "custom"]},
                    "function": _texts("name", "arguments"),
                    "custom": _texts("name", "input"),
                },
                ("id", "type"),
            ),
        },
    },
    ("role", "content"),
)
