"""Which tool call delegated to which child, and how each delegation ended.

Only ids tie them: the harness's own sentence in the tool result names the child, `subagent/catalog` in the same log
does, and the child's header names the parent. Where they disagree, or an id stands for two things, there is no
delegation but a gap. A message to a child that has settled delegates to it again; one to a child at work does not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from roller_capture.adapters.deepseek.facts import Notice, Place, Session, ToolCall, ToolResult, WorkflowAgent
from roller_capture.adapters.gap_log import GapLog
from roller_capture.vocabulary import AttemptErrorCode

LAUNCH_TOOLS: Final = frozenset({"subagent", "subagent_fork"})
WORKFLOW_TOOL: Final = "workflow"
MESSAGE_TOOL: Final = "send_message"
STOP_TOOL: Final = "interrupt_agent"
DELEGATION_TOOLS: Final = LAUNCH_TOOLS | {WORKFLOW_TOOL}

_STARTED: Final = "started subagent"
_DELIVERED: Final = "message delivered to agent"


class Manner(Enum):
    """How a child is delegated to."""

    LAUNCH = "launch"  # in the background; a notice tells its end
    MESSAGE = "message"  # the same, to a child that had settled
    WORKFLOW = "workflow"  # waited for; the tool's result is the workflow's


@dataclass(slots=True)
class Delegation:
    """One delegation. `number` counts those of a child from 1; `task_index` those of one workflow from 0.

    `notice` is the one that ended it, `result` that of the delegating tool call, `None` while a workflow runs.
    `is_stopped`: an agent stopped the child while this was what it had been given.
    """

    parent: Session
    child_id: str
    call: ToolCall
    manner: Manner
    link: Place
    result: ToolResult | None
    number: int = 1
    task_index: int | None = None
    agent: WorkflowAgent | None = None
    notice: Notice | None = None
    notice_reader: Session | None = None
    is_stopped: bool = False


@dataclass(slots=True)
class Delegations:
    """All delegations, by child. `contradicted` are children whose records do not fit one another."""

    of_child: dict[str, list[Delegation]] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)


class DelegationFinder:
    """Finds the delegations of all children of an attempt."""

    def __init__(self, sessions: Mapping[str, Session], gaps: GapLog) -> None:
        self._sessions = sessions
        self._gaps = gaps
        self._found = Delegations()
        self._messages: dict[str, list[Delegation]] = {}
        self._stops: dict[str, list[tuple[Session, ToolCall]]] = {}

    def find(self) -> Delegations:
        """Every delegation that ids prove. A child without one has none in the result."""
        for parent in self._sessions.values():
            for call in parent.calls.values():
                self._of_call(parent, call)
            self._of_runs(parent)
        for child_id in self._children():
            self._settle(child_id)
        return self._found

    def _children(self) -> list[str]:
        named = {child for session in self._sessions.values() for child in session.catalogs}
        return sorted(named | {item.session_id for item in self._sessions.values() if item.parent_id is not None})

    def _of_call(self, parent: Session, call: ToolCall) -> None:
        result = parent.results.get(call.tool_id)
        if result is None or result.is_error:
            return
        if call.name == STOP_TOOL and result.agent_id is not None and result.agent_id == call.agent_id:
            self._stops.setdefault(result.agent_id, []).append((parent, call))
        if call.name in LAUNCH_TOOLS:
            if result.word != _STARTED or result.agent_id is None:
                self._unproven("a delegating tool call's result does not name the agent", result.place)
            else:
                self._launch(parent, call, result, result.agent_id)
        elif call.name == MESSAGE_TOOL and result.word == _DELIVERED and result.agent_id == call.agent_id:
            catalog = parent.catalogs.get(call.agent_id or "")
            if catalog is not None:
                message = Delegation(parent, catalog.child_id, call, Manner.MESSAGE, catalog.place, result)
                self._messages.setdefault(catalog.child_id, []).append(message)

    def _launch(self, parent: Session, call: ToolCall, result: ToolResult, child_id: str) -> None:
        catalog = parent.catalogs.get(child_id)
        if catalog is None:
            # The first formats list none. What is not told is not proven, and contradicts nothing.
            self._unproven("a tool result names an agent that its log does not list", result.place)
        elif not call.place.seq < catalog.place.seq < result.place.seq:
            self._contradict(child_id, "an agent is listed elsewhere than by the tool call that names it", result.place)
        elif self._fits(parent, child_id, result.place):
            self._add(Delegation(parent, child_id, call, Manner.LAUNCH, catalog.place, result))

    def _of_runs(self, parent: Session) -> None:
        """A run belongs to the one workflow call that was open when it began, if no other began in that call."""
        calls = [call for call in parent.calls.values() if call.name == WORKFLOW_TOOL]
        opened = {
            run.run_id: [call for call in calls if _is_open(parent, call, run.start)] for run in parent.runs.values()
        }
        uses = Counter(call.tool_id for found in opened.values() for call in found)
        for run in parent.runs.values():
            found = opened[run.run_id]
            only = found[0] if len(found) == 1 and uses[found[0].tool_id] == 1 else None
            self._of_run(parent, run.start, list(run.agents.values()), only)

    def _of_run(self, parent: Session, start: Place, agents: list[WorkflowAgent], call: ToolCall | None) -> None:
        for agent in agents:
            catalog = parent.catalogs.get(agent.child_id)
            if call is None:
                self._contradict(agent.child_id, "a workflow run cannot be tied to one tool call", start)
            elif catalog is None:
                self._contradict(agent.child_id, "a workflow names an agent that its log does not list", agent.start)
            elif self._fits(parent, agent.child_id, agent.start):
                result = parent.results.get(call.tool_id)
                self._add(
                    Delegation(
                        *(parent, agent.child_id, call, Manner.WORKFLOW, agent.start, result),
                        task_index=agent.index - 1,
                        agent=agent,
                    )
                )

    def _fits(self, parent: Session, child_id: str, place: Place) -> bool:
        """Whether the child's own header names this parent. A child without a log says nothing against it."""
        child = self._sessions.get(child_id)
        if child is not None and child.parent_id != parent.session_id:
            self._contradict(child_id, "an agent's header names another parent than the log that launched it", place)
            return False
        return True

    def _add(self, delegation: Delegation) -> None:
        if delegation.call.tool_id in delegation.parent.repeated_tool_ids:
            reason = "the tool id of a delegation is not unique in its session"
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=delegation.call.place.source)
            self._found.contradicted.add(delegation.child_id)
        self._found.of_child.setdefault(delegation.child_id, []).append(delegation)

    def _settle(self, child_id: str) -> None:
        """Orders a child's delegations and gives each the notice that ended it."""
        launches = self._found.of_child.get(child_id, [])
        if len(launches) > 1:
            self._contradict(child_id, "two tool calls are said to have launched one agent", launches[1].link)
        if not launches and child_id not in self._found.contradicted:
            self._unproven("no native record proves which tool call launched an agent", self._where(child_id))
        if len(launches) != 1 or child_id in self._found.contradicted:
            self._found.of_child[child_id] = []
            return
        found = self._in_turn(launches[0], list(self._notices(child_id)))
        if found is None:
            # Without their ends, messages to an agent at work and new delegations cannot be told apart.
            self._contradict(child_id, "an agent's notices do not fit its delegations", launches[0].link)
            found = launches
        self._mark_stopped(child_id, found)
        self._found.of_child[child_id] = found

    def _mark_stopped(self, child_id: str, delegations: list[Delegation]) -> None:
        """A stop settles what the child had been given before, and nothing that came after: a stopped child can be sent
        more. In another log than the parent's nothing says which came first, so that nothing else may have come."""
        messages = [item.call.place.seq for item in self._messages.get(child_id, ())]
        for stopper, call in self._stops.get(child_id, ()):
            if stopper is not delegations[0].parent:
                delegations[0].is_stopped |= not messages
                continue
            for stopped in [item for item in delegations if item.call.place.seq < call.place.seq][-1:]:
                ended = stopped.notice.arrived.seq if stopped.notice is not None else call.place.seq
                stopped.is_stopped |= not any(call.place.seq < sent < ended for sent in messages)

    def _notices(self, child_id: str) -> Iterator[tuple[Session, Notice]]:
        for session in self._sessions.values():
            for notice in session.notices.values():
                if notice.sender_id == child_id:
                    yield session, notice

    def _in_turn(self, launch: Delegation, notices: list[tuple[Session, Notice]]) -> list[Delegation] | None:
        """The delegations with their notices; `None` where they do not take turns.

        Launch, messages and notices stand in one log, the parent's, whose own numbers say which came first. A notice
        that somebody else received can only be that of an only delegation.
        """
        messages = [item for item in self._messages.get(launch.child_id, []) if item.parent is launch.parent]
        if any(reader is not launch.parent for reader, _ in notices):
            if len(notices) != 1 or messages:
                return None
            launch.notice_reader, launch.notice = notices[0]
            return [launch]
        ended = launch.agent.end.seq if launch.agent is not None and launch.agent.end is not None else None
        steps: list[tuple[int, Delegation | Notice | None]] = [(item.call.place.seq, item) for item in messages]
        steps += [(notice.arrived.seq, notice) for _, notice in notices]
        steps += [] if ended is None else [(ended, None)]
        found, is_open = [launch], True
        for _, step in sorted(steps, key=lambda item: item[0]):
            if isinstance(step, Delegation):
                if not is_open:
                    step.number = len(found) + 1
                    found.append(step)
                    is_open = True
            elif not is_open:
                return None
            else:
                is_open = False
                if step is not None:
                    found[-1].notice, found[-1].notice_reader = step, launch.parent
        return found

    def _where(self, child_id: str) -> Place:
        listed = [
            session.catalogs[child_id].place for session in self._sessions.values() if child_id in session.catalogs
        ]
        return listed[0] if listed else self._sessions[child_id].header

    def _contradict(self, child_id: str, reason: str, place: Place) -> None:
        self._found.contradicted.add(child_id)
        self._unproven(reason, place)

    def _unproven(self, reason: str, place: Place) -> None:
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
        self._gaps.add(code, reason, source=place.source, line=place.line)


def launched_agents(sessions: Mapping[str, Session]) -> frozenset[str | None]:
    """Every agent that the harness says it has started, `None` for one that it does not name."""
    found: set[str | None] = set()
    for session in sessions.values():
        found |= {agent.child_id for run in session.runs.values() for agent in run.agents.values()}
        for tool_id, result in session.results.items():
            call = session.calls.get(tool_id)
            if call is None and result.word == _STARTED:
                found.add(result.agent_id)
            elif call is not None and call.name in LAUNCH_TOOLS and not result.is_error:
                found.add(result.agent_id if result.word == _STARTED else None)
    return frozenset(found)


def _is_open(parent: Session, call: ToolCall, at: Place) -> bool:
    result = parent.results.get(call.tool_id)
    return call.place.seq < at.seq and (result is None or result.place.seq > at.seq)
