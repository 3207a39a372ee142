"""What can be judged of a run without a script: every rule that the capture states about itself."""

import json
import subprocess
from pathlib import Path

from roller_capture.acceptance.captured_run import read_lines


def real_differences(
    attempt: Path, validation: subprocess.CompletedProcess[str], *, delegates: bool
) -> tuple[list[str], int, int, int]:
    """What is wrong with the one delegation that was asked for; and how many calls, relations, unattributed calls.

    A harness that cannot delegate was asked for one tool call.
    """
    manifest = json.loads((attempt / "manifest.json").read_bytes())
    calls = read_lines(attempt / "calls.jsonl")
    relations = read_lines(attempt / "relations.jsonl")
    unattributed = sum(call["participant_id"] is None for call in calls)
    kinds = {relation["type"] for relation in relations}
    checks = {
        f"it does not validate: {validation.stderr.strip()[:300]}": validation.returncode == 0,
        f"the run is {manifest['execution_status']}": manifest["execution_status"] == "completed",
        f"the capture is {manifest['capture_status']}": manifest["capture_status"] == "complete",
        "no call was recorded": bool(calls),
        f"{unattributed} calls have no owner": not unattributed,
        "the model did not delegate": "spawn" in kinds or not delegates,
        "a harness that cannot delegate has relations": delegates or not kinds,
        "the child's result is in no context of its parent": "spawn" not in kinds or "result_in_context" in kinds,
    }
    return [text for text, holds in checks.items() if not holds], len(calls), len(relations), unattributed
