"""Hermes Agent as a person uses it: behind a proxy of their own, and interactively."""

from collections import Counter
from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.scripted_provider.hermes_scenarios import SCENARIOS, SETTINGS
from tests.support.by_hand import follow
from tests.support.harness_run import pinned_binary
from tests.support.hermes_interactive import capture_interactively
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

DELEGATE = ("delegate_task",)


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks hermes`, followed to the letter: a child, all calls attributed, nothing missing."""
    program = pinned_binary("hermes")
    table = TruthTable(follow("hermes", (str(program),), SCENARIOS["single"](), tmp_path / "run"), DELEGATE)
    assert differences(table, Expected((Delegation("child-a"),), execution="unknown")) == []
    assert table.capture.manifest["harness"] == {"name": "hermes", "version": "0.19.0", "tested": True}


def test_an_interactive_session(tmp_path: Path) -> None:
    """What `collect` never runs: a child in the background, whose end begins a turn of the root, and a title."""
    scenario = SCENARIOS["interactive-background"]()
    program = pinned_binary("hermes")
    capture = capture_interactively(program, scenario, tmp_path / "run", *SETTINGS["interactive-background"])
    table = TruthTable(capture, DELEGATE)
    expected = Expected((Delegation("child-bg", background=True, end="child_completed"),), execution="unknown")
    assert differences(table, expected) == []
    assert Counter(call["purpose"] for call in table.calls.values()) == {"agent": 5, "title": 1}
    [(_, notification)] = [pair for pair in table.context_items if pair[0]["type"] == "result_in_context"]
    [bound] = {item["delivery"]["bound_id"] for item, _ in table.context_items if item["type"] == "result_in_context"}
    assert f"{bound}]" in str(notification)


def test_a_background_child_that_the_user_stops(tmp_path: Path) -> None:
    """Hermes's word for the batch is `error`, and its child's own turn was interrupted: it ended, and did not fail."""
    scenario = SCENARIOS["interactive-stopped"]()
    capture = capture_interactively(pinned_binary("hermes"), scenario, tmp_path / "run", then="/stop")
    table = TruthTable(capture, DELEGATE)
    assert not table.wrong
    assert not table.unattributed
    manifest = capture.manifest
    assert (manifest["capture_status"], manifest["lifecycle"]["status"]) == ("complete", "complete")
    ends = {item["role"]: item["execution_status"] for item in manifest["participants"]}
    assert ends == {"root": "completed", "child": "interrupted"}
    assert {relation["type"] for relation in capture.relations} == {
        "spawn",
        "launch_acknowledged",
        "launch_ack_in_context",
        "result_delivered",
        "result_in_context",
    }
