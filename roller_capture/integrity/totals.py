"""What the manifest says of the whole follows from the records."""

from collections.abc import Iterator
from typing import Any

from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import MANIFEST
from roller_capture.vocabulary import CaptureStatus, StatusReason


def check_manifest(manifest: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """The manifest's totals, owners and statuses are those of the records."""
    claimed = [(call_id, item["participant_id"]) for item in manifest["participants"] for call_id in item["call_ids"]]
    owned = {call_id: owner for call_id, owner in seen.owners.items() if owner is not None}
    if dict(claimed) != owned or len(claimed) != len(owned):
        yield Finding(MANIFEST, "participants' call_ids are not the owners in calls.jsonl")
    counts = manifest["counts"]
    actual = {
        "calls": len(seen.owners),
        "exportable_calls": seen.exportable,
        "execution_status": dict(seen.execution),
        "identity_status": dict(seen.identity),
        "capture_status": dict(seen.capture),
        "participants": len(manifest["participants"]),
        "relations": dict(seen.relations),
    }
    for name, value in actual.items():
        if counts[name] != value:
            yield Finding(MANIFEST, f"counts.{name} is {counts[name]}, the records have {value}")
    reasons = {reason["code"]: reason for reason in manifest["status_reasons"]}
    if (manifest["capture_status"] == CaptureStatus.COMPLETE) != (not reasons):
        yield Finding(MANIFEST, "capture_status and status_reasons contradict each other")
    for code, call_ids in (
        (StatusReason.CALL_INCOMPLETE, seen.partial),
        (StatusReason.IDENTITY_AMBIGUOUS, seen.ambiguous),
    ):
        if reasons.get(code, {"call_ids": []})["call_ids"] != call_ids:
            yield Finding(MANIFEST, f"status_reasons does not name the calls of {code}")
    # Calls that the harness itself marks as side calls need no owner, so these may be fewer.
    unattributed = reasons.get(StatusReason.IDENTITY_UNATTRIBUTED, {"call_ids": []})["call_ids"]
    agent_calls = seen.unattributed - seen.side_calls
    if not agent_calls <= set(unattributed) <= seen.unattributed:
        yield Finding(MANIFEST, "status_reasons does not name the calls of identity_unattributed")
    if manifest["errors"] and StatusReason.ERRORS not in reasons:
        yield Finding(MANIFEST, "errors are listed, but are no status reason")


def check_derived(manifest: dict[str, Any]) -> Iterator[Finding]:
    """Coverage and lifecycle lower the whole exactly when they should."""
    reasons = {reason["code"] for reason in manifest["status_reasons"]}
    coverage = manifest["capabilities"]["native_output_coverage"]
    lifecycle = manifest["lifecycle"]["status"]
    expected = {
        StatusReason.COVERAGE_INCOMPLETE: coverage["status"] == "incomplete",
        StatusReason.COVERAGE_UNKNOWN: coverage["status"] == "unknown",
        StatusReason.LIFECYCLE_PENDING: lifecycle == "pending",
        StatusReason.LIFECYCLE_UNKNOWN: lifecycle == "unknown",
    }
    for code, holds in expected.items():
        if holds != (code in reasons):
            yield Finding(MANIFEST, f"status reason {code} does not follow from coverage and lifecycle")
    if coverage["missing"] and coverage["status"] == "complete":
        yield Finding(MANIFEST, "coverage is complete although outputs are missing")
    if manifest["lifecycle"]["pending_participant_ids"] and lifecycle == "complete":
        yield Finding(MANIFEST, "lifecycle is complete although participants are pending")
