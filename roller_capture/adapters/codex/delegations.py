"""Which tool call gave a task to which child: the launch of each child, and each further task.

Whatever the harness wrote about one tool call has to name the same child: its own record of the call
(`CollabAgentToolCall`, or `SubAgentActivity` in v2), the call's output (`agent_id`, or the child's path), and the first
line of the child's rollout, which names the parent. Where they disagree, or a call id or a child stands for two
things, there is no delegation but a gap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from roller_capture.adapters.codex.facts import Activity, Place, Rollout, ToolCall, ToolOutput, Turn
from roller_capture.adapters.codex.record_shapes import FOLLOW_UP_TOOLS, SPAWN_TOOLS
from roller_capture.adapters.codex.threads import Threads
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode


@dataclass(slots=True)
class Delegation:
    """One task of one child. `number` counts from 1 for each child; `output` is what the tool call returned.

    `turn` is the child's turn that worked on it, where it is proven; `submission` the id of that turn where the output
    names it.
    """

    parent: Rollout
    child: Rollout
    call: ToolCall
    evidence: list[Evidence]
    output: ToolOutput | None
    number: int = 1
    submission: str | None = None
    turn: Turn | None = None


@dataclass(slots=True)
class _Named:
    """The children that the records of one tool call name, and those records."""

    threads: set[str] = field(default_factory=set)
    evidence: list[Evidence] = field(default_factory=list)

    def add(self, thread_id: str, evidence: Evidence) -> None:
        self.threads.add(thread_id)
        self.evidence.append(evidence)


class DelegationFinder:
    """Finds all delegations of an attempt."""

    def __init__(self, threads: Threads, gaps: GapLog) -> None:
        self._threads = threads
        self._gaps = gaps
        self._found: dict[str, list[Delegation]] = {}

    def find(self) -> dict[str, list[Delegation]]:
        """The delegations of each child, by its thread id: the launch first, then further tasks as they were given."""
        for parent in self._threads.by_id.values():
            for call in parent.tool_calls.values():
                if call.name in SPAWN_TOOLS:
                    self._launch(parent, call)
        self._drop_double_launches()
        self._threads.launched.update(self._found)
        for parent in self._threads.by_id.values():
            for call in parent.tool_calls.values():
                if call.name in FOLLOW_UP_TOOLS:
                    self._follow_up(parent, call)
            self._name_tasks_without_call(parent)
        for delegations in self._found.values():
            for number, delegation in enumerate(delegations, 1):
                delegation.number = number
            _bind_turns(delegations)
        self._name_children_without_launch()
        return self._found

    def _launch(self, parent: Rollout, call: ToolCall) -> None:
        child = self._named_child(parent, call, "spawn_agent", "started")
        if child is None:
            return
        rollout, evidence = child
        if rollout.meta.parent_id != parent.thread_id or self._threads.parent_of(rollout) is not parent:
            self._unproven("a launched agent's rollout names another parent", call.place, rollout.thread_id)
            return
        output = parent.outputs.get(call.call_id)
        self._found.setdefault(rollout.thread_id, []).append(Delegation(parent, rollout, call, evidence, output))

    def _follow_up(self, parent: Rollout, call: ToolCall) -> None:
        child = self._named_child(parent, call, call.name, "interacted")
        if child is None:
            return
        rollout, evidence = child
        if rollout.thread_id not in self._threads.launched:
            return
        output = parent.outputs.get(call.call_id)
        submission = as_id(output.value.get("submission_id")) if output is not None else None
        self._found[rollout.thread_id].append(
            Delegation(parent, rollout, call, evidence, output, submission=submission)
        )

    def _named_child(
        self, parent: Rollout, call: ToolCall, tool: str, kind: str
    ) -> tuple[Rollout, list[Evidence]] | None:
        """The one child that all records of a tool call name, with these records."""
        named = _Named()
        self._by_record(parent, call, tool, named)
        self._by_activity(parent, call, kind, named)
        if kind == "started":
            self._by_output(parent, call, named)
        if call.call_id in parent.repeated_calls:
            self._threads.doubtful |= named.threads
            return None
        if len(named.threads) > 1:
            self._unproven("the records of one tool call name different agents", call.place, *named.threads)
        if len(named.threads) != 1:
            return None  # a call that failed names none
        thread_id = next(iter(named.threads))
        rollout = self._threads.by_id.get(thread_id)
        if rollout is None or rollout.is_unknown_fork:
            if rollout is None:
                self._threads.doubtful.add(thread_id)
                reason = f"a tool call names agent {thread_id}, of which there is no rollout"
                self._add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason, call.place)
            return None
        return rollout, named.evidence

    @staticmethod
    def _by_record(parent: Rollout, call: ToolCall, tool: str, named: _Named) -> None:
        record = parent.collab_calls.get(call.call_id)
        if record is None or record.tool != tool or record.sender != parent.thread_id:
            return
        for thread_id in record.receivers if record.succeeded else ():
            named.add(thread_id, record.place.evidence("tool", call.call_id))

    @staticmethod
    def _by_activity(parent: Rollout, call: ToolCall, kind: str, named: _Named) -> None:
        for activity in _activities(parent, call.call_id, kind):
            named.add(activity.thread_id, activity.place.evidence("tool", call.call_id))

    def _by_output(self, parent: Rollout, call: ToolCall, named: _Named) -> None:
        output = parent.outputs.get(call.call_id)
        if output is None:
            return
        thread_id, path = as_id(output.value.get("agent_id")), as_id(output.value.get("task_name"))
        if thread_id is None and path is not None:
            child = self._threads.by_path(path, parent)
            thread_id = child.thread_id if child is not None else None
        if thread_id is not None:
            named.add(thread_id, output.place.evidence("tool", call.call_id))

    def _name_tasks_without_call(self, parent: Rollout) -> None:
        """Further tasks (v1) that the harness's record alone tells of; a launch without its call is named anyway."""
        for record in parent.collab_calls.values():
            if record.tool in FOLLOW_UP_TOOLS and record.succeeded and record.call_id not in parent.tool_calls:
                reason = "the harness tells of a further task of which there is no tool call"
                self._unproven(reason, record.place, *record.receivers)

    def _drop_double_launches(self) -> None:
        for thread_id, delegations in list(self._found.items()):
            if len(delegations) > 1:
                reason = "two tool calls are said to have launched one agent"
                self._unproven(reason, delegations[1].call.place, thread_id)
                del self._found[thread_id]

    def _name_children_without_launch(self) -> None:
        for rollout in self._threads.by_id.values():
            meta = rollout.meta
            if meta.is_subagent and meta.side is None and rollout.thread_id not in self._found:
                reason = "no tool call is proven to have launched an agent"
                self._unproven(reason, Place(rollout.source, 1), rollout.thread_id)

    def _unproven(self, reason: str, place: Place, *agents: str) -> None:
        self._threads.doubtful.update(agents)
        self._add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, place)

    def _add(self, code: AttemptErrorCode, reason: str, place: Place) -> None:
        self._gaps.add(code, reason, source=place.source, line=place.line)


