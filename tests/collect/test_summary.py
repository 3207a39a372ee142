"""What `collect` says of a run at its end."""

from roller_capture.collect.attempt import AttemptResult
from roller_capture.collect.summary import run_line
from roller_capture.collect.turns import RunOutcome


def test_a_failed_turn_whose_exit_code_is_good_is_explained() -> None:
    """Else "failed (exit code 0)" would stand there alone."""
    outcome = RunOutcome([0], turn_failed=True, turns_not_run=1)
    line = run_line(AttemptResult(outcome, 1, (), ""), "pi", "1.6.0", None)
    assert line == (
        "pi 1.6.0: failed after 0.0 s (exit code 0); by its own output the last turn failed; 1 of the turns not run"
    )
