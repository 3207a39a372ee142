"""Ids, numbers and order of the records: each follows from where a record stands (docs/protocol.md).

So a record cannot be exchanged, moved, put in or taken out by itself.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from roller_capture.finalizer.raw_folder import response_path
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from roller_capture.vocabulary import AttemptErrorCode, IdentityStatus, RelationType

Record = dict[str, Any]

_IN_CONTEXT: Final = frozenset({RelationType.RESULT_IN_CONTEXT, RelationType.LAUNCH_ACK_IN_CONTEXT})

_LOSES_CALLS: Final = frozenset(
    {
        AttemptErrorCode.EVENT_UNREADABLE,
        AttemptErrorCode.EVENTS_MISSING,
        AttemptErrorCode.RECORDER_ERROR,
        AttemptErrorCode.RECORDER_NOT_CLOSED,
        AttemptErrorCode.BODY_WITHOUT_EVENT,
        AttemptErrorCode.FILE_REFUSED,
    }
)


def check_numbering(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Calls in order of arrival, participants and relations in the order of their ids; every id with the scope."""
    scope = str(manifest["capture_id"]).removeprefix("cap_")
    yield from _calls(scope, seen)
    yield from _gaps(manifest, seen)
    yield from _participants(scope, manifest, seen)
    yield from _relations(scope, seen)


def _calls(scope: str, seen: Seen) -> Iterator[Finding]:
    for call in seen.calls:
        where = f"{CALLS}:{call.line}"
        if call.call_id != f"call_{scope}_{call.sequence:06d}":
            yield Finding(where, f"call_id {call.call_id} is not that of sequence {call.sequence} in this capture")
        if call.response_path not in (None, response_path(call.call_id)):
            yield Finding(where, f"response_path {call.response_path} is that of another call")
    for before, call in pairwise(seen.calls):
        if call.sequence <= before.sequence:
            yield Finding(f"{CALLS}:{call.line}", "it does not stand in the order of arrival")


def _gaps(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Requests are numbered as they come: one that is not there was lost, and then an error says so."""
    errors = {error["code"] for error in manifest["errors"]}
    if errors & _LOSES_CALLS:
        return
    for number, call in enumerate(seen.calls, 1):
        if call.sequence != number:
            yield Finding(f"{CALLS}:{call.line}", f"sequence {call.sequence} where {number} follows: a call is missing")
            return


def _participants(scope: str, manifest: Record, seen: Seen) -> Iterator[Finding]:
    twins: dict[str, str] = {}
    owned: dict[str, list[str]] = {}
    for call in seen.calls:
        if call.owner is not None:
            owned.setdefault(call.owner, []).append(call.call_id)
    for number, item in enumerate(manifest["participants"], 1):
        name = item["participant_id"]
        if name != f"p_{scope}_{number:03d}":
            yield Finding(MANIFEST, f"participant_id {name} is not that of participant {number} in this capture")
        if item["call_ids"] != owned.get(name, []):
            yield Finding(MANIFEST, f"call_ids of {name} are not its calls in the order of {CALLS}")
        twin = twins.setdefault(json.dumps(item["native_ids"], sort_keys=True), name)
        if twin != name and item["native_ids"]:
            yield Finding(MANIFEST, f"native_ids of {name} are those of {twin}")
        if any(len(set(ids)) != len(ids) for ids in item["native_ids"].values()):
            yield Finding(MANIFEST, f"native_ids of {name} name an id twice")
        if item["identity_status"] != IdentityStatus.RESOLVED:
            yield Finding(MANIFEST, f"identity_status of {name} is {item['identity_status']}: a participant is proven")


def _relations(scope: str, seen: Seen) -> Iterator[Finding]:
    order = {call.call_id: call.line for call in seen.calls}
    last = 0
    for number, relation in seen.records:
        where = f"{RELATIONS}:{number}"
        if relation["relation_id"] != f"rel_{scope}_{number:06d}":
            yield Finding(where, f"relation_id {relation['relation_id']} is not that of relation {number}")
        place = order.get(relation["context_call_id"], last) if relation["type"] in _IN_CONTEXT else 0
        if place < last:
            yield Finding(where, "it does not stand behind the native relations, in the order of its calls")
        last = max(last, place)
