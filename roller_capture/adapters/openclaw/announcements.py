"""How a child's end is told to its requester: runs and messages whose own ids name the child's run.

Forms (measured with 2026.9.6; KEY is the child's session key, RUN its run id in the registry):

    announce:v1:KEY:RUN                                  a run of its own, of a requester that had ended its turn
    announce:requester-settle:AGENT:REQUESTER:RUN[,RUN…][:yield-N][:retry-N]    one run for all children of a batch
    either, with :active-wake behind it                  a message put into the turn that is running
    a plain id, and the message names the child          the answer to a message that was sent without waiting

RUN can be such an id itself, of a child that had yielded and was woken: it holds colons and commas, so an id is never
taken apart. It is searched for as a whole, behind the requester's own key. The last form names no run: see
`sent_messages`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from roller_capture.adapters.openclaw.facts import Answer, ChildRun, Input, Place, Session, Thread

_USER: Final = ":user"
_ACTIVE: Final = ":active-wake"
ANNOUNCEMENT: Final = "announce:"
"""How each of their ids begins."""
_REST: Final = re.compile(r"(?:,.+)?(?::yield-\d+)?(?::retry-\d+)?(?::active-wake)?", re.DOTALL)
_AGENT: Final = re.compile(r"announce:requester-settle:[^:]*:")
_MARKERS: Final = re.compile(r"<<<(?:BEGIN|END)_OPENCLAW_INTERNAL_CONTEXT>>>")
_UNSAFE: Final = re.compile(r"[<>\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""Characters at which a result's text can differ from what stands in a message: escaped, dropped, or a line's end."""
_HEAD: Final = "[Inter-session message] "
_ROUTED: Final = _HEAD + "sourceSession={} "
_LONGEST_FRAGMENT: Final = 400


@dataclass(frozen=True, slots=True)
class Announcement:
    """One announcement in a requester's log. `input` is its message where the log has it; `answer` the first answer."""

    announcement_id: str
    input: Input | None
    answer: Answer | None

    @property
    def is_active_wake(self) -> bool:
        """Put into a running turn, and so without a run of its own."""
        return self.announcement_id.endswith(_ACTIVE)

    @property
    def place(self) -> Place | None:
        """Where the log has it."""
        known = self.input or self.answer
        return known.place if known is not None else None

    def names(self, run: ChildRun) -> bool:
        """Whether the id holds the run as a whole."""
        return any(_names(self.announcement_id, run, run_id) for run_id in {run.run_id, run.task_run_id})

    def is_short_for(self, ids: Iterable[str]) -> bool:
        """Whether its id is one of these, shortened as the harness shortens long ones in its answers (measured)."""
        start, mark, end = self.announcement_id.partition("\N{HORIZONTAL ELLIPSIS}")
        return bool(mark) and any(one.startswith(start) and one.endswith(end) and mark not in one for one in ids)

    def texts(self, run: ChildRun | None) -> tuple[str, ...]:
        """What must stand in the request's message: its native text, or where the log lacks it the child's session key
        as such messages give it, and a piece of its result."""
        if self.input is not None:
            return _pieces(self.input)
        if run is None:
            return ()
        fragment = _fragment(run.result_text or "")
        heading = f"session_key: {run.child_key}\nsession_id: "
        return (heading, fragment) if fragment else (heading,)

    @property
    def later_texts(self) -> tuple[str, ...]:
        """What must stand in requests of later runs: there the message begins with the session that it came from
        instead of the time (measured). One that the log lacks is in none of them."""
        if self.input is None or self.input.source_key is None:
            return ()
        return (_ROUTED.format(self.input.source_key), *_pieces(self.input))


def announcements(requester: Session) -> Iterator[Announcement]:
    """All announcements in a requester's log, each once."""
    for thread in requester.threads:
        inputs = {run_id: item for item in thread.inputs if (run_id := _announcement_id(item.key)) is not None}
        answers: dict[str, Answer] = {}
        for one in thread.answers:
            if one.run_id is not None and one.run_id.startswith(ANNOUNCEMENT) and one.response_id is not None:
                answers.setdefault(one.run_id, one)
        for run_id in dict.fromkeys((*inputs, *answers)):
            item = inputs.get(run_id)
            woken = item is not None and run_id.endswith(_ACTIVE)
            answer = _answer_to(thread, item) if item is not None and woken else answers.get(run_id)
            yield Announcement(run_id, item, answer)


def _announcement_id(key: str) -> str | None:
    if not key.startswith(ANNOUNCEMENT):
        return None
    if key.endswith(_ACTIVE):
        return key
    return key.removesuffix(_USER) if key.endswith(_USER) else None


def _answer_to(thread: Thread, item: Input) -> Answer | None:
    """The first answer of which the message is a predecessor, along the chain of entries."""
    if item.entry_id is None:
        return None
    descendants = {item.entry_id}
    for entry_id, parent_id in thread.parents.items():  # in the order of the log: a predecessor stands before
        if parent_id in descendants:
            descendants.add(entry_id)
    answers = (answer for answer in thread.answers if answer.response_id is not None)
    return next((answer for answer in answers if answer.entry_id in descendants), None)


def _names(announcement_id: str, run: ChildRun, run_id: str) -> bool:
    single = f"announce:v1:{run.child_key}:{run_id}"
    if announcement_id in (single, single + _ACTIVE):
        return True
    agent = _AGENT.match(announcement_id)
    if agent is None or not announcement_id.startswith(f"{run.requester_key}:", agent.end()):
        return False
    batch = announcement_id[agent.end() + len(run.requester_key) + 1 :]
    start = batch.find(run_id)
    while start >= 0:
        whole = start == 0 or batch[start - 1] == ","
        if whole and _REST.fullmatch(batch, start + len(run_id)):
            return True
        start = batch.find(run_id, start + 1)
    return False


def _pieces(item: Input) -> tuple[str, ...]:
    text = item.text
    if text.startswith(_HEAD):  # two lines of the harness's own, which the first request has elsewhere (measured)
        text = text.partition("\n")[2].partition("\n")[2]
    return tuple(part for piece in _MARKERS.split(text) if (part := piece.strip()))


def _fragment(text: str) -> str:
    pieces = [piece.strip() for piece in _UNSAFE.split(text)]
    return max(pieces, key=len, default="")[:_LONGEST_FRAGMENT].strip()
