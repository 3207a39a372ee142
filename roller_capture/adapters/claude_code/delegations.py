"""Which tool call delegated to which child: each launch of a child and each later delegation to the same one.

Only ids tie them: `toolUseId` of the child's metadata, `toolUseResult.agentId` (or `resumedAgentId`) of the result,
`parentToolUseID` of a progress record. Agents can write into logs, so each tie is held against whatever else the
harness wrote of the same call: its name, its result, the metadata's parent and depth. Where they disagree, or an id
stands for two things, there is no delegation but a gap, and no piece of evidence wins over another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roller_capture.adapters.claude_code.executors import Executor, Executors
from roller_capture.adapters.claude_code.facts import Place, ResultKind, ToolResult, ToolUse
from roller_capture.adapters.claude_code.record_shapes import DELEGATION_TOOLS, RESUME_TOOLS, TOOLS_BY_RESULT
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind

_NAMING = frozenset({ResultKind.COMPLETED, ResultKind.LAUNCHED, ResultKind.OTHER_STATUS})


@dataclass(slots=True)
class Delegation:
    """One delegation to a child. `parent` and `use` are `None` where no log proves them.

    `number` counts from 1 for each child. `tools` are the names that the tool call may have, by what ties it to the
    child. `result` is the result of the delegating tool call itself.
    """

    child: Executor
    tool_id: str
    number: int
    link: list[Evidence]
    tools: frozenset[str]
    parent: Executor | None = None
    use: ToolUse | None = None
    result: ToolResult | None = None


@dataclass(slots=True)
class _Link:
    """One proof that a tool call delegated to a child; `place` is `None` for metadata."""

    tool_id: str
    evidence: Evidence
    place: Place | None
    is_launch: bool
    tools: frozenset[str] = DELEGATION_TOOLS


@dataclass(slots=True)
class Delegations:
    """All delegations, by child, and the children whose records contradict each other."""

    of_child: dict[str, list[Delegation]] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)


class DelegationFinder:
    """Finds the delegations of all children of an attempt and sets each executor's `parent_key`."""

    def __init__(self, executors: Executors, told_parents: Mapping[str, frozenset[str]], gaps: GapLog) -> None:
        """`told_parents` are the parents that agents named in their own requests, by agent id."""
        self._executors = executors
        self._told_parents = told_parents
        self._gaps = gaps
        self._found = Delegations()
        self._uses: dict[tuple[str, str], list[Executor]] = {}
        self._results: dict[tuple[str, str], list[Executor]] = {}
        self._links: dict[str, list[_Link]] = {}
        self._delegated: dict[tuple[str, str], set[str]] = {}
        self._texts: dict[tuple[str, str], set[str]] = {}
        for executor in executors.by_key.values():
            for tool_id in executor.thread.tool_uses:
                self._uses.setdefault((executor.group, tool_id), []).append(executor)
            for tool_id in executor.thread.results:
                self._results.setdefault((executor.group, tool_id), []).append(executor)
        for executor in executors.by_key.values():
            self._collect_links(executor)

    def find(self) -> Delegations:
        """Every delegation that ids prove. A child without one has none in the result."""
        children = [executor for executor in self._executors.by_key.values() if not executor.is_root]
        for child in children:
            found = self._ordered(child)
            complete = [self._complete(item) for item in found]
            # Where one is contradicted the others cannot be numbered, and their turns not be told apart.
            self._found.of_child[child.key] = found if all(complete) else []
        self._drop_launches_by_others_than_told(children)
        self._drop_launches_by_the_unproven(children)
        for child in children:
            proven = self._found.of_child[child.key]
            launched_by = proven[0].parent if proven and proven[0].number == 1 else None
            child.parent_key = launched_by.key if launched_by is not None else None
            if launched_by is None and not child.is_compacting:
                self._unproven("no native record proves which executor launched an agent", child.evidence())
        for child in _in_cycles(children):
            child.parent_key = None
            self._found.of_child[child.key] = []
            self._contradict(child, "agents are said to have launched one another", child.evidence())
        return self._found

    def _drop_launches_by_the_unproven(self, children: list[Executor]) -> None:
        """An agent of which only the root's file tells launches nobody, unless its own launch is proven: its records
        may be the root's under another name."""
        launched: dict[str, list[str]] = {}
        for child in children:
            for item in self._found.of_child[child.key]:
                if item.parent is not None and item.use is not None:
                    launched.setdefault(item.parent.key, []).append(child.key)
        waiting = [item.key for item in self._executors.by_key.values() if not item.is_only_told]
        proven = set(waiting)
        while waiting:
            reached = set(launched.get(waiting.pop(), ())) - proven
            proven |= reached
            waiting += reached
        for child in children:
            delegations = self._found.of_child[child.key]
            if any(item.parent is not None and item.parent.key not in proven for item in delegations):
                reason = "an agent is said to have been launched by one whose own launch nothing proves"
                self._contradict(child, reason, child.evidence())
                self._found.of_child[child.key] = []

    def _drop_launches_by_others_than_told(self, children: list[Executor]) -> None:
        """A child of an agent names it in its requests. Agents can write into logs, and not into headers."""
        for child in children:
            told = self._told_parents.get(child.agent_id or "", frozenset())
            launch = next((item for item in self._found.of_child[child.key] if item.number == 1), None)
            if told and launch is not None and launch.parent is not None and launch.parent.agent_id not in told:
                self._contradict(child, "an agent's requests name another parent than its logs", launch.link[0])
                self._found.of_child[child.key] = []

    def _collect_links(self, executor: Executor) -> None:
        """The links that this executor's log and metadata hold; those of the log are about other executors."""
        for meta in executor.metas:
            if meta.tool_use_id is not None:
                evidence = Evidence(EvidenceKind.NATIVE_METADATA, meta.source, "json:/toolUseId")
                link = _Link(meta.tool_use_id, evidence, None, is_launch=True)
                self._add_link(executor, link)
        thread = executor.thread
        for known in thread.links:
            self._link(executor.group, known.agent_id, _Link(known.tool_id, *_seen(known.place, known.tool_id), True))
        for result in thread.results.values():
            use = thread.tool_uses.get(result.tool_id)
            if result.agent_id is None:
                continue
            if _names_child(result, use):
                is_launch, tools = result.kind is not ResultKind.RESUMED, TOOLS_BY_RESULT[result.kind]
                link = _Link(result.tool_id, *_seen(result.place, result.tool_id), is_launch, tools)
                self._link(executor.group, result.agent_id, link)
            elif use is not None and result.kind in _NAMING:
                self._texts.setdefault((executor.group, result.agent_id), set()).add(result.tool_id)

    def _link(self, group: str, agent_id: str, link: _Link) -> None:
        child = self._executors.agent(group, agent_id)
        if child is not None:
            self._add_link(child, link)

    def _add_link(self, child: Executor, link: _Link) -> None:
        self._links.setdefault(child.key, []).append(link)
        self._delegated.setdefault((child.group, link.tool_id), set()).add(child.key)

    def _ordered(self, child: Executor) -> list[Delegation]:
        """The child's delegations in order: the launch first, then as their records stand in the log.

        None at all where two tool calls are said to have launched it.
        """
        by_tool: dict[str, list[_Link]] = {}
        for link in sorted(self._links.get(child.key, ()), key=_rank):
            by_tool.setdefault(link.tool_id, []).append(link)
        launches = [
            proofs[0]
            for tool_id, proofs in by_tool.items()
            if any(proof.is_launch for proof in proofs) and not self._resumes(child, tool_id)
        ]
        if len(launches) > 1:
            self._contradict(child, "two tool calls are said to have launched one agent", launches[1].evidence)
            return []
        return [
            Delegation(
                child,
                tool_id,
                number,
                [proof.evidence for proof in proofs],
                frozenset.intersection(*(proof.tools for proof in proofs)),
            )
            for number, (tool_id, proofs) in enumerate(by_tool.items(), 1)
        ]

    def _resumes(self, child: Executor, tool_id: str) -> bool:
        """Whether the tool call's own input names the child: a new delegation to it."""
        holders = self._uses.get((child.group, tool_id), [])
        return any(holder.thread.tool_uses[tool_id].target == child.agent_id for holder in holders)

    def _complete(self, delegation: Delegation) -> bool:
        """Adds parent, tool call and result to a delegation; false where these are not the only ones."""
        child, tool_id = delegation.child, delegation.tool_id
        holders = self._uses.get((child.group, tool_id), [])
        if child in holders:
            self._contradict(child, "an agent is said to have been launched by its own tool call", delegation.link[0])
            return False
        if len(holders) > 1 or any(tool_id in holder.thread.repeated_tool_ids for holder in holders):
            return self._not_unique(delegation, "the tool id of a delegation stands for two tool calls")
        if len(self._delegated[child.group, tool_id]) > 1:
            return self._not_unique(delegation, "one tool call is said to have launched two agents")
        if holders:
            delegation.parent = holders[0]
            delegation.use = holders[0].thread.tool_uses[tool_id]
            reason = self._disagreement(delegation, holders[0], delegation.use)
            if reason is not None:
                self._contradict(child, reason, delegation.link[0])
                return False
        else:
            stated = _stated_parent(delegation)
            known = self._executors.agent(child.group, stated) if stated is not None else None
            delegation.parent = known if known is not child else None
            if stated is None:
                delegation.parent = self._holder_of_result(delegation)
            self._unproven("the tool call of a delegation is in no log", delegation.link[0])
        return self._take_result(delegation)

    def _disagreement(self, delegation: Delegation, parent: Executor, use: ToolUse) -> str | None:
        """What else the harness wrote that speaks against a delegation by this tool call in this log, if anything."""
        child = delegation.child
        if use.name not in delegation.tools:
            return "the tool call of a delegation is one of a tool that cannot delegate"
        stated = _stated_parent(delegation)
        if stated is not None and stated != parent.agent_id:
            return "metadata names another parent than the log that holds the tool call"
        if not _depth_fits(delegation, parent):
            return "metadata gives an agent another depth than a child of its parent has"
        if any(holder is not parent for holder in self._results_of(delegation)):
            return "the result of a delegation stands in another log than its tool call"
        texts = self._texts.get((child.group, child.agent_id or ""), set())
        if delegation.number == 1 and texts and delegation.tool_id not in texts:
            return "the text of a result names an agent that another tool call launched"
        return None

    def _results_of(self, delegation: Delegation) -> list[Executor]:
        """The executors whose logs hold the result of the delegating tool call. A child's own does not count."""
        holders = self._results.get((delegation.child.group, delegation.tool_id), [])
        return [holder for holder in holders if holder is not delegation.child]

    def _holder_of_result(self, delegation: Delegation) -> Executor | None:
        holders = self._results_of(delegation)
        return holders[0] if len(holders) == 1 else None

    def _take_result(self, delegation: Delegation) -> bool:
        """Ties the result of the delegating tool call to it; false where ids contradict each other."""
        child, use, parent = delegation.child, delegation.use, delegation.parent
        result = parent.thread.results.get(delegation.tool_id) if parent is not None else None
        if parent is None or result is None or delegation.tool_id in parent.thread.contradicted_results:
            return True
        names_other = result.structured and result.agent_id not in (None, child.agent_id)
        tied = use is None or None in (result.source_uuid, use.uuid) or result.source_uuid == use.uuid
        if names_other or not tied:
            evidence = result.place.evidence("tool", result.tool_id)
            self._contradict(child, "a result names another agent or tool call than the delegation", evidence)
            return False
        if result.agent_id in (None, child.agent_id):
            delegation.result = result
        else:
            self._unproven("the text of a result names another agent", result.place.evidence("tool", result.tool_id))
        return True

    def _not_unique(self, delegation: Delegation, reason: str) -> bool:
        """Names an id that stands for two things; always false."""
        self._contradict(delegation.child, reason, delegation.link[0], AttemptErrorCode.NATIVE_ID_NOT_UNIQUE)
        return False

    def _unproven(self, reason: str, evidence: Evidence | None) -> None:
        self._add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, evidence)

    def _contradict(
        self,
        child: Executor,
        reason: str,
        evidence: Evidence | None,
        code: AttemptErrorCode = AttemptErrorCode.NATIVE_RELATION_UNPROVEN,
    ) -> None:
        self._found.contradicted.add(child.key)
        self._add(code, reason, evidence)

    def _add(self, code: AttemptErrorCode, reason: str, evidence: Evidence | None) -> None:
        self._gaps.add(code, reason, source=evidence.source if evidence is not None else None)


