"""What a run's end means, and what is shown of the harness's error output."""

from pathlib import Path

import pytest

from roller_capture.capture_protocol import Gap
from roller_capture.collect.turns import RunOutcome, tail_of
from roller_capture.collect.waiting import Cause
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus

GAP = Gap(AttemptErrorCode.FILE_REFUSED, "a link")


@pytest.mark.parametrize(
    ("codes", "ended_by", "not_run", "expected"),
    [
        ([0], Cause.HARNESS_ENDED, 0, ExecutionStatus.COMPLETED),
        ([0, 0], Cause.HARNESS_ENDED, 0, ExecutionStatus.COMPLETED),
        ([1], Cause.HARNESS_ENDED, 0, ExecutionStatus.FAILED),
        ([0, 3], Cause.HARNESS_ENDED, 0, ExecutionStatus.FAILED),
        ([0], Cause.HARNESS_ENDED, 1, ExecutionStatus.FAILED),
        ([-9], Cause.HARNESS_ENDED, 0, ExecutionStatus.INTERRUPTED),
        ([143], Cause.HARNESS_ENDED, 0, ExecutionStatus.INTERRUPTED),
        ([0, 137], Cause.HARNESS_ENDED, 0, ExecutionStatus.INTERRUPTED),
        ([], Cause.STOP_SIGNAL, 1, ExecutionStatus.INTERRUPTED),
        ([143], Cause.STOP_SIGNAL, 0, ExecutionStatus.INTERRUPTED),
        ([0], Cause.STOP_SIGNAL, 1, ExecutionStatus.INTERRUPTED),
        ([143], Cause.TIMEOUT, 0, ExecutionStatus.INTERRUPTED),
        ([1], Cause.PROXY_DIED, 0, ExecutionStatus.INTERRUPTED),
        ([143], Cause.DRAIN_TIMEOUT, 0, ExecutionStatus.COMPLETED),
        ([0], Cause.DRAIN_TIMEOUT, 0, ExecutionStatus.COMPLETED),
        ([1], Cause.DRAIN_TIMEOUT, 0, ExecutionStatus.FAILED),
        ([0], Cause.SERVICE_ENDED, 0, ExecutionStatus.INTERRUPTED),
        ([143], Cause.DRAIN_TIMEOUT, 1, ExecutionStatus.INTERRUPTED),
    ],
)
def test_execution_status(codes: list[int], ended_by: Cause, not_run: int, expected: ExecutionStatus) -> None:
    """Completed only when all turns ended well; what somebody else ended is no failure of the harness."""
    outcome = RunOutcome(codes, ended_by=ended_by, turns_not_run=not_run, errors=[GAP])
    assert outcome.execution_status is expected


@pytest.mark.parametrize(
    ("codes", "ended_by", "expected"),
    [
        ([0], Cause.HARNESS_ENDED, ExecutionStatus.FAILED),
        ([0, 0], Cause.HARNESS_ENDED, ExecutionStatus.FAILED),
        ([1], Cause.HARNESS_ENDED, ExecutionStatus.FAILED),
        ([143], Cause.DRAIN_TIMEOUT, ExecutionStatus.FAILED),
        ([-9], Cause.HARNESS_ENDED, ExecutionStatus.INTERRUPTED),
        ([0], Cause.STOP_SIGNAL, ExecutionStatus.INTERRUPTED),
    ],
)
def test_a_turn_that_failed_by_the_harness_s_own_words(
    codes: list[int], ended_by: Cause, expected: ExecutionStatus
) -> None:
    """It is no completed run whatever the exit code; but one that somebody else ended is no failure of the harness."""
    assert RunOutcome(codes, turn_failed=True, ended_by=ended_by).execution_status is expected


def test_the_tail_holds_no_key_and_no_part_of_one(tmp_path: Path) -> None:
    """Wherever the shown part begins."""
    path = tmp_path / "stderr.txt"
    key = "sk-0123456789abcdef"
    for length in range(60):
        path.write_text(f"{'x' * 500}{key}{'y' * length}")
        shown = tail_of(path, (key,), limit=40)
        assert len(shown) <= 40
        assert not any(key[start : start + 8] in shown for start in range(len(key) - 7))
    assert tail_of(tmp_path / "missing", (key,)) == ""
