"""Which calls belong to whom, and which calls must exist: identity claims, purposes and coverage.

The closed list of identity fields (measured with 1.18.33): our hook's session and message ids, OpenCode's own session
headers, and the session id that it puts into Responses bodies. `x-parent-session-id` names the parent, and proves
nothing here; `x-session-affinity` repeats the session id.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from roller_capture.adapters.opencode.facts import Log, Message
from roller_capture.adapters.opencode.record_shapes import TASK
from roller_capture.capture_protocol import (
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

HOOK_SESSION: Final = "x-roller-session-id"
HOOK_MESSAGE: Final = "x-roller-message-id"
HOOK_AGENT: Final = "x-roller-agent"
NATIVE_SESSION: Final = "x-session-id"
PARENT_SESSION: Final = "x-parent-session-id"
PROVIDER_SESSION: Final = "x-opencode-session"
"""In place of `x-session-id`, for providers whose name begins with `opencode`."""

SESSION_HEADERS: Final = (HOOK_SESSION, NATIVE_SESSION, PROVIDER_SESSION)

IDENTITY_FIELDS: Final = (
    # Not exclusive: a call without the hook's header still has its owner by the native one.
    NativeIdentityField(HOOK_SESSION, "session_id", exclusive=False),
    NativeIdentityField(NATIVE_SESSION, "session_id", exclusive=True),
    NativeIdentityField(PROVIDER_SESSION, "session_id", exclusive=True),
    NativeIdentityField(PARENT_SESSION, "parent_session_id", exclusive=False),
    NativeIdentityField(HOOK_MESSAGE, "message_id", exclusive=False),
)

_CACHE_KEY: Final = "context:/prompt_cache_key"
_TITLE_AGENT: Final = "title"


def identity_claims(log: Log) -> Iterator[IdentityClaim]:
    """The hook's session id first, which the protocol names; then what must agree with it."""
    fields = (
        (f"header:{HOOK_SESSION}", EvidenceKind.ROLLER_HEADER),
        (f"header:{NATIVE_SESSION}", EvidenceKind.NATIVE_HEADER),
        (f"header:{PROVIDER_SESSION}", EvidenceKind.NATIVE_HEADER),
        (_CACHE_KEY, EvidenceKind.REQUEST_CONTEXT),
    )
    for field, kind in fields:
        for session in log.sessions.values():
            evidence = session.place.evidence("session", session.identifier, kind)
            yield IdentityClaim(field, session.identifier, session.identifier, evidence)
    for message in log.messages.values():
        if message.role == "assistant":
            evidence = message.place.evidence("message", message.identifier, EvidenceKind.ROLLER_HEADER)
            yield IdentityClaim(f"header:{HOOK_MESSAGE}", message.identifier, message.session_id, evidence)


def purpose_claims(log: Log) -> Iterator[PurposeClaim]:
    """Titles by the agent that the harness says it asks for them, which leave no message; the others by the message
    that holds the answer, which says itself whether it is a summary."""
    for session in tuple(log.sessions.values())[:1]:
        evidence = session.place.evidence("session", session.identifier)
        yield PurposeClaim(f"header:{HOOK_AGENT}", _TITLE_AGENT, Purpose.TITLE, evidence, side_call=True)
    for message in log.messages.values():
        if message.role == "assistant":
            purpose = Purpose.COMPACTION if message.is_compaction else Purpose.AGENT
            evidence = message.place.evidence("message", message.identifier)
            yield PurposeClaim(
                f"header:{HOOK_MESSAGE}",
                message.identifier,
                purpose,
                evidence,
                side_call=purpose is not Purpose.AGENT,
            )


def coverage(log: Log, seen: Mapping[str, frozenset[str]]) -> NativeCoverage:
    """Every assistant message that holds a finished model answer needs its call, by the id that our hook sends.

    Without the hook the answers are counted, session by session. The protocol's count is that of completed assistants:
    it also counts the message that a subtask command makes without a model call. Nothing is known where a message does
    not tell whether it is an answer, or where calls name a message that the log does not hold.
    """
    messages = log.messages.values()
    outputs = tuple(
        NativeOutput(message.session_id, message.identifier, message.place.evidence("message", message.identifier))
        for message in messages
        if _is_answer(message, log)
    )
    unknown = not log.sessions or lost_messages(log, seen) or any(_is_unclear(message) for message in messages)
    by_id = bool(seen.get(HOOK_MESSAGE))
    return NativeCoverage(
        field=f"header:{HOOK_MESSAGE}" if by_id else f"header:{NATIVE_SESSION}",
        strength=CoverageStrength.PER_ID if by_id else CoverageStrength.COUNT,
        outputs=None if unknown else outputs,
        protocol_count_name="completed_assistants",
        protocol_count=_completed(messages),
    )


def lost_messages(log: Log, seen: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The messages that calls name and a log does not hold, which has the row of each answer before its call is made:
    the copy is older than the calls, or rows are missing."""
    return seen.get(HOOK_MESSAGE, frozenset()) - log.messages.keys()


def _is_answer(message: Message, log: Log) -> bool:
    """A finished step, or else the end of the whole message, which is no answer where a command made the message."""
    return bool(message.finished_steps) or (message.is_completed_assistant and not _is_by_command(message, log))


def _is_by_command(message: Message, log: Log) -> bool:
    """Measured with 1.18.33: the message that holds the call of a subtask command has no steps and no tokens. Each of
    these marks is needed, since the answer to such a command may have the same parent."""
    parent = log.messages.get(message.parent_id or "")
    return (
        parent is not None
        and parent.is_command
        and not message.begun_steps
        and not message.used_tokens
        and [call.name for call in message.tools] == [TASK]
    )


def _is_unclear(message: Message) -> bool:
    """Words without a step that began: so this log does not tell steps, and the message tells no end either."""
    tells = message.begun_steps or message.finished_steps or message.is_completed_assistant or message.error
    return message.role == "assistant" and message.has_words and not tells


def _completed(messages: Iterable[Message]) -> Mapping[str, int]:
    return Counter(message.session_id for message in messages if message.is_completed_assistant)
