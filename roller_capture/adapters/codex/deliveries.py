"""How acknowledgements and results reached a thread: by the output of a tool call, or as a message of their own.

- The output of the delegating call acknowledges it (`agent_id`, path, `submission_id`); it is never a result.
- A wait's output (v1) holds the state of each child; the harness's own record of the wait has to say the same.
- A notification (v1) or a final answer (v2) is an item of the receiver's conversation, with an id of its own.

Each of them becomes a relation and a probe. What they say about the end of a delegation is kept for its judgement.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from roller_capture.adapters.codex.delegations import Delegation
from roller_capture.adapters.codex.facts import AgentState, Message, Place, Rollout, ToolCall, ToolOutput
from roller_capture.adapters.codex.record_shapes import FOLLOW_UP_TOOLS, WAIT_TOOLS, agent_states
from roller_capture.adapters.codex.threads import Threads
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    Evidence,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.vocabulary import AttemptErrorCode, BoundBy, DeliveryKind, RelationType


@dataclass(frozen=True, slots=True)
class Carrier:
    """One item that brought a child's final state to a receiver. `task_index` counts the results of one tool output
    where it brought several; `item` is what to look for in requests, `None` where no request is known to hold it."""

    receiver: Rollout
    child: Rollout
    state: AgentState
    place: Place
    evidence: Evidence
    delivery: Delivery
    item: ToolResultItem | NotificationItem | None
    task_index: int | None = None


@dataclass(slots=True)
class Deliveries:
    """Relations and probes, and the carriers of each delegation by its tool call id and parent."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    carriers: dict[tuple[str, str], list[Carrier]] = field(default_factory=dict)

    def of(self, delegation: Delegation) -> list[Carrier]:
        """What brought the result of a delegation."""
        return self.carriers.get((delegation.parent.thread_id, delegation.call.call_id), [])


