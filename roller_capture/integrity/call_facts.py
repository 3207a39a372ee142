"""What of a call the cross-checks need: small enough to be kept of every call of a long session."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from roller_capture.vocabulary import EvidenceKind, ExecutionStatus

RESPONSE_ID: Final = "response_id"
HEADER: Final = "header:"
_MESSAGE_ID: Final = "message_id"
_NO_IDS: Final = frozenset({"evidence"})


class CallFacts(NamedTuple):
    """One call; `headers` are those of its request that carry identities, by name, each with its different values."""

    line: int
    call_id: str
    sequence: int
    owner: str | None
    completed: bool
    response_id: str | None
    response_path: str | None
    headers: Mapping[str, frozenset[str]]
    native_ids: Mapping[str, str]
    logs: frozenset[str]
    """The native logs that its evidence names."""
    proofs: frozenset[str]
    """The fields that its evidence names."""
    answers_by_id: bool
    """Its owner's log knows its response id, which then is its `message_id` too, whatever its headers say."""


def identity_headers(manifest: Mapping[str, Any]) -> list[str]:
    """The request headers of which the manifest says that native ids come from them, owners are told by them, or
    outputs are compared by them."""
    capabilities = manifest["capabilities"]
    fields = [*capabilities["identity"], capabilities["native_output_coverage"]["key"]]
    named = [name.removeprefix(HEADER) for name in fields if name.startswith(HEADER)]
    return list(dict.fromkeys([*(capabilities.get("native_id_headers") or ()), *named]))


def facts_of(call: Mapping[str, Any], line: int, headers: Sequence[str]) -> CallFacts:
    """Of a call that fits the schema."""
    identity, sent = call["native_identity"], call["http"]["request_headers"]
    by_id = any(
        one["name"] == RESPONSE_ID and one["kind"] != EvidenceKind.HEADER_ABSENT for one in identity["evidence"]
    )
    left_out = _NO_IDS | {_MESSAGE_ID} if by_id else _NO_IDS
    return CallFacts(
        line,
        call["call_id"],
        call["sequence"],
        call["participant_id"],
        call["execution_status"] == ExecutionStatus.COMPLETED,
        call["response_id"],
        call["response_path"],
        {name: frozenset(sent[name]) for name in headers if sent.get(name)},
        {name: value for name, value in identity.items() if name not in left_out and value is not None},
        frozenset(one["source"] for one in identity["evidence"] if one["source"] is not None),
        frozenset(one["name"] for one in identity["evidence"]),
        by_id,
    )
