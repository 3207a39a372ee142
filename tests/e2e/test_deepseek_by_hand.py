"""DeepSeek Harness as a person uses it who has a runner of their own: behind a proxy that they start themselves."""

from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Expected
from roller_capture.acceptance.judge import differences
from roller_capture.scripted_provider.deepseek_scenarios import SCENARIOS
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks deepseek`, followed to the letter: every call attributed, its title too."""
    capture = follow("deepseek", (str(pinned_binary("deepseek")),), SCENARIOS["title"](), tmp_path / "run")
    table = TruthTable(capture)
    assert differences(table, Expected(execution="unknown", purposes={"title": 1})) == []
    assert (tmp_path / "run" / "home" / ".dsh" / "sessions").is_dir()
    # No launcher told the version: the requests do.
    assert capture.manifest["harness"] == {"name": "deepseek", "version": "0.2.1rc2", "tested": True}
