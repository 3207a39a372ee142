"""OpenCode as a person uses it who has a runner of their own: behind a proxy that they start themselves."""

from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.opencode import PLAN
from roller_capture.scripted_provider.opencode_scenarios import SCENARIOS
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

NO_NETWORK = ("env", "npm_config_fetch_retries=0", "OPENCODE_DISABLE_MODELS_FETCH=1")
"""OpenCode does without the packages and lists that it cannot have, but tries for more than a minute."""


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks opencode`, followed to the letter: a child and its relations, all calls attributed."""
    program = (*NO_NETWORK, str(pinned_binary("opencode")))
    table = TruthTable(follow("opencode", program, SCENARIOS["single"](), tmp_path / "run"), PLAN.delegation_tools)
    assert differences(table, Expected((Delegation("child-a"),), execution="unknown")) == []
    assert table.capture.manifest["harness"] == {"name": "opencode", "version": "1.18.33", "tested": True}
    for call in table.calls.values():
        assert "roller_header" in {item["kind"] for item in call["native_identity"]["evidence"]}
