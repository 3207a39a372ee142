"""What lies beside SFT rows: a dataset card, which also tells `datasets` the types of the columns."""

import json
from collections import Counter
from typing import Final

from roller_capture import __version__
from roller_capture.export.card import features, inline
from roller_capture.export.main.sft import SFT_COLUMNS
from roller_capture.export.request import Format
from roller_capture.view.words import count

_CARD: Final = """\
---
configs:
- config_name: default
  data_files: {file}
{features}tags:
- agents
- roller-capture
---

# Main trajectories of agents

{count} conversations of root agents, one a row, exported by roller-capture {version}.
Ends of their runs: {ends}. A run that did not complete is in here like the others, and its rows say it in
`execution_status`.

A row holds what the last request of the conversation held, and the answer to it. What subagents said to themselves is
not in it. There is no training loss, mask, weight or reward in it. Conversations are as they were: whatever an agent
read or printed is in them.

## Load it

```python
from datasets import load_dataset
rows = load_dataset("{loader}", data_files="{name}", split="train")
```

{note}

## Columns

| column | type | content |
|---|---|---|
{columns}

## Left out

{left_out}
"""

_NOTES: Final = {
    Format.PARQUET: """\
This needs a `datasets` that has the type `Json` (5.2 has). Other readers show `tools` and the arguments of calls as
JSON text.""",
    Format.JSONL: """\
This needs a `datasets` that has the type `Json` (5.2 has). Readers of JSON guess types from the beginning of a file,
and arguments differ from tool to tool: beyond 10 MB load the folder, with this card as its README.md, or export
Parquet.""",
}


def sft_card(name: str, file_format: Format, rows: int, ends: str, left_out: Counter[str]) -> str:
    """The card of a file of this name; `ends` says how many rows are of runs that completed, failed, …, and `left_out`
    counts the attempts without a row by their reason."""
    reasons = [f"- {count(number, 'attempt')}: {inline(reason)}" for reason, number in left_out.most_common()]
    return _CARD.format(
        file=json.dumps(name),
        features=features(SFT_COLUMNS),
        count=f"{rows:,}",
        version=__version__,
        ends=ends,
        loader="parquet" if file_format is Format.PARQUET else "json",
        name=name,
        note=_NOTES[file_format],
        columns="\n".join(f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in SFT_COLUMNS),
        left_out="\n".join(reasons) or "Nothing.",
    )
