"""Which message to a child brought which answer, where its sender did not wait for it.

What the child says last, or that its run failed, is then put to the sender in a run of its own (measured with
2026.9.6). The message names the child and the harness's tool that announced it, but neither the run nor the tool call
that it answers. So it is bound only where the sender's log leaves one possibility: of what was sent to that child
before, a single message is owed an answer, each once. Neither texts nor times decide between two.
"""

from collections.abc import Iterator
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.openclaw.announcements import ANNOUNCEMENT, Announcement
from roller_capture.adapters.openclaw.delegations import Delegation, Delegations
from roller_capture.adapters.openclaw.facts import Home, Session, Thread
from roller_capture.vocabulary import AttemptErrorCode

_ANNOUNCED_BY: Final = "subagent_announce"
_USER: Final = ":user"

_Event = tuple[int, Delegation | Announcement]
"""A line of the sender's log, and what stands there."""


def bind_answers(home: Home, delegations: Delegations, gaps: GapLog) -> None:
    """Gives each message that was sent without waiting what it was told by. A child of which that is not certain is
    doubtful, and the answer a gap."""
    for child in home.sessions.values():
        sent = [item for item in delegations.of_child.get(child.key, ()) if item.result.owes_announcement]
        for parent in (home.sessions[key] for key in child.spawned_by if key in home.sessions and key != child.key):
            held = [events for thread in parent.threads if (events := _events(thread, child, sent))]
            unbound = _bind(held[0]) if len(held) == 1 else next(_announced(held), None)
            place = unbound.place if unbound is not None else None
            if place is not None:
                reason = "nothing tells which message to a child an announcement answers"
                gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=place.source, line=place.line)
                delegations.doubtful.add(child.key)


def _events(thread: Thread, child: Session, sent: list[Delegation]) -> list[_Event]:
    """What one transcript says of messages to a child and of answers to them, in its order."""
    own = {result.place for result in thread.results}
    events: list[_Event] = [(item.result.place.line, item) for item in sent if item.result.place in own]
    for item in thread.inputs:
        is_answer = item.source_tool == _ANNOUNCED_BY and item.source_key == child.key and item.key.endswith(_USER)
        if is_answer and not item.key.startswith(ANNOUNCEMENT):
            run_id = item.key.removesuffix(_USER)
            answers = (one for one in thread.answers if one.run_id == run_id and one.response_id is not None)
            events.append((item.place.line, Announcement(run_id, item, next(answers, None))))
    return sorted(events, key=lambda event: event[0])


def _bind(events: list[_Event]) -> Announcement | None:
    """Binds what is certain. Returns the first announcement that is not; nothing behind it can be."""
    waiting: list[Delegation] = []
    for _, event in events:
        if isinstance(event, Delegation):
            waiting.append(event)
        elif len(waiting) == 1:
            waiting.pop().told = event
        else:
            return event
    return None


def _announced(held: list[list[_Event]]) -> Iterator[Announcement]:
    return (event for events in held for _, event in events if isinstance(event, Announcement))
