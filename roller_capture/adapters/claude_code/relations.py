"""The native relations of every delegation, and how each child ended.

The rules are those of design section 7 and of the protocol ("Relation semantics", "Execution boundaries").
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from roller_capture.adapters.claude_code.delegations import Delegation, Delegations
from roller_capture.adapters.claude_code.deliveries import DeliveryFinder, Statements, joined
from roller_capture.adapters.claude_code.executors import Executor, Executors
from roller_capture.adapters.claude_code.facts import EndState, Place, ResultKind, ToolResult, ToolUse, TurnEnd
from roller_capture.adapters.claude_code.record_shapes import DELEGATION_TOOLS, STOP_TOOLS
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import ContextProbe, Evidence, NativeRelation
from roller_capture.vocabulary import (
    AttemptErrorCode,
    ExecutionStatus,
    LifecycleStatus,
    RelationType,
)


@dataclass(slots=True)
class ChildOutcome:
    """How a child ended, as published with its participant."""

    execution_status: ExecutionStatus
    lifecycle: LifecycleStatus


@dataclass(slots=True)
class NativeRelations:
    """Relations and probes of all children, and the outcome of each child by key."""

    relations: list[NativeRelation] = field(default_factory=list)
    probes: list[ContextProbe] = field(default_factory=list)
    outcomes: dict[str, ChildOutcome] = field(default_factory=dict)


class RelationFinder:
    """Makes the relations of one attempt."""

    def __init__(self, executors: Executors, delegations: Delegations, gaps: GapLog) -> None:
        self._executors = executors
        self._delegations = delegations
        self._gaps = gaps
        self._deliveries = DeliveryFinder(executors, gaps)
        self._found = NativeRelations(self._deliveries.relations, self._deliveries.probes)
        self._stops: dict[tuple[str, str], list[tuple[Executor, ToolUse]]] = {}
        for executor in executors.by_key.values():
            for agent_id, use in _stops(executor):
                self._stops.setdefault((executor.group, agent_id), []).append((executor, use))

    def find(self) -> NativeRelations:
        """The relations of all children."""
        for executor in self._executors.by_key.values():
            if not executor.is_root:
                self._child(executor, self._delegations.of_child.get(executor.key, []))
        self._name_hidden_children()
        return self._found

    def _child(self, child: Executor, delegations: list[Delegation]) -> None:
        self._deliveries.name_strange_notifications(child, delegations)
        statements = []
        failed = False
        for index, delegation in enumerate(delegations):
            self._spawn(delegation)
            said = self._deliveries.deliveries(delegation, only=len(delegations) == 1)
            failed = self._judge(delegation, index, len(delegations), said)
            statements.append(said)
        lifecycle = self._lifecycle(child, delegations, statements)
        if lifecycle is LifecycleStatus.PENDING and any(said.lost for said in statements):
            lifecycle = LifecycleStatus.UNKNOWN  # it may have been delivered, and no log tells to whom
        said_completed = bool(statements and statements[-1].completed)
        self._found.outcomes[child.key] = ChildOutcome(
            ExecutionStatus.FAILED if failed else execution_status(child, said_completed=said_completed),
            lifecycle,
        )

    def _judge(self, delegation: Delegation, index: int, delegations: int, said: Statements) -> bool:
        """Notes how one of a child's delegations ended, if that is proven. Returns whether it failed."""
        child = delegation.child
        if child.key in self._delegations.contradicted or not child.thread.turn_ends:
            return self._end(delegation, None, said)
        turn = _turn_of(child.thread.turn_ends, index, delegations)
        if turn is not None:
            return self._end(delegation, turn, said)
        if said.completed or said.failed:
            reason = "the log of an agent with several delegations does not tell how each of them ended"
            self._unproven(reason, _place((said.completed + said.failed)[0]))
        return False

    def _spawn(self, delegation: Delegation) -> None:
        parent, use = delegation.parent, delegation.use
        if parent is None or (use is None and not _result_names_child(delegation)):
            return
        evidence = [use.place.evidence("tool", use.tool_id)] if use is not None else []
        self._found.relations.append(
            NativeRelation(
                RelationType.SPAWN,
                parent.key,
                delegation.child.key,
                delegation.tool_id,
                joined(evidence, delegation.link, [delegation.child.evidence()]),
                parent_output_id=use.output_id if use is not None else None,
                delegation=delegation.number,
            )
        )

    def _end(self, delegation: Delegation, turn: TurnEnd | None, said: Statements) -> bool:
        """The child's own end, held against what was said of it. Returns whether it failed.

        The child's own log decides, since `completed` is also said of children that ended in an API error.
        """
        state = turn.state if turn is not None else None
        own = [turn.place.evidence("record", turn.identifier)] if turn is not None else []
        if state is EndState.FAILED or (said.failed and not said.completed and state is not EndState.ENDED):
            word = turn.word if turn is not None and state is EndState.FAILED else "failed"
            said_evidence = said.failed or said.completed
            self._ended(RelationType.CHILD_FAILED, delegation, word, joined(own, said_evidence))
            return True
        if said.failed:
            self._unproven("a child is said to have failed, but its log does not end so", _place(said.failed[0]))
        elif said.completed and state is EndState.ENDED and turn is not None:
            outcome = "completed" if turn.word in (None, "end_turn", "stop_sequence") else turn.word
            self._ended(RelationType.CHILD_COMPLETED, delegation, outcome, joined(own, said.completed))
        elif said.completed and delegation.child.has_log:
            self._unproven("a child is said to have completed, but its log does not end so", _place(said.completed[0]))
        return False

    def _ended(
        self, kind: RelationType, delegation: Delegation, outcome: str | None, evidence: tuple[Evidence, ...]
    ) -> None:
        """Without the tool call in a log, or a result that names the child, only the child's end is proven."""
        is_tied = delegation.use is not None or _result_names_child(delegation)
        self._found.relations.append(
            NativeRelation(
                kind,
                delegation.parent.key if delegation.parent is not None and is_tied else None,
                delegation.child.key,
                delegation.tool_id if is_tied else None,
                evidence,
                parent_output_id=delegation.use.output_id if delegation.use is not None else None,
                delegation=delegation.number,
                outcome=outcome,
            )
        )

    def _lifecycle(
        self, child: Executor, delegations: list[Delegation], statements: list[Statements]
    ) -> LifecycleStatus:
        last = child.thread.turn_ends[-1].state if child.thread.turn_ends else None
        if child.is_compacting and child.has_log:
            return LifecycleStatus.PENDING if last is EndState.RUNNING else LifecycleStatus.COMPLETE
        known = bool(delegations) and all(item.parent is not None for item in delegations)
        if not known or not child.has_log or child.key in self._delegations.contradicted:
            return LifecycleStatus.UNKNOWN
        if not all(said.settled or self._is_stopped(item) for item, said in zip(delegations, statements, strict=True)):
            return LifecycleStatus.PENDING
        if not statements[-1].settled and len(child.thread.turn_ends) > len(delegations):
            return LifecycleStatus.PENDING  # something else began a turn, perhaps after the stop
        contradicts = last is EndState.RUNNING and bool(statements[-1].completed)
        # A turn that a message began tells its end in a notification of its own, which may name no tool call.
        ends = sum(turn.state is not EndState.RUNNING for turn in child.thread.turn_ends)
        untold = ends > sum(said.results for said in statements)
        if contradicts or (untold and not any(map(self._is_stopped, delegations))):
            return LifecycleStatus.UNKNOWN
        return LifecycleStatus.COMPLETE

    def _is_stopped(self, delegation: Delegation) -> bool:
        """Whether the child's parent, or one of its parents, ended this piece of its work by a tool call of its own."""
        child = delegation.child
        stops = self._stops.get((child.group, child.agent_id or ""), [])
        stoppers = {executor.key for executor, use in stops if _precedes(delegation, use)}
        above = child.parent_key
        while stoppers and above is not None and above not in stoppers:
            above = self._executors.by_key[above].parent_key
        return bool(stoppers) and above is not None

    def _name_hidden_children(self) -> None:
        """Launches that went well and of whose agent nothing is left."""
        known = {(item.child.group, item.tool_id) for many in self._delegations.of_child.values() for item in many}
        for executor in self._executors.by_key.values():
            for use in executor.thread.tool_uses.values():
                result = executor.thread.results.get(use.tool_id)
                launched = use.name in DELEGATION_TOOLS and result is not None and _succeeded(result)
                if launched and (executor.group, use.tool_id) not in known:
                    reason = "a tool call launched an agent that no log names"
                    place = use.place
                    self._gaps.add(
                        AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason, source=place.source, line=place.line
                    )

    def _unproven(self, reason: str, place: Place) -> None:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        self._gaps.add(code, reason, source=place.source, line=place.line)


