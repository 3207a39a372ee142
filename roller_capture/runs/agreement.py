"""What the books and the configuration of a run say of a published attempt, against what its manifest says."""

from collections.abc import Iterator
from typing import Any

from roller_capture.integrity import Finding
from roller_capture.publication import MANIFEST
from roller_capture.runs.books import SAMPLE_FILE, AttemptEntry, SampleState
from roller_capture.runs.configuration import RunDocument


def disagreements(manifest: dict[str, Any], entry: AttemptEntry | None, run: RunDocument) -> Iterator[Finding]:
    """Between a valid attempt and what run and sample say of it. Without an `entry` the books know nothing of it."""
    # Not its version: a manifest has the one that the logs tell, which an agent of one's own words as it likes.
    name = manifest["harness"]["name"]
    if name != run.harness.name:
        yield Finding(MANIFEST, f"harness is {name}, the run's is {run.harness.name}")
    if entry is None or entry.capture_status is None:
        return
    if entry.capture_status != manifest["capture_status"]:
        said = f"{SAMPLE_FILE} says capture {entry.capture_status}"
        yield Finding(MANIFEST, f"capture_status is {manifest['capture_status']}, but {said}")
    if entry.state is not SampleState.of(manifest["execution_status"]):
        said = f"{SAMPLE_FILE} says {entry.state}"
        yield Finding(MANIFEST, f"execution_status is {manifest['execution_status']}, but {said}")
