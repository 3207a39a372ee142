"""Every harness in every scenario of the shared acceptance: passed, or proven not applicable.

`ROLLER_E2E_HARNESSES` names the harnesses to run (default: all that have a plan).
"""

import os
from pathlib import Path

import pytest

from roller_capture.acceptance.command import Result, find_plan, judge_cell
from roller_capture.acceptance.expected import SCENARIO_NAMES
from roller_capture.acceptance.run import Setting
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher
from roller_capture.launchers.binaries import find_binary
from tests.support.harness_run import pinned_binary

pytestmark = pytest.mark.e2e


def _planned() -> list[str]:
    wanted = os.environ.get("ROLLER_E2E_HARNESSES", " ".join(HARNESSES)).split()
    planned = []
    for name in wanted:
        try:
            find_plan(name)
        except RollerError:
            continue
        planned.append(name)
    return planned


@pytest.mark.parametrize("scenario", SCENARIO_NAMES)
@pytest.mark.parametrize("harness", _planned())
def test_each_scenario(harness: str, scenario: str, tmp_path: Path, e2e_table: list[str]) -> None:
    """Judged by the provider's own record; what the harness cannot do, it shows to refuse."""
    binary = find_binary(harness, find_launcher(harness), pinned_binary(harness))
    row = judge_cell(find_plan(harness), Setting(harness, binary, tmp_path, timeout=240), scenario)
    e2e_table.append(
        f"acceptance {harness} {row.version} {scenario:<21} {row.result:<15} calls {row.calls:>2} relations "
        f"{row.relations:>2} wrong {row.wrong} unattributed {row.unattributed} {row.reason or ''}"
    )
    assert row.differences == []
    assert row.result in (Result.PASSED, Result.NOT_APPLICABLE)
