"""What the check with TRL makes of what TRL made; TRL itself is no dependency, and is run by hand (docs/export.md)."""

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scripts.check_trl import NOT_RUN, NotTakenError, check_row, main

CALL = {"id": "t1", "type": "function", "function": {"name": "Bash", "arguments": {"command": "ls"}}}
ROW: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": "no tables"},
        {"role": "user", "content": "go\n"},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "hm"},
        {"role": "tool", "content": "a b", "tool_call_id": "t1"},
        {"role": "assistant", "content": "done", "tool_calls": None},
    ],
    "tools": [{"type": "function", "function": {"name": "Bash"}}],
}
CALLED = '<tool_call>{"name": "Bash", "arguments": {"command": "ls"}}</tool_call>'
PIECES = [
    (False, 'be brief\n{"name": "Bash"}\nno tables\ngo\n'),
    (True, f"<think>hm</think>{CALLED}"),
    (False, "a b\n"),
    (True, "done"),
]


def test_what_is_whole_is_taken() -> None:
    """Messages of the assistant with a label, all else without."""
    unsaid: Counter[str] = Counter()
    check_row(ROW, PIECES, unsaid)
    assert not unsaid


@pytest.mark.parametrize(
    ("place", "piece", "words"),
    [
        (0, (False, 'be brief\n{"name": "Bash"}\nno tables\n'), "of the role user is missing: 'go'"),
        (0, (False, "be brief\nno tables\ngo\n"), "the tool 'Bash' is missing"),
        (1, (True, CALLED.replace('{"command": "ls"}', json.dumps('{"command": "ls"}'))), "missing: '{\"command"),
        (2, (True, "a b\n"), "3 labelled pieces for 2 assistant messages"),
        (3, (False, "done"), "1 labelled pieces for 2 assistant messages"),
    ],
)
def test_what_is_not_is_told(place: int, piece: tuple[bool, str], words: str) -> None:
    """Also arguments that a template quoted once more."""
    pieces = [*PIECES[:place], piece, *PIECES[place + 1 :]]
    with pytest.raises(NotTakenError, match=words):
        check_row(ROW, pieces, Counter())


def test_what_a_template_has_no_words_for_is_counted() -> None:
    """That is for who chooses the template to know."""
    unsaid: Counter[str] = Counter()
    check_row(ROW, [(False, 'be brief\n{"name": "Bash"}\ngo\n'), (True, CALLED), *PIECES[2:]], unsaid)
    assert unsaid == {"reasoning": 1, "the role developer": 1}


def test_of_a_call_the_answer_alone_is_labelled() -> None:
    """What stands in its prompt is history."""
    *prompt, answer = ROW["messages"]
    row = {"prompt": prompt, "completion": [answer], "tools": json.dumps(ROW["tools"])}
    history = "".join(text for _, text in PIECES[:3])
    check_row(row, [(False, history), PIECES[3]], Counter())
    with pytest.raises(NotTakenError, match="2 labelled pieces for 1"):
        check_row(row, PIECES, Counter())


def test_without_trl_it_says_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is not the same as taken."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trl" else object())
    monkeypatch.setattr(sys, "argv", ["check_trl.py", str(tmp_path / "train.parquet")])
    assert main() == NOT_RUN
    assert capsys.readouterr().out == "check_trl: NOT RUN: trl not installed: pip install trl torch\n"
