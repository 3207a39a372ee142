"""The executors of an attempt: root sessions and their agents, with all that any file says about each.

Also decides whose an output is where it stands in two logs. A forked or compacting agent's log begins with a copy of
its parent's last output, so the copy is told by the harness's own marks of such a log, or by the launching tool call
that it holds (no agent makes its own launch); all else stays undecided.

Agents can write into logs. So a result says something of an agent only where its tool can delegate, and nothing but
such a result makes a participant of which no file tells.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from roller_capture.adapters.claude_code.facts import Place, ResultKind, Thread, ToolUse
from roller_capture.adapters.claude_code.log_reader import agent_key
from roller_capture.adapters.claude_code.record_shapes import DELEGATION_TOOLS, TOOLS_BY_RESULT
from roller_capture.adapters.claude_code.sessions import AgentLog, Meta, Session, is_compacting_agent
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind

_NAMING = frozenset({ResultKind.COMPLETED, ResultKind.LAUNCHED, ResultKind.RESUMED, ResultKind.OTHER_STATUS})


@dataclass(slots=True)
class Executor:
    """One native executor. `group` is the key of the root whose sessions it belongs to.

    `has_log` is false for an agent of which only metadata or the parent's log tells.
    """

    key: str
    group: str
    session_ids: tuple[str, ...]
    agent_id: str | None = None
    sidechain_uuid: str | None = None
    thread: Thread = field(default_factory=Thread)
    metas: list[Meta] = field(default_factory=list)
    told_outputs: set[str] = field(default_factory=set)
    """Outputs of which only the root's file tells that they are this executor's."""
    is_only_told: bool = False
    """No file of its own: only the root's file tells of it."""
    is_fork: bool = False
    has_log: bool = True
    named_at: Place | None = None
    parent_key: str | None = None

    @property
    def is_root(self) -> bool:
        """Whether this is the executor of a session itself."""
        return self.key == self.group

    @property
    def is_compacting(self) -> bool:
        """Whether the harness started it to compact a context, and no tool call launched it."""
        return self.agent_id is not None and is_compacting_agent(self.agent_id)

    def evidence(self) -> Evidence | None:
        """The record that spells this executor's own id."""
        label, identifier = ("session", self.session_ids[0]) if self.is_root else ("agent", self.agent_id)
        place = self.thread.id_place
        if place is not None:
            return place.evidence(label, identifier if self.sidechain_uuid is None else self.sidechain_uuid)
        if self.thread.first_place is not None:
            return self.thread.first_place.evidence(label, None)
        if self.named_at is not None:
            return self.named_at.evidence(label, identifier)
        if self.metas:
            return Evidence(EvidenceKind.NATIVE_METADATA, self.metas[0].source, "json:")
        return None


@dataclass(slots=True)
class Executors:
    """All executors by key, and the ids of outputs that name no single one."""

    by_key: dict[str, Executor]
    ambiguous_outputs: dict[str, list[str]] = field(default_factory=dict)

    def agent(self, group: str, agent_id: str) -> Executor | None:
        """The agent with this id that belongs to a root."""
        for key in (agent_key(agent_id), _key_in_group(agent_id, group)):
            found = self.by_key.get(key)
            if found is not None and found.group == group:
                return found
        return None


def find_executors(sessions: list[Session], gaps: GapLog) -> Executors:
    """The executors of all sessions. Those without any record or metadata of their own are not among them."""
    executors = Executors({})
    for session in sessions:
        group = f"session:{session.session_ids[0]}"
        if session.root is not None:
            executors.by_key[group] = Executor(group, group, session.session_ids, thread=session.root)
        _add_agents(executors, session, group, gaps)
        _discredit((executor for executor in executors.by_key.values() if executor.group == group), gaps)
        _add_named(executors, session, group, gaps)
    _settle_copies(executors, gaps)
    return executors


def _add_agents(executors: Executors, session: Session, group: str, gaps: GapLog) -> None:
    for agent in session.agents.values():
        _add_agent(executors, session, group, agent, gaps)
    for key, thread in session.told.items():
        known = executors.by_key.get(key)
        kind, _, identifier = key.partition(":")
        if known is not None and known.group == group:
            # The agent's own file tells its turns; the root's file may hold outputs that it lacks.
            known.told_outputs |= thread.outputs.keys() - known.thread.outputs.keys()
            known.thread.absorb(thread, turns=not known.has_log)
            known.has_log = True
        elif kind == "agent":
            told = _add_agent(executors, session, group, AgentLog(identifier, thread), gaps)
            if told is not None:
                told.is_only_told = True
                told.told_outputs |= thread.outputs.keys()
        elif known is not None:
            known.told_outputs |= thread.outputs.keys()
            known.thread.absorb(thread, turns=True)  # the same records in the copy of a session
        else:
            told = Executor(key, group, session.session_ids, sidechain_uuid=identifier, thread=thread)
            told.is_only_told = True
            told.told_outputs |= thread.outputs.keys()
            executors.by_key[key] = told


def _add_agent(executors: Executors, session: Session, group: str, agent: AgentLog, gaps: GapLog) -> Executor | None:
    if agent.thread is None and not agent.metas:
        return None
    executor = Executor(
        _free_key(executors, agent.agent_id, group, gaps), group, session.session_ids, agent_id=agent.agent_id
    )
    executor.metas = agent.metas
    executor.is_fork = agent.is_fork
    if agent.thread is not None:
        executor.thread = agent.thread
    else:
        executor.has_log = False
        reason = "an agent has metadata but no log"
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason, source=agent.metas[0].source)
    executors.by_key[executor.key] = executor
    return executor


