"""Which calls belong to whom, what they were made for, and which calls must exist.

`thread-id` of each request is the id in the first line of exactly one rollout (protocol, table of evidence; measured:
every request of 0.171.0 carries it, retries, reviews and compactions too). `session-id` and `x-client-request-id` look
like ids of their own and are the root's or the thread's; they prove nothing here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.codex.facts import Rollout, Side
from roller_capture.adapters.codex.threads import Threads
from roller_capture.adapters.native_values import as_mapping
from roller_capture.capture_protocol import (
    Evidence,
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

THREAD_HEADER: Final = "thread-id"
PARENT_HEADER: Final = "x-codex-parent-thread-id"
RELATIVE_HEADERS: Final = (PARENT_HEADER, "session-id")
"""Headers that name the parent and the root of the thread that makes a request: both belong to the attempt."""
METADATA_HEADER: Final = "x-codex-turn-metadata"
_RESPONSE_ID: Final = "response_id"

IDENTITY_FIELDS: Final = (
    NativeIdentityField(THREAD_HEADER, "thread_id", exclusive=True),
    NativeIdentityField(PARENT_HEADER, "parent_thread_id", exclusive=False),
)

_REQUEST_KINDS: Final = {"turn": Purpose.AGENT, "compaction": Purpose.COMPACTION}
_REVIEWING: Final = frozenset({Side.REVIEW, Side.GUARDIAN})


def identity_claims(threads: Threads) -> Iterator[IdentityClaim]:
    """The thread id of each rollout, and the response ids that its usage records hold."""
    for rollout in threads.by_id.values():
        evidence = rollout.evidence(EvidenceKind.NATIVE_HEADER)
        yield IdentityClaim(f"header:{THREAD_HEADER}", rollout.thread_id, rollout.thread_id, evidence)
        for usage in rollout.usages:
            if usage.response_id is not None:
                evidence = usage.place.evidence("response", usage.response_id, EvidenceKind.RESPONSE_ID)
                yield IdentityClaim(_RESPONSE_ID, usage.response_id, rollout.thread_id, evidence)


def purpose_claims(threads: Threads, metadata: Iterable[str]) -> Iterator[PurposeClaim]:
    """By the native record of a response; and by the harness's own mark in the request, for those that got none."""
    for rollout in threads.by_id.values():
        usual = _usual_purpose(rollout)
        for usage in rollout.usages:
            if usage.response_id is not None:
                compacts = usage.response_id in rollout.compactions
                purpose = Purpose.COMPACTION if compacts else usual
                evidence = usage.place.evidence("response", usage.response_id)
                yield _claim(_RESPONSE_ID, usage.response_id, purpose, evidence, rollout)
    for text in sorted(metadata):
        marks = _marks(text)
        marked = threads.by_id.get(str(marks.get("thread_id")))
        kind = _REQUEST_KINDS.get(str(marks.get("request_kind")))
        if marked is not None and kind is not None:
            purpose = kind if kind is Purpose.COMPACTION else _usual_purpose(marked)
            yield _claim(f"header:{METADATA_HEADER}", text, purpose, marked.evidence(), marked)


def _claim(field: str, value: str, purpose: Purpose, evidence: Evidence, rollout: Rollout) -> PurposeClaim:
    side_call = purpose is Purpose.COMPACTION or rollout.meta.side is Side.GUARDIAN
    return PurposeClaim(field, value, purpose, evidence, side_call=side_call)


def _usual_purpose(rollout: Rollout) -> Purpose:
    if rollout.meta.side is None:
        return Purpose.AGENT
    return Purpose.REVIEW if rollout.meta.side in _REVIEWING else Purpose.UNKNOWN


def _marks(text: str) -> Mapping[str, Any]:
    try:
        return as_mapping(json_text.parse(text.encode("utf-8", "surrogatepass")))
    except json_text.JsonError:
        return {}


def coverage(threads: Threads) -> NativeCoverage:
    """Each usage record needs its call, by response id. Versions without such records can only be counted: each change
    of a thread's token count is one response. The protocol's own count is the latter."""
    everyone = list(threads.by_id.values())
    by_id = any(rollout.usages for rollout in everyone) or not any(rollout.token_counts for rollout in everyone)
    outputs = [output for rollout in everyone for output in _outputs(rollout)]
    return NativeCoverage(
        field=_RESPONSE_ID,
        strength=CoverageStrength.PER_ID if by_id else CoverageStrength.COUNT,
        outputs=tuple(outputs) if everyone else None,
        protocol_count_name="token_usage_updates",
        protocol_count={rollout.thread_id: len(rollout.token_counts) for rollout in everyone},
    )


def _outputs(rollout: Rollout) -> Iterator[NativeOutput]:
    if rollout.is_unknown_fork:
        yield NativeOutput(rollout.thread_id, None, rollout.evidence())
    for usage in rollout.usages:
        evidence = usage.place.evidence("response", usage.response_id, EvidenceKind.RESPONSE_ID)
        yield NativeOutput(rollout.thread_id, usage.response_id, evidence)
    for place in () if rollout.usages else rollout.token_counts:
        yield NativeOutput(rollout.thread_id, None, place.evidence("usage", None))
