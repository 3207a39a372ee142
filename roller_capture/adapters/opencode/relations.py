"""What became of each delegation: the native relations, where to look for results in requests, and the children's ends.

The rules are the table "Relations and their proof" of docs/harnesses/opencode.md.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.opencode.ends import End, end_of
from roller_capture.adapters.opencode.facts import EndState, Log, Message, Notice, Result, Session
from roller_capture.adapters.opencode.family import Delegation, Family
from roller_capture.adapters.opencode.places import Place
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    Evidence,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.vocabulary import (
    AttemptErrorCode,
    BoundBy,
    DeliveryKind,
    ExecutionStatus,
    LifecycleStatus,
    RelationType,
)

USER_MESSAGE_HEADERS: Final = ("x-roller-user-message-id", *(f"x-roller-user-message-id-{n}" for n in range(2, 10)))
"""Our hook's headers with the ids of the user messages that a call is the first to answer: for an automatic message its
own id. The first has the newest; further ones are there where several came while their session was at work."""

_STATES: Final = {"completed": "completed", "error": "error"}
_TOLD: Final = frozenset({Result.LAUNCHED, Result.COMPLETED, Result.FAILED})
"""What a tool call's record says of a child whose end its parent was told, or is to be told."""


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """What is published of a child."""

    execution_status: ExecutionStatus
    lifecycle: LifecycleStatus


@dataclass(slots=True)
class NativeRelations:
    """Everything that was proven."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    outcomes: dict[str, ChildOutcome] = field(default_factory=dict)


@dataclass(slots=True)
class _Said:
    """What the parent's records say of one delegation: its end, and whether that reached the parent."""

    end: EndState | None = None
    word: str | None = None
    evidence: list[Evidence] = field(default_factory=list)
    settled: bool = False