def _result_names_child(delegation: Delegation) -> bool:
    """Whether the harness's own record of the tool call's result names the child."""
    result = delegation.result
    return result is not None and result.structured and result.agent_id == delegation.child.agent_id


def execution_status(executor: Executor, *, said_completed: bool) -> ExecutionStatus:
    """How an executor's own log ends. A last answer without a stop reason counts only where its end is also said."""
    if not executor.thread.turn_ends:
        return ExecutionStatus.UNKNOWN
    last = executor.thread.turn_ends[-1]
    if last.state is EndState.FAILED:
        return ExecutionStatus.FAILED
    if last.state is EndState.RUNNING:
        return ExecutionStatus.INTERRUPTED
    return ExecutionStatus.COMPLETED if last.word is not None or said_completed else ExecutionStatus.UNKNOWN


def _turn_of(turns: list[TurnEnd], index: int, delegations: int) -> TurnEnd | None:
    """The turn of the child's log in which a delegation ended, or `None` where nothing proves which it is.

    No id ties a turn to a delegation: `promptId` is that of the root's prompt, and a message that begins a turn (marked
    `coordinator`) need not have resumed the child, since one sent to a child at work can begin one too. Only the last
    turn is sure, which the last delegation began. Of those before it one is as good as another where there are as many
    as delegations before the last, and all ended well.
    """
    before, last = turns[:-1], turns[-1]
    if index == delegations - 1:
        return last if len(turns) >= delegations else None
    alike = len({turn.state for turn in turns}) == 1 or {turn.state for turn in before} == {EndState.ENDED}
    return before[index] if len(turns) == delegations and alike else None


def _stops(executor: Executor) -> Iterator[tuple[str, ToolUse]]:
    """The ids of the agents that an executor stopped, each with the tool call."""
    for use in executor.thread.tool_uses.values():
        result = executor.thread.results.get(use.tool_id)
        if use.name in STOP_TOOLS and use.target is not None and result is not None and _succeeded(result):
            yield use.target, use


def _precedes(delegation: Delegation, stop: ToolUse) -> bool:
    """Whether an agent was given this work before it was stopped. Any stop comes after the launch; of further work the
    log that holds the stop has to tell it."""
    use = delegation.use
    if delegation.number == 1 and (use is None or use.target != delegation.child.agent_id):
        return True
    given = delegation.result or use
    return given is not None and given.place.source == stop.place.source and given.place.line < stop.place.line


def _succeeded(result: ToolResult) -> bool:
    return result.kind not in (ResultKind.ERROR, ResultKind.REJECTED, ResultKind.INTERRUPTED)


def _place(evidence: Evidence) -> Place:
    line = evidence.locator.removeprefix("line:").partition(" ")[0]
    return Place(evidence.source, int(line))
