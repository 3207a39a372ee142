"""What proves whose a call is: the ids that the stream function was given, and the provider's response ids.

A call that sums a session up is given no session id, but a run id of its own, `<run>:compaction:<id>`: the harness's
own mark of what it is, and of the run in which it was made (measured).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from roller_capture.adapters.native_values import is_locatable
from roller_capture.adapters.openclaw.facts import Answer, Home, Place, Session
from roller_capture.capture_protocol import (
    Evidence,
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

SESSION_HEADER: Final = "x-roller-session-id"
RUN_HEADER: Final = "x-roller-run-id"
REQUEST_HEADER: Final = "x-roller-request-id"
STREAM_HEADER: Final = "x-roller-stream-id"
"""A new value for each call, and so the one that every call has."""

COMPACTION: Final = ":compaction:"
"""In the run id of a call that sums a session up."""

IDENTITY_FIELDS: Final = (
    # Not exclusive, since compaction calls of the same session go without it.
    NativeIdentityField(SESSION_HEADER, "session_id", exclusive=False),
    NativeIdentityField(RUN_HEADER, "run_id", exclusive=False),
    # The same for every attempt at one model call: the numbering begins anew with a retry (measured).
    NativeIdentityField(REQUEST_HEADER, "logical_call_id", exclusive=False),
)


def identity_claims(sessions: Iterable[Session]) -> Iterator[IdentityClaim]:
    """Session ids by the hook's header, and response ids by the transcripts."""
    for session in sessions:
        place = session.place or session.node
        for session_id in session.session_ids:
            if place is not None:
                locator = place.evidence("session", session_id).locator
                evidence = Evidence(EvidenceKind.ROLLER_HEADER, place.source, locator)
                yield IdentityClaim(f"header:{SESSION_HEADER}", session_id, session.key, evidence)
        for answer in own_answers(session):
            if answer.response_id is not None:
                yield IdentityClaim("response_id", answer.response_id, session.key, _response(answer))


def compaction_claims(sessions: Iterable[Session], wire_run_ids: frozenset[str]) -> Iterator[IdentityClaim]:
    """Compaction calls by the run in which they were made, where only one session has that run."""
    everyone = list(sessions)
    for wire_id in sorted(wire_run_ids):
        run_id, mark, _ = wire_id.partition(COMPACTION)
        owners = [(session, place) for session in everyone if mark and (place := _run_place(session, run_id))]
        if len(owners) == 1:
            session, place = owners[0]
            evidence = Evidence(EvidenceKind.ROLLER_HEADER, place.source, place.evidence("run", run_id).locator)
            yield IdentityClaim(f"header:{RUN_HEADER}", wire_id, session.key, evidence)


def _run_place(session: Session, run_id: str) -> Place | None:
    """Where a session has a run; the record of its compaction first."""
    for thread in session.threads:
        place = thread.compactions.get(run_id) or thread.runs.get(run_id)
        if place is not None:
            return place
    return None


def purpose_claims(sessions: Iterable[Session], compactions: Iterable[IdentityClaim]) -> Iterator[PurposeClaim]:
    """An answer that stands in a transcript was a turn of its agent; a compaction call bears its own mark."""
    for claim in compactions:
        yield PurposeClaim(claim.field, claim.value, Purpose.COMPACTION, claim.evidence, side_call=True)
    for session in sessions:
        for answer in own_answers(session):
            if answer.response_id is not None:
                yield PurposeClaim("response_id", answer.response_id, Purpose.AGENT, _response(answer))


def coverage(home: Home, sessions: Iterable[Session]) -> NativeCoverage:
    """Each answer in a transcript needs its call; the protocol's own count is that of stream contexts."""
    everyone = list(sessions)
    outputs = tuple(
        NativeOutput(session.key, answer.response_id, _response(answer))
        for session in everyone
        for answer in own_answers(session)
        if answer.is_output
    )
    streams = home.hook.streams if home.hook is not None else {}
    read = any(thread.entries for session in everyone for thread in session.threads)
    return NativeCoverage(
        field="response_id",
        strength=CoverageStrength.PER_ID,
        outputs=outputs if read else None,
        protocol_count_name="stream contexts of each session",
        protocol_count={
            session.key: sum(streams.get(session_id, 0) for session_id in session.session_ids) for session in everyone
        },
    )


def own_answers(session: Session) -> Iterator[Answer]:
    """The answers of a session, without those that a fork has taken over from its source."""
    for thread in session.threads:
        yield from (answer for answer in thread.answers if not answer.is_copy)


def _response(answer: Answer) -> Evidence:
    identifier = answer.response_id
    named = identifier is not None and is_locatable(identifier)
    locator = f"line:{answer.place.line}" + (f" response:{identifier}" if named else "")
    return Evidence(EvidenceKind.RESPONSE_ID, answer.place.source, locator)