def _discredit(executors: Iterable[Executor], gaps: GapLog) -> None:
    """Takes what results say of agents as nothing where the tool that gave them is known and can say no such thing."""
    for thread in (executor.thread for executor in executors):
        for result in list(thread.results.values()):
            tools = TOOLS_BY_RESULT.get(result.kind)
            use = thread.tool_uses.get(result.tool_id)
            unknown = use is None and result.kind is not ResultKind.RETRIEVED
            if tools is None or unknown or (use is not None and use.name in tools):
                continue
            thread.results[result.tool_id] = replace(result, kind=ResultKind.PLAIN, agent_id=None, structured=False)
            if result.structured:
                reason = "a result of a tool that cannot delegate names an agent"
                code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN
                gaps.add(code, reason, source=result.place.source, line=result.place.line)


def _add_named(executors: Executors, session: Session, group: str, gaps: GapLog) -> None:
    """Agents that the result of a delegating tool call names and of which nothing else exists."""
    threads = [item.thread for item in executors.by_key.values() if item.group == group]
    named = {
        result.agent_id: result.place
        for thread in threads
        for result in thread.results.values()
        if result.structured and result.kind in _NAMING and result.agent_id is not None
        if result.tool_id in thread.tool_uses and result.tool_id not in thread.contradicted_results
    }
    for agent_id, place in named.items():
        if executors.agent(group, agent_id) is None:
            reason = "an agent that a tool result names has no log"
            gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason, source=place.source, line=place.line)
            key = _free_key(executors, agent_id, group, gaps)
            executors.by_key[key] = Executor(
                key, group, session.session_ids, agent_id=agent_id, has_log=False, named_at=place
            )


def _key_in_group(agent_id: str, group: str) -> str:
    return f"{agent_key(agent_id)}@{group}"


def _free_key(executors: Executors, agent_id: str, group: str, gaps: GapLog) -> str:
    if agent_key(agent_id) not in executors.by_key:
        return agent_key(agent_id)
    gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "one agent id stands in two sessions")
    return _key_in_group(agent_id, group)


def _settle_copies(executors: Executors, gaps: GapLog) -> None:
    """Leaves each output, with its tool calls, to its one owner."""
    holders: dict[str, list[Executor]] = {}
    for executor in executors.by_key.values():
        for identifier in executor.thread.outputs:
            holders.setdefault(identifier, []).append(executor)
    copies: dict[str, set[str]] = {}
    for identifier, several in holders.items():
        owner = _owner(identifier, several)
        if owner is None and len(several) > 1:
            executors.ambiguous_outputs[identifier] = [executor.key for executor in several]
            place = several[0].thread.outputs[identifier].place
            reason = "a message id stands in the logs of two executors"
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)
            continue
        for executor in several:
            if executor is not owner:
                copies.setdefault(executor.key, set()).add(identifier)
    for executor in executors.by_key.values():
        copied = copies.get(executor.key, set())
        if executor.is_compacting:
            copied |= _inherited(executor, copied, root_is_known=executor.group in executors.by_key)
        _forget(executor.thread, copied)


def _owner(identifier: str, holders: list[Executor]) -> Executor | None:
    originals = [
        item
        for item in holders
        if not _is_launch(identifier, item) and not any(_inherits(item, other) for other in holders)
    ]
    return originals[0] if len(originals) == 1 else None


def _is_launch(identifier: str, executor: Executor) -> bool:
    """Whether the output holds the tool call that launched this very executor."""
    return any(use.output_id == identifier for use in _launches_in(executor, executor))


def _launches_in(holder: Executor, executor: Executor) -> list[ToolUse]:
    """The delegations in a holder's log that an executor's metadata name as its launch."""
    named = (holder.thread.tool_uses.get(meta.tool_use_id or "") for meta in executor.metas)
    return [use for use in named if use is not None and use.name in DELEGATION_TOOLS]


def _inherits(executor: Executor, other: Executor) -> bool:
    """Whether an output in both logs is the other's: a fork goes on from the context of the root or its launcher."""
    if executor is other:
        return False
    return executor.is_compacting or (executor.is_fork and (other.is_root or bool(_launches_in(other, executor))))


def _inherited(executor: Executor, copied: set[str], *, root_is_known: bool) -> set[str]:
    """What a compacting agent may not call its own: all that stands before the last known copy, and everything where
    the log that it was copied from is missing."""
    outputs = executor.thread.outputs
    if not root_is_known:
        return set(outputs)
    last = max((outputs[identifier].place.line for identifier in copied), default=0)
    return {identifier for identifier, output in outputs.items() if output.place.line < last}


def _forget(thread: Thread, outputs: set[str]) -> None:
    if outputs:
        thread.outputs = {key: output for key, output in thread.outputs.items() if key not in outputs}
        copied = {key for key, use in thread.tool_uses.items() if use.output_id in outputs}
        thread.tool_uses = {key: use for key, use in thread.tool_uses.items() if key not in copied}
        thread.results = {key: result for key, result in thread.results.items() if key not in copied}
