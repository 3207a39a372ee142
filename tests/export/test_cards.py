"""What dataset cards say of the runs that the rows are of."""

import re
from pathlib import Path

import pytest

from roller_capture.vocabulary import ExecutionStatus
from tests.export.families import publish_generations, run_export
from tests.support.publish import lines


@pytest.mark.parametrize("command", [("calls",), ("main", "--as", "sft")], ids=" ".join)
@pytest.mark.parametrize(
    "ends",
    [
        (ExecutionStatus.COMPLETED,),
        (ExecutionStatus.INTERRUPTED, ExecutionStatus.FAILED, ExecutionStatus.COMPLETED, ExecutionStatus.FAILED),
        (ExecutionStatus.UNKNOWN,),
    ],
    ids=len,
)
def test_a_card_counts_rows_by_how_their_runs_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], ends: tuple[ExecutionStatus, ...]
) -> None:
    """A row of a run that failed stands among the others."""
    for number, status in enumerate(ends):
        capture_id = f"cap_abcdefghij000000000{number}"
        publish_generations(tmp_path / "run" / f"a{number}", monkeypatch, status=status, capture_id=capture_id)
    output = tmp_path / "rows.jsonl"
    code, _, err = run_export(*command, tmp_path / "run", "--output", output)
    assert code == 0, err
    of_one, rest = divmod(len(lines(output)), len(ends))
    assert (of_one > 0, rest) == (True, 0)
    found = re.search(
        r"^Ends of their runs: (.*?)\. ", output.with_name("rows.jsonl.card.md").read_text(), re.MULTILINE
    )
    assert found is not None
    counts = {status: ends.count(status) * of_one for status in ExecutionStatus}
    assert found[1] == ", ".join(f"{status} ({number})" for status, number in counts.items() if number)
