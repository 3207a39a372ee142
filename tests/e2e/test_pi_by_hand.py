"""Pi as a person uses it who has a runner of their own: behind a proxy that they start themselves."""

from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Expected
from roller_capture.acceptance.judge import differences
from roller_capture.scripted_provider.pi_scenarios import SCENARIOS
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks pi`, followed to the letter: all calls attributed, nothing missing."""
    program = pinned_binary("pi")
    [node] = [path for folder in program.parents if (path := folder / "node_modules/.bin/node").is_file()]
    table = TruthTable(follow("pi", (str(node), str(program)), SCENARIOS["ordinary"](), tmp_path / "run"))
    assert differences(table, Expected(lifecycle="unsupported", execution="unknown")) == []
    assert table.capture.manifest["harness"] == {"name": "pi", "version": "1.6.0", "tested": True}
    for call in table.calls.values():
        assert "roller_header" in {item["kind"] for item in call["native_identity"]["evidence"]}
