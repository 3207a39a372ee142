"""What identity evidence says of a call is what the call carries: the finalizer takes it there (design section 6)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roller_capture.integrity.call_facts import HEADER, RESPONSE_ID
from roller_capture.vocabulary import EvidenceKind, IdentityStatus

Record = dict[str, Any]

_CONTEXT: Final = "context:"
_OURS: Final = f"{HEADER}x-roller-"


def evidence_contradictions(call: Record) -> Iterator[str]:
    """What the evidence of one call says of it, and the call does not."""
    identity, headers = call["native_identity"], call["http"]["request_headers"]
    if call["identity_status"] != IdentityStatus.UNATTRIBUTED and not identity["evidence"]:
        yield f"identity_status {call['identity_status']}, without evidence"
    for one in identity["evidence"]:
        if not _holds(one, call["response_id"], headers):
            yield f"evidence {one['name']} ({one['kind']}) is not what the call carries"
    if any(one["name"] == RESPONSE_ID for one in identity["evidence"]) and (
        identity.get("message_id") != call["response_id"]
    ):
        yield "native_identity.message_id is not response_id, by which the log knows the call"


def _holds(evidence: Record, response_id: str | None, headers: Mapping[str, Sequence[str]]) -> bool:
    name, value, kind = evidence["name"], evidence["value"], evidence["kind"]
    if kind == EvidenceKind.HEADER_ABSENT:
        return name.startswith(HEADER) and value is None and not headers.get(name.removeprefix(HEADER))
    if value is None or kind not in _kinds(name):
        return False
    if name == RESPONSE_ID:
        return bool(value == response_id)
    return name.startswith(_CONTEXT) or value in headers.get(name.removeprefix(HEADER), ())


def _kinds(name: str) -> tuple[EvidenceKind, ...]:
    """What a field of this name can be evidence of, if anything. A log may itself be ours, and hold the response id."""
    if name == RESPONSE_ID:
        return (EvidenceKind.RESPONSE_ID, EvidenceKind.NATIVE_RECORD)
    if name.startswith(_CONTEXT):
        return (EvidenceKind.REQUEST_CONTEXT,)
    if name.startswith(_OURS):
        return (EvidenceKind.ROLLER_HEADER,)
    return (EvidenceKind.NATIVE_HEADER,) if name.startswith(HEADER) else ()
