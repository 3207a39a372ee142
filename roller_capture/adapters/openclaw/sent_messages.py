"""Which message to a child brought which answer, where its sender did not wait for it.

What the child says last, or that its run failed, is then put to the sender in a run of its own (measured with
2026.9.6). The message names the child and the harness's tool that announced it, but neither the run nor the tool call
that it answers. So it is bound only where the sender's log leaves one possibility: of what was sent to that child
before, whether that is proven or not, a single message is owed an answer, each once. Neither texts nor times decide
between two.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.openclaw.announcements import ANNOUNCEMENT, Announcement
from roller_capture.adapters.openclaw.delegations import Delegation, Delegations
from roller_capture.adapters.openclaw.facts import Home, Place, Thread, ToolResult
from roller_capture.adapters.openclaw.transcript import SEND_TOOL
from roller_capture.vocabulary import AttemptErrorCode

_ANNOUNCED_BY: Final = "subagent_announce"
_USER: Final = ":user"

_ANSWERED_OR_NEVER_SENT: Final = frozenset({"ok", "error", "forbidden"})
_SENT: Final = frozenset({"accepted", "timeout"})

_Event = tuple[int, Delegation | ToolResult | Announcement]
"""A line of the sender's log, and what stands there; the tool result of a message that nothing proves was sent."""


def bind_answers(home: Home, delegations: Delegations, gaps: GapLog) -> None:
    """Gives each message that was sent without waiting what it was told by. A child of which that is not certain is
    doubtful, and the answer a gap."""
    sent = {item.result.place: item for item in delegations.all()}
    logs = {key: [_events(thread, sent) for thread in session.threads] for key, session in home.sessions.items()}
    for child in home.sessions.values():
        for parent in (logs[key] for key in child.spawned_by if key in logs and key != child.key):
            held = [events for log in parent if (events := log.get(child.key))]
            unbound = _bind(held[0]) if len(held) == 1 else next(_announced(held), None)
            place = unbound.place if unbound is not None else None
            if place is not None:
                reason = "nothing tells which message to a child an announcement answers"
                gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)
                delegations.doubtful.add(child.key)


def _events(thread: Thread, sent: Mapping[Place, Delegation]) -> dict[str, list[_Event]]:
    """What one transcript says of messages to each child and of answers to them, in its order."""
    events: dict[str, list[_Event]] = {}
    copied = {call.tool_id for answer in thread.answers if answer.is_copy for call in answer.tool_calls}
    for result in thread.results:
        message = sent.get(result.place, result)
        if result.session_key is not None and result.tool_id not in copied and _is_owed(message):
            events.setdefault(result.session_key, []).append((result.place.line, message))
    for item in thread.inputs:
        is_answer = item.source_tool == _ANNOUNCED_BY and item.key.endswith(_USER)
        if is_answer and item.source_key is not None and not item.key.startswith(ANNOUNCEMENT):
            run_id = item.key.removesuffix(_USER)
            answers = (one for one in thread.answers if one.run_id == run_id and one.response_id is not None)
            answer = Announcement(run_id, item, next(answers, None))
            events.setdefault(item.source_key, []).append((item.place.line, answer))
    return {key: sorted(found, key=lambda event: event[0]) for key, found in events.items()}


def _is_owed(message: Delegation | ToolResult) -> bool:
    """Whether an answer to a message may come by itself. One of an unknown word, or that began no run of its own (it
    was put into a running one), may be what an announcement answers, though it is no delegation."""
    if isinstance(message, Delegation):
        return message.result.owes_announcement
    unknown = message.status not in _ANSWERED_OR_NEVER_SENT | _SENT
    return message.tool_name == SEND_TOOL and (message.owes_announcement or unknown)


def _bind(events: list[_Event]) -> Announcement | None:
    """Binds what is certain. Returns the first announcement that is not; nothing behind it can be."""
    waiting: list[Delegation | ToolResult] = []
    for _, event in events:
        if not isinstance(event, Announcement):
            waiting.append(event)
            continue
        message = waiting.pop() if len(waiting) == 1 else None
        if not isinstance(message, Delegation):
            return event
        message.told = event
    return None


def _announced(held: list[list[_Event]]) -> Iterator[Announcement]:
    return (event for events in held for _, event in events if isinstance(event, Announcement))
