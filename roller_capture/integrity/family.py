"""Do participants, relations and the manifest's own members agree with each other? (design sections 4, 7 and 8)

Each rule holds for whatever the finalizer writes; who edits one member by hand breaks one of them, unless all that
depends on it is edited too.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.old_layouts import Layout
from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from roller_capture.vocabulary import (
    CaptureStatus,
    CoverageStatus,
    DebugRetention,
    ExecutionStatus,
    RelationType,
    Role,
    StatusReason,
)

Record = dict[str, Any]

_OF_CALLS: Final = frozenset(
    {StatusReason.CALL_INCOMPLETE, StatusReason.IDENTITY_AMBIGUOUS, StatusReason.IDENTITY_UNATTRIBUTED}
)
_PREFIXES: Final = {"call": "call_", "participant": "p_", "relation": "rel_"}


def check_family(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Participants and their parents, and what the relations say of them."""
    parents = {item["participant_id"]: item["parent_participant_id"] for item in manifest["participants"]}
    if len(parents) != len(manifest["participants"]):
        yield Finding(MANIFEST, "participant_id is not unique")
    for item in manifest["participants"]:
        name, parent = item["participant_id"], item["parent_participant_id"]
        if parent is not None and parent not in parents:
            yield Finding(MANIFEST, f"parent_participant_id {parent} of {name} is no participant")
        elif parent is not None and item["role"] == Role.ROOT:
            yield Finding(MANIFEST, f"{name} is a root, and has a parent")
        elif _leads_back(name, parents):
            yield Finding(MANIFEST, f"{name} is its own ancestor")
    for number, relation in seen.records:
        yield from (Finding(f"{RELATIONS}:{number}", text) for text in _relation(relation, parents, seen))


def _leads_back(name: str, parents: Mapping[str, str | None]) -> bool:
    parent, steps = parents[name], 0
    while parent is not None and parent != name and steps <= len(parents):
        parent, steps = parents.get(parent), steps + 1
    return parent == name


def _relation(relation: Record, parents: Mapping[str, str | None], seen: Seen) -> Iterator[str]:
    parent, child = relation["parent_participant_id"], relation["child_participant_id"]
    if parent == child:
        yield "its child is its parent"
    if relation["type"] == RelationType.SPAWN and parents.get(child) not in (None, parent):
        yield f"its parent {parent} is not that of {child} in the manifest"
    if relation["receiver_participant_id"] is not None and relation["receiver_participant_id"] == parent:
        yield "receiver_participant_id stands there, though it is the parent"
    ref, call_id = relation["model_tool_ref"], relation["parent_call_id"]
    if ref is not None and call_id in seen.owners:
        if (ref["call_id"], ref["item_id"]) not in seen.tool_refs[call_id]:
            yield f"model_tool_ref is no tool call of {call_id}"
        if relation["tool_call_id"] not in (ref["call_id"], f"{ref['call_id']}|{ref['item_id']}"):
            yield "tool_call_id is not that of model_tool_ref"
        if seen.owners[call_id] not in (None, parent):
            yield f"parent_call_id {call_id} is no call of the parent"


def check_evidence_kept(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Evidence in a formal file is there; any other only where `raw/` is."""
    for number, relation in seen.records:
        for evidence in relation["evidence"]:
            formal = evidence["source"] == CALLS
            if evidence["retained"] and not formal and not manifest["raw_retained"]:
                yield Finding(f"{RELATIONS}:{number}", f"evidence {evidence['source']} is retained, without raw/")
            if formal and not evidence["retained"]:
                yield Finding(f"{RELATIONS}:{number}", f"evidence {CALLS} is there, and called not retained")


def check_manifest_members(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Members of the manifest that follow from others of it."""
    yield from (Finding(MANIFEST, text) for text in _reasons(manifest, seen))
    coverage = manifest["capabilities"]["native_output_coverage"]
    if coverage["status"] == CoverageStatus.COMPLETE and coverage["observed"] < coverage["expected"]:
        yield Finding(MANIFEST, "coverage is complete although fewer outputs were observed than expected")
    if manifest["closed_at"] is None and manifest["capture_status"] == CaptureStatus.COMPLETE:
        yield Finding(MANIFEST, "the capture is complete although its recorder was never closed")
    yield from (Finding(MANIFEST, text) for text in _origin(manifest))
    if "migrated_from" not in manifest:
        yield from _scope(manifest, seen)
    if "supersedes" not in manifest:
        yield from _retention(manifest, seen)


def _origin(manifest: Record) -> Iterator[str]:
    """What an attempt was made from: `prune` leaves none of `raw/`, and `migrate` names manifest and layout."""
    layout = manifest.get("migrated_from")
    if layout is not None and "supersedes" not in manifest:
        yield "migrated_from, without the manifest that it was made from"
    if layout is not None and layout not in set(Layout):
        yield f"migrated_from {layout!r} is no layout"
    pruned = "supersedes" in manifest and layout is None and not manifest["raw_retained"]
    if pruned and manifest["debug_retention"] != DebugRetention.OFF:
        yield f"pruned, with debug_retention {manifest['debug_retention']}"


def _reasons(manifest: Record, seen: Seen) -> Iterator[str]:
    for reason in manifest["status_reasons"]:
        unknown = [call_id for call_id in reason["call_ids"] if call_id not in seen.owners]
        if unknown:
            yield f"status reason {reason['code']} names {unknown[0]}, which is no call"
        if reason["code"] in _OF_CALLS and reason["count"] != len(reason["call_ids"]):
            yield f"status reason {reason['code']} counts {reason['count']}, and names {len(reason['call_ids'])} calls"
        if reason["code"] == StatusReason.ERRORS and not manifest["errors"]:
            yield "errors are a status reason, but none is listed"


def _scope(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Every id holds the random part of the capture's own, so records of two captures cannot be mixed."""
    scope = manifest["capture_id"].removeprefix("cap_")
    ids = {
        "call": list(seen.owners),
        "participant": [item["participant_id"] for item in manifest["participants"]],
        "relation": [relation["relation_id"] for _, relation in seen.records],
    }
    for kind, names in ids.items():
        strange = [name for name in names if not name.startswith(f"{_PREFIXES[kind]}{scope}_")]
        if strange:
            yield Finding(MANIFEST, f"{kind} {strange[0]} is not of capture {manifest['capture_id']}")


def _retention(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """`raw/` is there exactly when it should be (design section 4)."""
    wanted = {DebugRetention.FULL: True, DebugRetention.OFF: False}.get(manifest["debug_retention"])
    if wanted is None:
        wanted = (
            manifest["execution_status"] != ExecutionStatus.COMPLETED
            or manifest["capture_status"] != CaptureStatus.COMPLETE
            or any(status != ExecutionStatus.COMPLETED for status in seen.execution)
            or any(
                item["role"] == Role.CHILD and item["execution_status"] != ExecutionStatus.COMPLETED
                for item in manifest["participants"]
            )
        )
    if manifest["raw_retained"] != wanted:
        yield Finding(MANIFEST, f"raw_retained does not follow from debug_retention {manifest['debug_retention']}")
