"""How results and acknowledgements reached a receiver: by tool result, by notification, or fetched by another tool.

Each becomes a native relation with a context probe; what it says about the end of the delegation is noted for the
judgement of the child's end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from roller_capture.adapters.claude_code.delegations import Delegation
from roller_capture.adapters.claude_code.executors import Executor, Executors
from roller_capture.adapters.claude_code.facts import Notification, Place, ResultKind, ToolResult, ToolUse
from roller_capture.adapters.claude_code.record_shapes import RETRIEVAL_TOOLS
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    Evidence,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.vocabulary import AttemptErrorCode, BoundBy, DeliveryKind, RelationType

_FINAL_STATUSES: Final = frozenset({"completed", "failed"})
_STOPPED_STATUSES: Final = frozenset({"killed", "stopped"})


@dataclass(slots=True)
class Statements:
    """What the harness said about the end of one delegation, where, and whether its result reached a receiver."""

    completed: list[Evidence] = field(default_factory=list)
    failed: list[Evidence] = field(default_factory=list)
    settled: bool = False
    results: int = 0
    """Of how many ends it was said, whether or not that reached anybody."""
    lost: bool = False
    """The harness took the notification out of its queue, and no log tells who got it."""


class DeliveryFinder:
    """Finds the deliveries of each delegation. `relations` and `probes` grow as it is asked."""

    def __init__(self, executors: Executors, gaps: GapLog) -> None:
        self.relations: list[NativeRelation] = []
        self.probes: list[ContextProbe] = []
        self._gaps = gaps
        self._last_output: dict[tuple[str, str], int] = {}
        self._notifications: dict[tuple[str, str], dict[str | None, list[tuple[Executor, Notification]]]] = {}
        self._retrieved: dict[tuple[str, str], list[tuple[Executor, ToolResult]]] = {}
        self._fetches: dict[tuple[str, str], list[tuple[Executor, ToolUse]]] = {}
        for executor in executors.by_key.values():
            for output in executor.thread.outputs.values():
                place = (executor.key, output.place.source)
                self._last_output[place] = max(self._last_output.get(place, 0), output.place.line)
            for notification in executor.thread.notifications:
                self._name_contradicted(notification)
                key = (executor.group, notification.agent_id)
                by_tool = self._notifications.setdefault(key, {})
                by_tool.setdefault(notification.tool_id, []).append((executor, notification))
            for result in executor.thread.results.values():
                if result.kind is ResultKind.RETRIEVED and result.agent_id is not None:
                    self._retrieved.setdefault((executor.group, result.agent_id), []).append((executor, result))
            for use in executor.thread.tool_uses.values():
                if use.name in RETRIEVAL_TOOLS and use.target is not None:
                    self._fetches.setdefault((executor.group, use.target), []).append((executor, use))
        self._groups_that_lost = self._find_losses(executors.by_key.values())

    def deliveries(self, delegation: Delegation, *, only: bool) -> Statements:
        """Acknowledgement and results of a delegation, and what they say. `only`: the child has no other one."""
        said = Statements()
        if delegation.parent is not None and delegation.result is not None:
            self._own_result(delegation, delegation.parent, delegation.result, said)
        key = (delegation.child.group, delegation.child.agent_id or "")
        retrieved = self._retrieved.get(key, [])
        if retrieved and not only:
            self._unproven("a fetched result names an agent with several delegations", retrieved[0][1].place)
        for receiver, result in retrieved if only else ():
            self._retrieved_result(delegation, receiver, result, said)
        said.results = len(said.completed) + len(said.failed)
        self._name_lost_results(delegation)
        answered: set[tuple[str, str]] = set()
        notifications = self._notifications.get(key, {})
        bound = notifications.get(delegation.tool_id, []) + (notifications.get(None, []) if only else [])
        for receiver, notification in bound:
            item = (notification.first_response or "", notification.text)
            if notification.first_response is None or item not in answered:
                answered.add(item)
                self._notified_result(delegation, receiver, notification, said)
        finals = [notification for _, notification in bound if notification.status in _FINAL_STATUSES]
        if not said.settled:
            self._settle(delegation, finals, said)
        said.results += len({notification.text for notification in finals})
        return said

    def _settle(self, delegation: Delegation, final: list[Notification], said: Statements) -> None:
        """An agent that a message reached when it had just ended goes on and notifies again, under the same ids: its
        result is delivered when as many were answered as there are."""
        queued, put = _texts(final, delivered=False), _texts(final, delivered=True)
        heard = {item.text for item in final if item.first_response is not None and not item.contradicted}
        said.settled = bool(heard) and len(heard) >= max(len(queued), len(put))
        if len(queued) > len(put) and delegation.child.group in self._groups_that_lost:
            said.lost = True
            lost = next(item for item in final if not item.delivered and item.text not in put)
            self._unproven("a notification was taken out of the queue, and no log holds it", lost.place)

    def _own_result(self, delegation: Delegation, parent: Executor, result: ToolResult, said: Statements) -> None:
        evidence = result.place.evidence("tool", result.tool_id)
        if not result.structured and not _proven_by_three(delegation, result):
            self._unproven("a result in a child's log does not prove whose it is", result.place)
        elif result.kind in (ResultKind.LAUNCHED, ResultKind.RESUMED):
            outcome = "async_launched" if result.kind is ResultKind.LAUNCHED else "resumed"
            relation = self._delivered(
                RelationType.LAUNCH_ACKNOWLEDGED, delegation, parent, _by_tool(result.tool_id), outcome, [evidence]
            )
            self._probe(relation, ToolResultItem(result.tool_id))
        elif result.kind is ResultKind.OTHER_STATUS:
            reason = f"a result gives an agent the unknown status {result.status}"
            self._gaps.add(
                AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=result.place.source, line=result.place.line
            )
        elif result.kind is ResultKind.REJECTED:
            said.settled = True
        elif result.kind is not ResultKind.INTERRUPTED:  # a cut run delivers nothing, and its child stays pending
            outcome = "error" if result.kind is ResultKind.ERROR else "completed"
            relation = self._delivered(
                RelationType.RESULT_DELIVERED, delegation, parent, _by_tool(result.tool_id), outcome, [evidence]
            )
            self._probe(relation, ToolResultItem(result.tool_id))
            said.settled = True
            (said.failed if result.kind is ResultKind.ERROR else said.completed).append(evidence)

    def _name_lost_results(self, delegation: Delegation) -> None:
        """A request holds the result of each tool call before it, so a log that went on must hold it too."""
        if delegation.parent is not None and delegation.use is not None and delegation.result is None:
            self._name_lost_result(delegation.parent, delegation.use)
        for holder, use in self._fetches.get((delegation.child.group, delegation.child.agent_id or ""), []):
            result = holder.thread.results.get(use.tool_id)
            if result is None:
                self._name_lost_result(holder, use)
            elif result.agent_id not in (None, use.target):
                self._unproven("a tool call that fetches an agent's result has one of another agent", result.place)
            elif result.kind is ResultKind.PLAIN and result.status in (None, "success"):
                reason = "a tool call that fetches an agent's result has one of an unknown form"
                self._unproven(reason, result.place)

    def _name_lost_result(self, holder: Executor, use: ToolUse) -> None:
        if self._went_on_after(holder, use.place):
            self._unproven("a log that goes on does not hold the result of a tool call about an agent", use.place)

    def _retrieved_result(
        self, delegation: Delegation, receiver: Executor, result: ToolResult, said: Statements
    ) -> None:
        """A background result that the parent fetched with another tool call (`TaskOutput`)."""
        evidence = result.place.evidence("tool", result.tool_id)
        (said.completed if result.status == "completed" else said.failed).append(evidence)
        if delegation.parent is None:
            return
        relation = self._delivered(
            RelationType.RESULT_DELIVERED, delegation, receiver, _by_tool(result.tool_id), result.status, [evidence]
        )
        self._probe(relation, ToolResultItem(result.tool_id))
        said.settled = True

    def _notified_result(
        self, delegation: Delegation, receiver: Executor, notification: Notification, said: Statements
    ) -> None:
        if notification.contradicted:
            return
        evidence = notification.place.evidence("agent", notification.agent_id)
        if notification.status not in _FINAL_STATUSES:
            if notification.status not in _STOPPED_STATUSES:
                self._unproven("a notification gives no known status", notification.place)
            return
        (said.completed if notification.status == "completed" else said.failed).append(evidence)
        response, place = notification.first_response, notification.response_place
        if not notification.delivered or delegation.parent is None:
            return
        if response is None or place is None:
            if self._went_on_after(receiver, notification.place):
                self._unproven("no output is proven to have answered a notification", notification.place)
            return
        relation = self._delivered(
            RelationType.RESULT_DELIVERED,
            delegation,
            receiver,
            Delivery(DeliveryKind.NOTIFICATION, BoundBy.RESPONSE_ID, response),
            notification.status,
            [evidence, place.evidence("message", response)],
        )
        self._probe(relation, NotificationItem((notification.text,), response))

    def _delivered(
        self,
        kind: RelationType,
        delegation: Delegation,
        receiver: Executor,
        delivery: Delivery,
        outcome: str | None,
        evidence: list[Evidence],
    ) -> NativeRelation:
        parent = delegation.parent
        assert parent is not None
        relation = NativeRelation(
            kind,
            parent.key,
            delegation.child.key,
            delegation.tool_id,
            joined(evidence, delegation.link),
            receiver_key=receiver.key if receiver is not parent else None,
            parent_output_id=delegation.use.output_id if delegation.use is not None else None,
            delegation=delegation.number,
            delivery=delivery,
            outcome=outcome,
        )
        self.relations.append(relation)
        return relation

    def _probe(self, relation: NativeRelation, item: ToolResultItem | NotificationItem) -> None:
        self.probes.append(ContextProbe(relation, item))

    def name_strange_notifications(self, child: Executor, delegations: list[Delegation]) -> None:
        known = {item.tool_id for item in delegations} | ({None} if len(delegations) == 1 else set())
        for tool_id, found in self._notifications.get((child.group, child.agent_id or ""), {}).items():
            for _, notification in found:
                if notification.delivered and tool_id not in known:
                    self._unproven("a notification names a tool call that is no known delegation", notification.place)

    def _name_contradicted(self, notification: Notification) -> None:
        if notification.contradicted:
            reason, place = "one record uuid stands for a notification and for something else", notification.place
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)

    def _find_losses(self, executors: Iterable[Executor]) -> set[str]:
        """The groups whose queue gave out more notifications than their logs hold."""
        missing, waiting = Counter[str](), Counter[str]()
        for executor in executors:
            waiting[executor.group] += executor.thread.queue_length
        for (group, _), by_tool in self._notifications.items():
            for found in by_tool.values():
                items = [item for _, item in found]
                missing[group] += max(0, len(_texts(items, delivered=False)) - len(_texts(items, delivered=True)))
        return {group for group, count in missing.items() if count > max(0, waiting[group])}

    def _went_on_after(self, receiver: Executor, place: Place) -> bool:
        return self._last_output.get((receiver.key, place.source), 0) > place.line

    def _unproven(self, reason: str, place: Place) -> None:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        self._gaps.add(code, reason, source=place.source, line=place.line)


def _proven_by_three(delegation: Delegation, result: ToolResult) -> bool:
    """The check for results in a child's log, which lack `toolUseResult` (protocol, "Execution boundaries").

    The child's metadata names the tool call, the result names the record that made the call, and the text that the
    harness adds names the child. A resumed agent's metadata still names its first launch, so there the tool call's
    input names the child (see `DelegationFinder`). An error has no such text; its tool id is that of the delegation.
    """
    if result.kind in (ResultKind.ERROR, ResultKind.REJECTED, ResultKind.INTERRUPTED):
        return delegation.use is not None
    child, use = delegation.child, delegation.use
    by_metadata = any(meta.tool_use_id == delegation.tool_id for meta in child.metas)
    by_record = use is not None and use.uuid is not None and result.source_uuid == use.uuid
    by_text = result.agent_id is not None and result.agent_id == child.agent_id
    return by_record and by_text and (by_metadata or result.kind is ResultKind.RESUMED)


def _texts(notifications: list[Notification], *, delivered: bool) -> set[str]:
    return {item.text for item in notifications if item.delivered is delivered}


def _by_tool(tool_id: str) -> Delivery:
    return Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, tool_id)


def joined(*groups: list[Evidence] | list[Evidence | None]) -> tuple[Evidence, ...]:
    """Each piece of evidence once, in order."""

    def pieces() -> Iterator[Evidence]:
        for group in groups:
            yield from (item for item in group if item is not None)

    return tuple(dict.fromkeys(pieces()))