def _activities(parent: Rollout, call_id: str, kind: str) -> Iterator[Activity]:
    return (item for item in parent.activities if item.call_id == call_id and item.kind == kind)


def _bind_turns(delegations: list[Delegation]) -> None:
    """Finds the child's turn of each delegation.

    A further task of v1 names its turn (`submission_id`), and the launch began the first one. Where no id tells (v2),
    one turn is as good as another only if each holds one task, there are as many as delegations, and all ended alike;
    else only the first, which the launch began, and the last are sure, the last only if each delegation had a turn.
    """
    turns = delegations[0].child.turns
    by_id = {turn.turn_id: turn for turn in turns if turn.turn_id is not None}
    if turns:
        delegations[0].turn = turns[0]
    nameless = [item for item in delegations[1:] if item.submission is None]
    for delegation in delegations[1:]:
        delegation.turn = by_id.get(delegation.submission or "")
    if not nameless or not _has_one_turn_each(delegations):
        return
    alike = len({turn.state for turn in turns}) == 1
    for index, delegation in enumerate(delegations):
        if delegation in nameless and (alike or index == len(delegations) - 1):
            delegation.turn = turns[index]


def _has_one_turn_each(delegations: list[Delegation]) -> bool:
    """Whether each turn of the child was begun by the task of one delegation, as the messages in it say.

    A task that comes while the child is at work joins the turn that is under way, and other messages begin turns, too.
    """
    child, parent = delegations[0].child, delegations[0].parent
    by_one = all(delegation.parent is parent for delegation in delegations)
    tasks = [child.tasks.get(turn.turn_id or "") for turn in child.turns]
    return by_one and len(tasks) == len(delegations) and all(givers == [parent.path] for givers in tasks)
