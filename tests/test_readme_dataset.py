"""README leads from a run to a loaded data set, as it is written there; Claude Code is played by a script."""

from pathlib import Path

import pyarrow.parquet as pq

from roller_capture.scripted_provider import Reply, ScriptedProvider
from tests.support.collecting import fake_claude
from tests.support.readme_commands import API, PROMPT, data_set_commands, run_commands


def test_there_are_five_commands() -> None:
    """The first captures, the last loads."""
    commands = data_set_commands()
    assert len(commands) == 5
    assert commands[0].startswith("roller-capture collect ")
    assert API in commands[0]
    assert f'--prompt "{PROMPT}"' in commands[0]
    assert "load_dataset" in commands[4]


def test_the_commands_give_a_data_set(tmp_path: Path) -> None:
    """Each exits with 0, and what the last one prints is the row of the only call."""
    fake_claude(tmp_path / ".harnesses" / "claude-code" / "9999.0" / "node_modules/@anthropic-ai/claude-code-linux-x64")
    with ScriptedProvider(lambda _request: Reply(text="Three files.")) as provider:
        printed = run_commands(tmp_path, provider.url)
    assert "num_rows: 1" in printed[4]
    assert "model_responded" in printed[4]
    (row,) = pq.read_table(tmp_path / "train.parquet").to_pylist()
    asked, answered = row["messages"]
    assert (asked["role"], asked["content"], answered["role"]) == ("user", PROMPT, "assistant")
    assert answered["content"].startswith("Three files. [")  # and the provider's mark
