"""Do relations agree with each other and with the calls? (design section 7)

What the finalizer writes of one delegation comes from one native record, so it is said again in each relation of it.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from roller_capture.vocabulary import (
    BoundBy,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    RelationType,
    Role,
)

Record = dict[str, Any]

_NATIVE_TYPE: Final = {
    RelationType.RESULT_IN_CONTEXT: RelationType.RESULT_DELIVERED,
    RelationType.LAUNCH_ACK_IN_CONTEXT: RelationType.LAUNCH_ACKNOWLEDGED,
}
_OF_THE_RECORD: Final = (
    "parent_participant_id",
    "child_participant_id",
    "receiver_participant_id",
    "tool_call_id",
    "task_index",
    "delegation",
    "delivery",
    "outcome",
)
"""Members that an in-context relation has from the native record of its item."""

_ENDS: Final = {
    RelationType.CHILD_COMPLETED: ExecutionStatus.COMPLETED,
    RelationType.CHILD_FAILED: ExecutionStatus.FAILED,
}
_LATER: Final = (ExecutionStatus.INTERRUPTED, ExecutionStatus.UNKNOWN)
_LOCATOR: Final = re.compile(r"line:[1-9]\d*(?: [a-z_]+:\S+)*|json:(?:/.*)?|row:[^:]+:.*", re.DOTALL)


def check_relation_rules(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """What one relation says of another, of a call, or of its child."""
    yield from _children(manifest, seen)
    yield from _twins(seen)
    native = {_fingerprint(relation, relation["type"]) for _, relation in seen.records}
    answers: dict[str | None, list[str | None]] = defaultdict(list)
    for call in seen.calls:
        answers[call.response_id].append(call.owner)
    numbers: dict[tuple[str, int], tuple[str | None, str | None]] = {}
    tools: dict[tuple[str, str | None, str | None], int] = {}
    for number, relation in seen.records:
        where = f"{RELATIONS}:{number}"
        twin = _NATIVE_TYPE.get(relation["type"])
        if twin is not None and _fingerprint(relation, twin) not in native:
            yield Finding(where, f"there is no {twin} of the same item")
        yield from (Finding(where, text) for text in _delivery(relation, answers))
        yield from (Finding(where, text) for text in _evidence(relation, seen))
        child, count = relation["child_participant_id"], relation["delegation"]
        tool = (relation["parent_participant_id"], relation["tool_call_id"])
        if tool[1] is None:
            continue
        if numbers.setdefault((child, count), tool) != tool:
            yield Finding(where, f"delegation {count} of {child} has another parent or tool_call_id elsewhere")
        if tools.setdefault((child, *tool), count) != count:
            yield Finding(where, f"tool_call_id {tool[1]} is another delegation of {child} elsewhere")


def _children(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """The child of a relation is one, its parent is who spawned it, and its last end is how it was executed."""
    children = {item["participant_id"]: item for item in manifest["participants"]}
    ends: dict[str, tuple[int, str]] = {}
    last: dict[str, int] = {}
    for number, relation in seen.records:
        child = children.get(relation["child_participant_id"])
        if child is None:
            continue
        where, name, count = f"{RELATIONS}:{number}", child["participant_id"], relation["delegation"]
        last[name] = max(count, last.get(name, 0))
        if child["role"] != Role.CHILD:
            yield Finding(where, f"its child {name} is no child in the manifest")
        parent = relation["parent_participant_id"]
        if relation["type"] == RelationType.SPAWN and child["parent_participant_id"] != parent:
            yield Finding(where, f"its parent {parent} is not that of {name} in the manifest")
        if relation["type"] in _ENDS:
            ends[name] = max((count, _ENDS[relation["type"]]), ends.get(name, (0, "")))
    for child, (delegation, status) in ends.items():
        # A turn that began later may have been cut, or its end be told by nothing.
        if delegation == last[child] and children[child]["execution_status"] not in (status, *_LATER):
            yield Finding(MANIFEST, f"execution_status of {child} is not that of its last end in {RELATIONS}")


def _twins(seen: Seen) -> Iterator[Finding]:
    """Each record stands there once."""
    said: dict[str, int] = {}
    for number, relation in seen.records:
        twin = said.setdefault(json.dumps({**relation, "relation_id": None}, sort_keys=True), number)
        if twin != number:
            yield Finding(f"{RELATIONS}:{number}", f"says the same as line {twin}")


def _fingerprint(relation: Record, kind: str) -> str:
    """The native record behind a relation of this type, as text."""
    proof = [one for one in relation["evidence"] if one["source"] != CALLS]
    return json.dumps([kind, proof, *(relation[name] for name in _OF_THE_RECORD)], sort_keys=True)


def _delivery(relation: Record, answers: Mapping[str | None, list[str | None]]) -> Iterator[str]:
    """`answers` are the owners of the calls with each response id."""
    delivery = relation["delivery"]
    if delivery is None:
        return
    if delivery["kind"] == DeliveryKind.TOOL_RESULT and delivery["bound_by"] != BoundBy.TOOL_CALL_ID:
        yield f"a tool result that is bound by {delivery['bound_by']}"
    if delivery["bound_by"] == BoundBy.RESPONSE_ID and relation["context_call_id"] is not None:
        receiver = relation["receiver_participant_id"] or relation["parent_participant_id"]
        if answers.get(delivery["bound_id"]) != [receiver]:
            yield f"bound_id {delivery['bound_id']} is no response of the receiver"


def _evidence(relation: Record, seen: Seen) -> Iterator[str]:
    """Native evidence first, in a known form; behind it what calls.jsonl proves, which follows from the ids."""
    split = next((place for place, one in enumerate(relation["evidence"]) if one["source"] == CALLS), None)
    native, formal = relation["evidence"][:split], relation["evidence"][split:] if split is not None else []
    if not native:
        yield "no native evidence"
    for one in native:
        if not _LOCATOR.fullmatch(one["locator"]):
            yield f"evidence locator {one['locator']!r} has no known form"
        if one["kind"] in (EvidenceKind.TOOL_CALL_ID, EvidenceKind.REQUEST_CONTEXT):
            yield f"evidence {one['source']} is called {one['kind']}, which only {CALLS} proves"
    tool = f" tool:{(relation['model_tool_ref'] or {}).get('call_id')}"  # left out where JSON would escape the id
    given = [(one["kind"], one["source"], one["locator"].removesuffix(tool)) for one in formal]
    if given != list(_formal(relation, seen.lines)):
        yield f"evidence in {CALLS} is not that of parent_call_id and context_call_id"


def _formal(relation: Record, lines: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    for kind, name in (
        (EvidenceKind.TOOL_CALL_ID, "parent_call_id"),
        (EvidenceKind.REQUEST_CONTEXT, "context_call_id"),
    ):
        call_id = relation[name]
        if call_id is not None:
            yield kind, CALLS, f"line:{lines.get(call_id)} call:{call_id}"
