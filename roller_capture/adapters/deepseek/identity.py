"""Which call belongs to which session, and what it was for: the closed list of fields, and what each may prove.

DeepSeek Harness sends the id of the executing session with every call to its own provider, in a header and in the body.
Through its other providers, Responses requests carry the same id and Chat Completions requests carry no identity at
all; but there the session log keeps the provider's response ids, which its records of the harness's own provider lack.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from roller_capture.adapters.deepseek.facts import Output, Place, Session
from roller_capture.capture_protocol import (
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

SESSION_HEADER: Final = "x-deepseek-harness-session-id"
RESPONSES_SESSION_HEADER: Final = "session_id"
COMPACTION_HEADER: Final = "x-deepseek-harness-compact"

_HEADERS: Final = (f"header:{SESSION_HEADER}", f"header:{RESPONSES_SESSION_HEADER}")
_BODY_FIELDS: Final = ("context:/dsh_session_log/session/id", "context:/prompt_cache_key")
_SYSTEM_FIELDS: Final = (
    "context:/system",
    "context:/instructions",
    "context:/messages/0/content",
    "context:/input/0/content",
    "context:/input/0/content/0/text",
)
"""Where the system prompt stands: Messages; Responses, Chat Completions and both of them as a message."""

IDENTITY_FIELDS: Final = (
    NativeIdentityField(SESSION_HEADER, "session_id", exclusive=True),
    NativeIdentityField(RESPONSES_SESSION_HEADER, "session_id", exclusive=True),
)


def identity_claims(
    participants: Mapping[str, Place], sessions: Mapping[str, Session], sent: frozenset[str]
) -> Iterator[IdentityClaim]:
    """The session ids, wherever a request carries them, and the provider's response ids where a log has them.

    `participants` maps session ids to the records that prove them. `sent` are the headers that this attempt's requests
    had: one that a protocol lacks is no mark that its calls should carry.
    """
    for session, output in _outputs(sessions):
        if output.response_id is not None:
            evidence = output.place.evidence("response", output.response_id, EvidenceKind.RESPONSE_ID)
            yield IdentityClaim("response_id", output.response_id, session.session_id, evidence)
    for session_id, place in participants.items():
        for field in (field for field in _HEADERS if field.removeprefix("header:") in sent):
            evidence = place.evidence("session", session_id, EvidenceKind.NATIVE_HEADER)
            yield IdentityClaim(field, session_id, session_id, evidence)
        for field in _BODY_FIELDS:
            evidence = place.evidence("session", session_id, EvidenceKind.REQUEST_CONTEXT)
            yield IdentityClaim(field, session_id, session_id, evidence)


def purpose_claims(sessions: Mapping[str, Session]) -> Iterator[PurposeClaim]:
    """Compaction by the harness's own header; agent and title by the system prompts that its records hold.

    A prompt that stands in records of both kinds tells nothing.
    """
    places = [place for session in sessions.values() for place in (*session.compactions, session.header)]
    if places:
        evidence = places[0].evidence("type", None)
        yield PurposeClaim(f"header:{COMPACTION_HEADER}", "1", Purpose.COMPACTION, evidence, side_call=True)
    titles = _first_places(session.title_systems for session in sessions.values())
    agents = _first_places(session.system_texts for session in sessions.values())
    for text, place in titles.items():
        if text not in agents:
            for field in _SYSTEM_FIELDS:
                yield PurposeClaim(field, text, Purpose.TITLE, place.evidence("type", None), side_call=True)
    for text, place in agents.items():
        if text not in titles:
            for field in _SYSTEM_FIELDS:
                yield PurposeClaim(field, text, Purpose.AGENT, place.evidence("type", None))


def _outputs(sessions: Mapping[str, Session]) -> Iterator[tuple[Session, Output]]:
    return ((session, output) for session in sessions.values() for output in session.outputs)


def _first_places(many: Iterator[dict[str, Place]]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for texts in many:
        for text, place in texts.items():
            found.setdefault(text, place)
    return found


def coverage(sessions: Mapping[str, Session], *, any_read: bool) -> NativeCoverage:
    """Completed model calls: by the provider's response ids where the logs have them; else counted per session
    (protocol: number of completed assistants), with those for titles and compactions, which the session's calls are
    counted with."""
    outputs = [
        NativeOutput(session.session_id, output.response_id, output.place.evidence("message", output.message_id))
        for session, output in _outputs(sessions)
    ]
    has_ids = bool(outputs) and all(output.output_id is not None for output in outputs)
    if not has_ids:
        outputs += [
            NativeOutput(session.session_id, None, place.evidence("message", None))
            for session in sessions.values()
            for place in session.side_outputs
        ]
    return NativeCoverage(
        field="response_id" if has_ids else _HEADERS[0],
        strength=CoverageStrength.PER_ID if has_ids else CoverageStrength.COUNT,
        outputs=tuple(outputs) if any_read else None,
        protocol_count_name="completed_assistants",
        protocol_count={session.session_id: len(session.outputs) for session in sessions.values()},
    )
