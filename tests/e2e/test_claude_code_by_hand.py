"""Claude Code as a person uses it who has a runner of their own: behind a proxy that they start themselves."""

from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.claude_code import PLAN
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks claude-code`, followed to the letter: a child and its relations, all calls attributed."""
    program = (str(pinned_binary("claude-code")),)
    table = TruthTable(follow("claude-code", program, SCENARIOS["single"](), tmp_path / "run"), PLAN.delegation_tools)
    assert differences(table, Expected((Delegation("child-a"),), execution="unknown")) == []