class RelationFinder:
    """Goes through the delegations of one log. `seen` are the header values that the attempt's requests had."""

    def __init__(self, log: Log, family: Family, seen: Mapping[str, frozenset[str]], gaps: GapLog) -> None:
        self._family = family
        self._seen = seen
        self._gaps = gaps
        self._found = NativeRelations()
        self._contested: set[Place] = set()
        """The tool calls whose child's end an automatic message speaks of that cannot be believed."""
        self._order = {
            message.identifier: number
            for session in log.sessions.values()
            for number, message in enumerate(session.messages)
        }
        self._log = log

    def find(self) -> NativeRelations:
        """All relations, and one outcome for each child."""
        notices = self._notices()
        for child_id, delegations in self._family.of_child.items():
            told = self._told(delegations, notices.pop(child_id, []))
            said = [self._delegation(item, told.get(item.number)) for item in delegations]
            self._found.outcomes[child_id] = self._outcome(delegations[-1].child, said)
        for strange in notices.values():
            for _, notice in strange:
                self._unproven("an automatic message names a child that no tool call launched", notice.place)
        return self._found

    def _notices(self) -> dict[str, list[tuple[Message, Notice]]]:
        found: dict[str, list[tuple[Message, Notice]]] = defaultdict(list)
        for session in self._log.sessions.values():
            for message in session.messages:
                for notice in message.notices:
                    found[notice.child_id].append((message, notice))
        return found

    def _told(
        self, delegations: list[Delegation], notices: list[tuple[Message, Notice]]
    ) -> dict[int, tuple[Message, Notice]]:
        """Which automatic message tells the end of which launch.

        The message names the child alone. It can only be about a launch that stands before it in the same session and
        that no earlier message was about; where more than one such launch is left, it proves nothing. Where none is
        left, it speaks of an end that was told already, and neither message is believed.
        """
        told: dict[int, tuple[Message, Notice]] = {}
        for message, notice in notices:
            before = [item for item in delegations if item.call.result in _TOLD and self._is_before(item, message)]
            launches = [item for item in before if item.call.result is Result.LAUNCHED]
            open_launches = [
                item for item in launches if item.number not in told and item.call.place not in self._contested
            ]
            if len(open_launches) == 1 and notice.state in _STATES:
                told[open_launches[0].number] = (message, notice)
                continue
            reason = "an automatic message cannot be tied to one launch of its child, or gives no known state"
            self._unproven(reason, notice.place)
            self._family.doubtful.add(notice.child_id)
            if len(open_launches) < 2:
                self._contested |= {item.call.place for item in open_launches or launches or before}
        contested = {item.number for item in delegations if item.call.place in self._contested}
        return {number: told[number] for number in told.keys() - contested}

    def _is_before(self, item: Delegation, message: Message) -> bool:
        return (
            item.parent.identifier == message.session_id
            and self._order[item.message.identifier] < self._order[message.identifier]
        )

    def _delegation(self, item: Delegation, told: tuple[Message, Notice] | None) -> _Said:
        said = _Said()
        proof = [
            item.call.place.evidence("tool", item.call.call_id),
            item.child.place.evidence("session", item.child.identifier),
        ]
        self._relate(RelationType.SPAWN, item, proof)
        result = item.call.result
        if result is Result.LAUNCHED:
            relation = self._relate(RelationType.LAUNCH_ACKNOWLEDGED, item, proof, _by_tool(item), outcome="running")
            self._probe_result(item, relation)
            if told is not None:
                self._notified(item, proof, *told, said)
        elif result in (Result.COMPLETED, Result.FAILED):
            outcome = "completed" if result is Result.COMPLETED else "error"
            relation = self._relate(RelationType.RESULT_DELIVERED, item, proof, _by_tool(item), outcome=outcome)
            self._probe_result(item, relation)
            said = _Said(EndState.ENDED if result is Result.COMPLETED else EndState.FAILED, outcome, proof[:1], True)
        self._end(item, said)
        return said

    def _notified(self, item: Delegation, proof: list[Evidence], message: Message, notice: Notice, said: _Said) -> None:
        """A background result. It reached the parent when an answer of the parent follows the message."""
        evidence = notice.place.evidence("session", notice.child_id)
        said.end = EndState.ENDED if notice.state == "completed" else EndState.FAILED
        said.word = notice.state
        said.evidence = [evidence]
        later = item.parent.messages[self._order[message.identifier] + 1 :]
        if not any(one.role == "assistant" and one.begun_steps for one in later):
            return
        said.settled = True
        delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.MESSAGE_ID, message.identifier)
        carried = [evidence, message.place.evidence("message", message.identifier)]
        relation = self._relate(
            RelationType.RESULT_DELIVERED, item, [*carried, *proof], delivery, outcome=_STATES[str(notice.state)]
        )
        sent_in = next(
            (name for name in USER_MESSAGE_HEADERS if message.identifier in self._seen.get(name, ())),
            USER_MESSAGE_HEADERS[0],
        )
        probe = NotificationItem((notice.text,), message.identifier, f"header:{sent_in}")
        self._found.probes.append(ContextProbe(relation, probe))

    def _end(self, item: Delegation, said: _Said) -> None:
        """`child_completed` or `child_failed`: by the parent's records, and by the child's own where it was launched
        once. The two must agree; alone, either is enough, unless automatic messages contradict each other."""
        if item.call.place in self._contested:
            return
        own = end_of(item.child) if len(self._family.of_child[item.child.identifier]) == 1 else None
        evidence = list(said.evidence)
        state, word = said.end, said.word
        if own is not None and _differ(own, state):
            self._unproven("a child's own record of its end and its parent's differ", item.call.place)
            self._family.doubtful.add(item.child.identifier)
            return
        if own is not None and own.state in (EndState.ENDED, EndState.FAILED):
            state, word = own.state, own.word
            evidence.append(own.message.place.evidence("message", own.message.identifier))
        if state is EndState.ENDED:
            self._relate(RelationType.CHILD_COMPLETED, item, evidence, outcome=word)
        elif state is EndState.FAILED:
            self._relate(RelationType.CHILD_FAILED, item, evidence, outcome=word)

    def _outcome(self, child: Session, said: list[_Said]) -> ChildOutcome:
        own = end_of(child)
        status = own.execution_status if own is not None else ExecutionStatus.INTERRUPTED
        if child.identifier in self._family.doubtful:
            return ChildOutcome(status, LifecycleStatus.UNKNOWN)
        settled = all(item.settled for item in said)
        return ChildOutcome(status, LifecycleStatus.COMPLETE if settled else LifecycleStatus.PENDING)

    def _probe_result(self, item: Delegation, relation: NativeRelation) -> None:
        """Requests hold the result under the tool id, unless that stands for two calls, or the result was cleared."""
        if item.call.cleared:
            self._unproven("a result was taken out of the context later", item.call.place)
        elif item.unique_id:
            self._found.probes.append(ContextProbe(relation, ToolResultItem(item.call.call_id)))

    def _relate(
        self,
        kind: RelationType,
        item: Delegation,
        evidence: list[Evidence],
        delivery: Delivery | None = None,
        *,
        outcome: str | None = None,
    ) -> NativeRelation:
        relation = NativeRelation(
            kind,
            item.parent.identifier,
            item.child.identifier,
            item.call.call_id,
            tuple(evidence),
            delegation=item.number,
            delivery=delivery,
            outcome=outcome,
        )
        self._found.relations.append(relation)
        return relation

    def _unproven(self, reason: str, place: Place) -> None:
        place.note(self._gaps, AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)


def _differ(own: End, told: EndState | None) -> bool:
    """Whether a child's own last message speaks against what its parent was told. One that just stops cannot have ended
    well; but a child that was stopped may well be told to have failed, and a summary may be a session's last word."""
    if own.state in (EndState.ENDED, EndState.FAILED):
        return told not in (None, own.state)
    return told is EndState.ENDED and not own.message.is_compaction


def _by_tool(item: Delegation) -> Delivery:
    return Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, item.call.call_id)
