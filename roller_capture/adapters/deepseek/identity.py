"""Which call belongs to which session, and what it was for: the closed list of fields, and what each may prove.

DeepSeek Harness sends the id of the executing session with every call to its own provider, in a header and in the body.
Through its other providers, Responses requests carry the same id and Chat Completions requests carry no identity at
all; but there the session log keeps the provider's response ids, which its records of the harness's own provider lack.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from roller_capture.adapters.deepseek.facts import Output, Place, Session, SideOutput
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

_RESPONSE_ID: Final = "response_id"
_REQUEST_EVENTS: Final = "context:/dsh_session_log/throughSeq"
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
            yield IdentityClaim(_RESPONSE_ID, output.response_id, session.session_id, evidence)
    for session_id, place in participants.items():
        for field in (field for field in _HEADERS if field.removeprefix("header:") in sent):
            evidence = place.evidence("session", session_id, EvidenceKind.NATIVE_HEADER)
            yield IdentityClaim(field, session_id, session_id, evidence)
        for field in _BODY_FIELDS:
            evidence = place.evidence("session", session_id, EvidenceKind.REQUEST_CONTEXT)
            yield IdentityClaim(field, session_id, session_id, evidence)


def purpose_claims(sessions: Mapping[str, Session]) -> Iterator[PurposeClaim]:
    """Compaction by the harness's own header; agent and title by the system prompts that its records hold.

    A prompt that stands in records of both kinds tells nothing. Only the harness's own provider sends that header, and
    a compaction has its agent's prompt: where another provider answered in a run that compacted, what was an agent's
    turn is told by the response ids of its answers, and of what has none nobody knows.
    """
    places = [place for session in sessions.values() for place in (*session.compactions, session.header)]
    if places:
        evidence = places[0].evidence("type", None)
        yield PurposeClaim(f"header:{COMPACTION_HEADER}", "1", Purpose.COMPACTION, evidence, side_call=True)
    titles = _first_places(session.title_systems for session in sessions.values())
    agents = _first_places(session.system_texts for session in sessions.values())
    answers = [output for _, output in _outputs(sessions) if output.response_id is not None]
    unmarked = bool(answers) and any(session.compactions for session in sessions.values())
    for text, place in titles.items():
        if text not in agents:
            for field in _SYSTEM_FIELDS:
                yield PurposeClaim(field, text, Purpose.TITLE, place.evidence("type", None), side_call=True)
    for output in answers if unmarked else ():
        evidence = output.place.evidence("response", output.response_id, EvidenceKind.RESPONSE_ID)
        yield PurposeClaim(_RESPONSE_ID, str(output.response_id), Purpose.AGENT, evidence)
    for text, place in agents.items():
        if text not in titles and not unmarked:
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
    """Completed model calls, by the strongest key that all of them have: the provider's response id; else the last
    event that a request brought along, which the provider's acceptance of it names in the log; else a count per session
    (protocol: number of completed assistants).

    Calls for titles and compactions, of which a log keeps no response id, are outputs in the two latter: the session's
    calls are counted with them, and a title is asked for beside an answer, with the same events.
    """
    answers = list(_outputs(sessions))
    sides = [(session, side) for session in sessions.values() for side in session.side_outputs]
    numbers = {item.request_seq for _, item in answers} | {item.request_seq for _, item in sides}
    key, strength, within = _HEADERS[0], CoverageStrength.COUNT, False
    if answers and all(output.response_id is not None for _, output in answers):
        key, strength, sides = _RESPONSE_ID, CoverageStrength.PER_ID, []
    elif any_read and None not in numbers:
        key, strength, within = _REQUEST_EVENTS, CoverageStrength.PER_ID, True

    def identifier(output: Output | SideOutput) -> str | None:
        if key == _RESPONSE_ID:
            return output.response_id if isinstance(output, Output) else None
        return str(output.request_seq) if within else None

    outputs = [
        *(_native(session, output, identifier(output), output.message_id) for session, output in answers),
        *(_native(session, side, identifier(side), None) for session, side in sides),
    ]
    return NativeCoverage(
        field=key,
        strength=strength,
        outputs=tuple(outputs) if any_read else None,
        protocol_count_name="completed_assistants",
        protocol_count={session.session_id: len(session.outputs) for session in sessions.values()},
        within_participant=within,
    )


def _native(
    session: Session, output: Output | SideOutput, identifier: str | None, message_id: str | None
) -> NativeOutput:
    return NativeOutput(session.session_id, identifier, output.place.evidence("message", message_id))