class DeliveryFinder:
    """Finds the deliveries of all delegations of an attempt."""

    def __init__(self, threads: Threads, delegations: dict[str, list[Delegation]], gaps: GapLog) -> None:
        self._threads = threads
        self._delegations = delegations
        self._gaps = gaps
        self._found = Deliveries()

    def find(self) -> Deliveries:
        """All of them, acknowledgements first."""
        for delegations in self._delegations.values():
            for delegation in delegations:
                self._acknowledgement(delegation)
        for receiver in self._threads.by_id.values():
            for carrier in (*self._waits(receiver), *self._messages(receiver)):
                self._result(carrier)
        return self._found

    def _acknowledgement(self, delegation: Delegation) -> None:
        output, call = delegation.output, delegation.call
        if output is None:
            self._name_lost_output(delegation.parent, call)
            return
        if not _acknowledges(delegation, output):
            self._unproven("the output of a tool call that gave a task does not acknowledge it", output.place)
            return
        delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, call.call_id)
        evidence = (output.place.evidence("tool", call.call_id), *delegation.evidence)
        relation = _relation(RelationType.LAUNCH_ACKNOWLEDGED, delegation, evidence, delivery, outcome="launched")
        self._found.relations.append(relation)
        self._found.probes.append(ContextProbe(relation, ToolResultItem(call.call_id)))

    def _waits(self, receiver: Rollout) -> Iterator[Carrier]:
        for told in receiver.collab_calls.values():
            if told.tool in WAIT_TOOLS and told.call_id not in receiver.tool_calls:
                reason = "the harness tells of a wait of which there is no tool call"
                self._unproven(reason, told.place, *told.states)
        for call in receiver.tool_calls.values():
            output = receiver.outputs.get(call.call_id)
            if call.name not in WAIT_TOOLS or call.call_id in receiver.repeated_calls:
                continue
            if output is None:
                self._name_lost_output(receiver, call)
                continue
            states = agent_states(output.value.get("status"))
            record = receiver.collab_calls.get(call.call_id)
            if record is not None and states != dict(record.states):
                reason = "a wait's output and the harness's record of it say different things"
                self._unproven(reason, output.place, *_told_differently(states, record.states))
                continue
            final = [(thread_id, state) for thread_id, state in states.items() if state.is_final]
            for index, (thread_id, state) in enumerate(final, 1):
                child = self._threads.by_id.get(thread_id)
                if child is None:
                    reason = "a wait's output names an agent of which there is no rollout"
                    self._unproven(reason, output.place, thread_id)
                    continue
                yield Carrier(
                    receiver,
                    child,
                    state,
                    output.place,
                    output.place.evidence("tool", call.call_id),
                    Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, call.call_id),
                    ToolResultItem(call.call_id),
                    index if len(final) > 1 else None,
                )

    def _messages(self, receiver: Rollout) -> Iterator[Carrier]:
        seen: set[str] = set()
        for message in receiver.messages:
            child = self._threads.by_id.get(message.about) or self._threads.by_path(message.about, receiver)
            if child is None or not child.meta.is_subagent:
                self._unproven("a result names an agent of which there is no rollout", message.place, message.about)
            elif message.item_id in seen:
                self._threads.doubtful.add(child.thread_id)
                reason = "two results have one item id"
                self._add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, message.place)
            elif message.state.is_final:
                seen.add(message.item_id)
                yield Carrier(
                    receiver,
                    child,
                    message.state,
                    message.place,
                    message.place.evidence("item", message.item_id),
                    Delivery(_kind(message), BoundBy.ITEM_ID, message.item_id),
                    _item(message),
                )

    def _result(self, carrier: Carrier) -> None:
        delegation = self._delegation_of(carrier)
        if delegation is None:
            return
        receiver = carrier.receiver
        relation = _relation(
            RelationType.RESULT_DELIVERED,
            delegation,
            (carrier.evidence, *delegation.evidence),
            carrier.delivery,
            outcome="completed" if carrier.state.word == "completed" else "failed",
            receiver=receiver.thread_id if receiver is not delegation.parent else None,
            task_index=carrier.task_index,
        )
        self._found.relations.append(relation)
        key = (delegation.parent.thread_id, delegation.call.call_id)
        self._found.carriers.setdefault(key, []).append(carrier)
        if carrier.item is not None:
            self._found.probes.append(ContextProbe(relation, carrier.item))

    def _delegation_of(self, carrier: Carrier) -> Delegation | None:
        """The delegation whose result it is.

        A result that stands before a further task in the conversation of the thread that gave it is no result of that
        task. Among those that are left, the text has to be the answer of the turn of one of them, and of no other turn
        of the agent, be it anybody's.
        """
        delegations = self._delegations.get(carrier.child.thread_id, [])
        possible = [item for item in delegations if _precedes(item, carrier)]
        if len(possible) > 1:
            answered = [turn for turn in carrier.child.turns if turn.message == carrier.state.message]
            is_told = carrier.state.message is not None and len(answered) == 1
            possible = [item for item in possible if is_told and item.turn is answered[0]]
        if len(possible) == 1:
            return possible[0]
        if delegations:
            reason = "nothing tells which task of an agent a result belongs to"
            self._unproven(reason, carrier.place, carrier.child.thread_id)
        return None

    def _name_lost_output(self, holder: Rollout, call: ToolCall) -> None:
        """A request holds the output of each tool call before it: behind the usage of the call's own response there
        can be another one only where the output was recorded."""
        if len(holder.usages) > 1 and holder.usages[-2].place.line > call.place.line:
            self._unproven("a rollout that goes on does not hold the output of a tool call about agents", call.place)

    def _unproven(self, reason: str, place: Place, *agents: str) -> None:
        self._threads.doubtful.update(agents)
        self._add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, place)

    def _add(self, code: AttemptErrorCode, reason: str, place: Place) -> None:
        self._gaps.add(code, reason, source=place.source, line=place.line)


def _told_differently(some: Mapping[str, AgentState], others: Mapping[str, AgentState]) -> set[str]:
    """The agents of which two records of one wait do not say the same."""
    return {thread_id for thread_id in some.keys() | others.keys() if some.get(thread_id) != others.get(thread_id)}


def _acknowledges(delegation: Delegation, output: ToolOutput) -> bool:
    """Whether the output says that the task was taken on. A further task of v2 is confirmed by the harness's record of
    it alone, and returns nothing."""
    if delegation.call.name in FOLLOW_UP_TOOLS:
        return delegation.submission is not None or bool(delegation.evidence)
    return as_id(output.value.get("agent_id")) is not None or as_id(output.value.get("task_name")) is not None


def _precedes(delegation: Delegation, carrier: Carrier) -> bool:
    same_log = delegation.call.place.source == carrier.place.source
    return not same_log or delegation.call.place.line < carrier.place.line


def _kind(message: Message) -> DeliveryKind:
    return DeliveryKind.MESSAGE if message.about.startswith("/") else DeliveryKind.NOTIFICATION


def _item(message: Message) -> NotificationItem:
    return NotificationItem((message.text,), item_id=message.item_id)


def _relation(
    kind: RelationType,
    delegation: Delegation,
    evidence: Iterable[Evidence],
    delivery: Delivery,
    *,
    outcome: str,
    receiver: str | None = None,
    task_index: int | None = None,
) -> NativeRelation:
    return NativeRelation(
        kind,
        delegation.parent.thread_id,
        delegation.child.thread_id,
        delegation.call.call_id,
        tuple(dict.fromkeys(evidence)),
        receiver_key=receiver,
        delegation=delegation.number,
        task_index=task_index,
        delivery=delivery,
        outcome=outcome,
    )
