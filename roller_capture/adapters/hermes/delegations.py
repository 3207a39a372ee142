"""Ties each child to the tool call that made it, and to what its parent was told of it.

The database alone does not say which tool call made a child (measured: equal goals look alike), so the plugin's word is
needed, and the parent's own rows must hold that very call. One batched call has several children, told apart by the
task index that stands in Hermes's name of the child and in the result.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.executors import Executor, Executors
from roller_capture.adapters.hermes.facts import ChildResult, ChildStart, DelegationResult, Place, State, ToolUse
from roller_capture.adapters.hermes.state_reader import DELEGATION_TOOL
from roller_capture.vocabulary import AttemptErrorCode


@dataclass(frozen=True, slots=True)
class Delegation:
    """One child of one delegating tool call.

    `result` is the tool row of the call, `told` what it says of this child; a background delegation has a result that
    says nothing of it yet, but under which id it was dispatched.
    """

    child: Executor
    parent: Executor
    tool_call_id: str
    task_index: int
    start: ChildStart
    use: ToolUse
    result: DelegationResult | None
    told: ChildResult | None


class DelegationFinder:
    """Finds the proven delegations of one attempt."""

    def __init__(self, executors: Executors, state: State, gaps: GapLog) -> None:
        self._executors = executors
        self._state = state
        self._gaps = gaps
        self._claims = Counter(
            claim for executor in executors.by_key.values() if (claim := self._claim(executor)) is not None
        )

    def find(self) -> dict[str, Delegation]:
        """The delegation of each child for which it is proven, by the child's key."""
        found = {}
        for executor in self._executors.by_key.values():
            if executor.is_child:
                delegation = self._delegation(executor)
                if delegation is not None:
                    found[executor.key] = delegation
        return found

    def _claim(self, child: Executor) -> tuple[str, str, int] | None:
        start = child.start
        if child.parent_key is None or start is None or start.tool_call_id is None or start.task_index is None:
            return None
        return child.parent_key, start.tool_call_id, start.task_index

    def _delegation(self, child: Executor) -> Delegation | None:
        claim = self._claim(child)
        if claim is None or child.start is None:
            if child.parent_key is not None:
                self._unproven("no event of the plugin names the tool call that made a child", child.sessions[0].place)
            return None
        parent, tool_call_id, task_index = self._executors.by_key[claim[0]], claim[1], claim[2]
        place = child.start.place
        if self._claims[claim] > 1:
            reason = "two children say that the same task of the same tool call made them"
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)
            return None
        use = self._use(parent, tool_call_id, place)
        if use is None:
            return None
        result = self._result(parent, tool_call_id)
        told = result.children.get(task_index) if result is not None else None
        if result is not None and told is None and result.dispatched_as is None:
            self._unproven("a delegation's result does not tell of one of its children, once", result.place)
        return Delegation(child, parent, tool_call_id, task_index, child.start, use, result, told)

    def _use(self, parent: Executor, tool_call_id: str, place: Place) -> ToolUse | None:
        """The tool call in the parent's rows. Compaction writes rows again; else an id stands there once."""
        uses = [use for one in parent.session_ids for use in self._state.uses.get((one, tool_call_id), ())]
        if not uses:
            self._unproven("the tool call that made a child is not in its parent's rows", place)
            return None
        if any(use.name != DELEGATION_TOOL for use in uses):
            self._unproven("the tool call that made a child is one of another tool", uses[0].place)
            return None
        copied = len(parent.sessions) > 1 or any(one in self._state.compacted for one in parent.session_ids)
        if not copied and len(uses) > 1:
            reason = "a tool call id stands for two calls of one session"
            where = uses[1].place
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=where.source, line=where.line)
            return None
        return uses[0]

    def _result(self, parent: Executor, tool_call_id: str) -> DelegationResult | None:
        """The tool row, the first where compaction has written it again (a copy may be shortened)."""
        rows = [row for one in parent.session_ids for row in self._state.results.get((one, tool_call_id), ())]
        return rows[0] if rows else None

    def _unproven(self, reason: str, place: Place) -> None:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        self._gaps.add(code, reason, source=place.source, line=place.line)


def notice_places(delegation: Delegation, state: State) -> Iterator[Place]:
    """Rows by which a background delegation told its parent that it has ended."""
    if delegation.result is not None and delegation.result.dispatched_as is not None:
        for one in delegation.parent.session_ids:
            yield from state.notices.get((one, delegation.result.dispatched_as), ())
