"""Which calls belong to which session, what they were made for, and which calls must exist.

Closed list of what a request may prove: the session's id in the headers below, and the entry that a compaction was
appended to. `x-client-request-id` holds the session's id too, but its name promises another thing; it is not used.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.pi.session_log import SessionLog
from roller_capture.capture_protocol import (
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import AttemptErrorCode, CoverageStrength, EvidenceKind, Purpose

NATIVE_HEADERS: Final = ("session_id", "session-id", "x-session-id", "x-session-affinity")
"""Which of them Pi sends depends on the protocol and on `compat` in its models.json; calls that compact have none."""

HOOK_SESSION: Final = "x-roller-session"
HOOK_LEAF: Final = "x-roller-leaf"
HOOK_VERSION: Final = "x-roller-harness-version"
SESSION_HEADERS: Final = (*NATIVE_HEADERS, HOOK_SESSION)

IDENTITY_FIELDS: Final = (
    *(NativeIdentityField(header, "session_id", exclusive=False) for header in NATIVE_HEADERS),
    NativeIdentityField(HOOK_SESSION, "session_id", exclusive=True),
)
_RESPONSE_ID: Final = "response_id"


def identity_claims(logs: Iterable[SessionLog], wire_headers: Mapping[str, frozenset[str]]) -> Iterator[IdentityClaim]:
    """The response ids of each session's answers first, then the session's own id in each header that carried it."""
    for log in logs:
        for answer in log.answers:
            if answer.response_id is not None:
                evidence = log.evidence(answer, EvidenceKind.RESPONSE_ID)
                yield IdentityClaim(_RESPONSE_ID, answer.response_id, log.session_id, evidence)
        for header in SESSION_HEADERS:
            if log.session_id in wire_headers.get(header, frozenset()):
                kind = EvidenceKind.ROLLER_HEADER if header == HOOK_SESSION else EvidenceKind.NATIVE_HEADER
                yield IdentityClaim(f"header:{header}", log.session_id, log.session_id, log.header_evidence(kind))


def purpose_claims(logs: list[SessionLog]) -> Iterator[PurposeClaim]:
    """Every answer in a log is an agent's turn; a request made at the entry that a compaction was appended to wrote
    that compaction's summary. One compaction can take two requests, and its entry names no response (measured).

    An entry to which an answer was appended as well, or that two logs know, tells nothing.
    """
    for log in logs:
        for answer in log.answers:
            if answer.response_id is not None:
                evidence = log.evidence(answer, EvidenceKind.RESPONSE_ID)
                yield PurposeClaim(_RESPONSE_ID, answer.response_id, Purpose.AGENT, evidence)
    known_to = Counter(parent for log in logs for parent in {entry.parent_id for entry in log.compactions})
    answered = {answer.parent_id for log in logs for answer in log.answers}
    for log in logs:
        for entry in log.compactions:
            parent = entry.parent_id
            if parent is not None and known_to[parent] == 1 and parent not in answered:
                evidence = log.evidence(entry, EvidenceKind.NATIVE_RECORD)
                yield PurposeClaim(f"header:{HOOK_LEAF}", parent, Purpose.COMPACTION, evidence)


def coverage(logs: list[SessionLog], wire_headers: Mapping[str, frozenset[str]], gaps: GapLog) -> NativeCoverage:
    """Every answer with a provider's id needs its call, also a failed or aborted one, whose stream had begun. An answer
    that failed before any body came is no output. The protocol's count is that of completed answers.

    Where the provider gives no ids, the hook's leaf takes their place: a completed answer needs a call that was made at
    the entry to which it was appended. Without the hook there is nothing to compare it with.
    """
    nameless = any(answer.completed and answer.response_id is None for log in logs for answer in log.answers)
    by_leaf = nameless and bool(wire_headers.get(HOOK_LEAF))
    outputs = tuple(output for log in logs for output in _outputs(log, gaps, by_leaf=by_leaf))
    return NativeCoverage(
        field=f"header:{HOOK_LEAF}" if by_leaf else _RESPONSE_ID,
        strength=CoverageStrength.PER_ID,
        outputs=outputs if logs else None,
        protocol_count_name="completed_assistants",
        protocol_count={log.session_id: sum(answer.completed for answer in log.answers) for log in logs},
    )


def _outputs(log: SessionLog, gaps: GapLog, *, by_leaf: bool) -> Iterator[NativeOutput]:
    seen: set[str] = set()
    for answer in log.answers:
        identifier = answer.parent_id if by_leaf else answer.response_id
        if not answer.completed and (by_leaf or identifier is None):
            continue
        if identifier in seen:
            reason = "two answers of one session have the same id, so that one call could stand for both"
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=log.source, line=answer.line)
        seen |= {identifier} if identifier is not None else set()
        yield NativeOutput(log.session_id, identifier, log.evidence(answer, EvidenceKind.RESPONSE_ID))