def _stated_parent(delegation: Delegation) -> str | None:
    """The agent id of the parent that the child's metadata names for its launch.

    None is stated where the parent is the root, and by versions before 2.1.3xx.
    """
    metas = (meta for meta in delegation.child.metas if meta.tool_use_id == delegation.tool_id)
    return next((meta.parent_agent_id for meta in metas if meta.parent_agent_id is not None), None)


def _depth_fits(delegation: Delegation, parent: Executor) -> bool:
    """Whether the depth that the child's metadata state is one below its parent's; true where none is stated."""
    metas = [meta for meta in delegation.child.metas if meta.tool_use_id == delegation.tool_id]
    stated = {meta.spawn_depth for meta in metas} - {None}
    if parent.is_root:
        return stated <= {1}
    above = {meta.spawn_depth + 1 for meta in parent.metas if meta.spawn_depth is not None}
    return 1 not in stated and (not above or stated <= above)


def _in_cycles(children: list[Executor]) -> list[Executor]:
    """The children whose chain of parents leads back to themselves."""
    by_key = {child.key: child for child in children}
    finished: set[str] = set()
    found: list[Executor] = []
    for child in children:
        path: dict[str, int] = {}
        key: str | None = child.key
        while key is not None and key in by_key and key not in finished and key not in path:
            path[key] = len(path)
            key = by_key[key].parent_key
        if key is not None and key in path:
            found += [by_key[item] for item in list(path)[path[key] :]]
        finished.update(path)
    return found


def _seen(place: Place, tool_id: str) -> tuple[Evidence, Place]:
    return place.evidence("tool", tool_id), place


def _rank(link: _Link) -> tuple[bool, str, int]:
    """Metadata first, since it names the launch; then records in the order of their files and lines."""
    place = link.place
    return (place is not None, place.source if place is not None else "", place.line if place is not None else 0)


def _names_child(result: ToolResult, use: ToolUse | None) -> bool:
    """Whether a result ties its tool call to an agent by ids of the harness.

    A result in a child's log has only text; for a resumed agent the tool call's own input must name it too.
    """
    if result.structured:
        return result.kind in _NAMING or result.kind is ResultKind.RESUMED
    return (
        result.kind is ResultKind.RESUMED
        and use is not None
        and use.name in RESUME_TOOLS
        and use.target == result.agent_id
    )
