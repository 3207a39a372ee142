"""The closed list of what proves an owner, a purpose and coverage.

The protocol's evidence is the executing instance's own session id, matched with the native log. Hermes sends no id of
its own on the wire: our plugin adds it to each request. Provider response ids, where the plugin could read them, are a
second witness; Hermes itself keeps none (measured in all three protocols).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from roller_capture.adapters.hermes.executors import Executors
from roller_capture.adapters.hermes.facts import Place, PluginLog
from roller_capture.capture_protocol import (
    Evidence,
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

SESSION_HEADER: Final = "x-roller-session"
REQUEST_HEADER: Final = "x-roller-request"
TASK_HEADER: Final = "x-roller-task"

SESSION_FIELD: Final = f"header:{SESSION_HEADER}"
REQUEST_FIELD: Final = f"header:{REQUEST_HEADER}"
TASK_FIELD: Final = f"header:{TASK_HEADER}"

IDENTITY_FIELDS: Final = (
    NativeIdentityField(SESSION_HEADER, "session_id", exclusive=True),
    # The same for all attempts at one request; after a rotation it begins with the old session's id: it names nobody.
    NativeIdentityField(REQUEST_HEADER, "logical_call_id", exclusive=False),
)

PURPOSES: Final[Mapping[str, Purpose]] = {
    "turn": Purpose.AGENT,
    "background_review": Purpose.REVIEW,
    "compression": Purpose.COMPACTION,
    "iteration_limit_summary": Purpose.SUMMARY,
    "title_generation": Purpose.TITLE,
}
"""Hermes's own words for what it asks a model for, save the first and the fourth, which are our plugin's."""

_TURN: Final = "turn"
_EVENTS: Final = "events.jsonl"
_RESPONSE_ID: Final = "response_id"


def identity_claims(executors: Executors, log: PluginLog) -> Iterator[IdentityClaim]:
    """A request that carries a session's id is that executor's, and so is an answer that it noted."""
    for executor in executors.by_key.values():
        for session in executor.sessions:
            evidence = session.place.evidence(EvidenceKind.ROLLER_HEADER, "session", session.session_id)
            yield IdentityClaim(SESSION_FIELD, session.session_id, executor.key, evidence)
    for answer in log.answers:
        owner = executors.of_session(answer.session_id)
        if owner is not None:
            evidence = answer.place.evidence(EvidenceKind.RESPONSE_ID, "response", answer.response_id)
            yield IdentityClaim(_RESPONSE_ID, answer.response_id, owner.key, evidence)


def purpose_claims(tasks: frozenset[str], hook: Place | None) -> Iterator[PurposeClaim]:
    """What the requests' own marks say. A mark that is not known here is no agent's turn either."""
    evidence = (
        hook.evidence(EvidenceKind.ROLLER_HEADER, "event", "hook")
        if hook is not None
        else Evidence(EvidenceKind.ROLLER_HEADER, _EVENTS, "line:1")
    )
    for task in sorted(tasks):
        yield PurposeClaim(TASK_FIELD, task, PURPOSES.get(task, Purpose.UNKNOWN), evidence, side_call=task != _TURN)


def coverage(executors: Executors, log: PluginLog | None) -> NativeCoverage:
    """Each request that Hermes took an answer to needs its completed call.

    Calls beside the turns (title, compaction, the summary at the limit) leave no id, so they are surplus. The
    protocol's own count is that of provider response ids, one a request (a retry's answer has another).
    """
    outputs: list[NativeOutput] = []
    with_id: dict[str, set[str]] = {}
    if log is not None:
        for request_id, output in log.outputs.items():
            owner = executors.of_session(output.session_id)
            if owner is not None:
                evidence = output.place.evidence(EvidenceKind.NATIVE_RECORD, "request", request_id)
                outputs.append(NativeOutput(owner.key, request_id, evidence))
        for answer in log.answers:
            owner = executors.of_session(answer.session_id)
            if owner is not None and answer.request_id in log.outputs:
                with_id.setdefault(owner.key, set()).add(answer.request_id)
    return NativeCoverage(
        field=REQUEST_FIELD,
        strength=CoverageStrength.PER_ID,
        outputs=tuple(outputs) if log is not None else None,
        protocol_count_name="provider_response_ids",
        protocol_count={key: len(found) for key, found in with_id.items()},
    )
