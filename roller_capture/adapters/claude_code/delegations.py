"""Which tool call delegated to which child: each launch of a child and each later delegation to the same one.

Only ids tie them: `toolUseId` of the child's metadata, `toolUseResult.agentId` (or `resumedAgentId`) of the result,
`parentToolUseID` of a progress record. Where they disagree, or an id stands for two things, there is no delegation but
a gap.
"""

from dataclasses import dataclass, field

from roller_capture.adapters.claude_code.executors import Executor, Executors
from roller_capture.adapters.claude_code.facts import Place, ResultKind, ToolResult, ToolUse
from roller_capture.adapters.claude_code.record_shapes import RESUME_TOOLS
from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind

_NAMING = frozenset({ResultKind.COMPLETED, ResultKind.LAUNCHED, ResultKind.OTHER_STATUS})


@dataclass(slots=True)
class Delegation:
    """One delegation to a child. `parent` and `use` are `None` where no log proves them.

    `number` counts from 1 for each child. `result` is the result of the delegating tool call itself.
    """

    child: Executor
    tool_id: str
    number: int
    link: list[Evidence]
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


@dataclass(slots=True)
class Delegations:
    """All delegations, by child, and the children whose records contradict each other."""

    of_child: dict[str, list[Delegation]] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)


class DelegationFinder:
    """Finds the delegations of all children of an attempt and sets each executor's `parent_key`."""

    def __init__(self, executors: Executors, gaps: GapLog) -> None:
        self._executors = executors
        self._gaps = gaps
        self._found = Delegations()
        self._uses: dict[tuple[str, str], list[Executor]] = {}
        self._results: dict[tuple[str, str], list[Executor]] = {}
        self._links: dict[str, list[_Link]] = {}
        self._launched: dict[tuple[str, str], set[str]] = {}
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
            proven = [item for item in self._ordered(child) if self._complete(item)]
            self._found.of_child[child.key] = proven
            launched_by = proven[0].parent if proven and proven[0].number == 1 else None
            child.parent_key = launched_by.key if launched_by is not None else None
            if launched_by is None and not child.is_compacting:
                self._unproven("no native record proves which executor launched an agent", child.evidence())
        for child in _in_cycles(children):
            child.parent_key = None
            self._found.of_child[child.key] = []
            self._contradict(child, "agents are said to have launched one another", child.evidence())
        return self._found

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
            if result.agent_id is None or not _names_child(result, use):
                continue
            link = _Link(result.tool_id, *_seen(result.place, result.tool_id), result.kind is not ResultKind.RESUMED)
            self._link(executor.group, result.agent_id, link)

    def _link(self, group: str, agent_id: str, link: _Link) -> None:
        child = self._executors.agent(group, agent_id)
        if child is not None:
            self._add_link(child, link)

    def _add_link(self, child: Executor, link: _Link) -> None:
        self._links.setdefault(child.key, []).append(link)
        if link.is_launch:
            self._launched.setdefault((child.group, link.tool_id), set()).add(child.key)

    def _ordered(self, child: Executor) -> list[Delegation]:
        """The child's delegations in order: the launch first, then as their records stand in the log."""
        by_tool: dict[str, list[_Link]] = {}
        for link in sorted(self._links.get(child.key, ()), key=_rank):
            by_tool.setdefault(link.tool_id, []).append(link)
        ordered: list[Delegation] = []
        launched = False
        for tool_id, proofs in by_tool.items():
            is_launch = any(proof.is_launch for proof in proofs)
            if is_launch and launched and not self._resumes(child, tool_id):
                self._contradict(child, "two tool calls are said to have launched one agent", proofs[0].evidence)
                continue
            launched |= is_launch
            ordered.append(Delegation(child, tool_id, len(ordered) + 1, [proof.evidence for proof in proofs]))
        return ordered

    def _resumes(self, child: Executor, tool_id: str) -> bool:
        """Whether the tool call's own input names the child: a new delegation to it."""
        holders = self._uses.get((child.group, tool_id), [])
        return any(holder.thread.tool_uses[tool_id].target == child.agent_id for holder in holders)

    def _complete(self, delegation: Delegation) -> bool:
        """Adds parent, tool call and result to a delegation; false where these are not the only ones."""
        child, tool_id = delegation.child, delegation.tool_id
        holders = [item for item in self._uses.get((child.group, tool_id), []) if item is not child]
        if len(holders) > 1 or any(tool_id in holder.thread.repeated_tool_ids for holder in holders):
            reason = "the tool id of a delegation stands for two tool calls"
            self._contradict(child, reason, delegation.link[0], AttemptErrorCode.NATIVE_ID_NOT_UNIQUE)
            return False
        stated = _stated_parent(delegation)
        if holders:
            delegation.parent = holders[0]
            delegation.use = holders[0].thread.tool_uses[tool_id]
            if stated is not None and stated != holders[0].agent_id:
                reason = "metadata names another parent than the log that holds the tool call"
                self._contradict(child, reason, delegation.link[0])
                return False
        else:
            known = self._executors.agent(child.group, stated) if stated is not None else None
            delegation.parent = known if known is not child else None
            if stated is None:
                delegation.parent = self._holder_of_result(delegation)
            self._unproven("the tool call of a delegation is in no log", delegation.link[0])
        return self._take_result(delegation)

    def _holder_of_result(self, delegation: Delegation) -> Executor | None:
        holders = self._results.get((delegation.child.group, delegation.tool_id), [])
        others = [holder for holder in holders if holder is not delegation.child]
        return others[0] if len(others) == 1 else None

    def _take_result(self, delegation: Delegation) -> bool:
        """Ties the result of the delegating tool call to it; false where ids contradict each other."""
        child, use = delegation.child, delegation.use
        result = delegation.parent.thread.results.get(delegation.tool_id) if delegation.parent is not None else None
        if result is None:
            return True
        names_one = result.structured and result.agent_id is not None
        shared = len(self._launched.get((child.group, delegation.tool_id), ())) > 1
        tied = use is None or None in (result.source_uuid, use.uuid) or result.source_uuid == use.uuid
        if (names_one and (shared or result.agent_id != child.agent_id)) or not tied:
            evidence = result.place.evidence("tool", result.tool_id)
            self._contradict(child, "a result names another agent or tool call than the delegation", evidence)
            return False
        if result.agent_id in (None, child.agent_id):
            delegation.result = result
        else:
            self._unproven("the text of a result names another agent", result.place.evidence("tool", result.tool_id))
        return True

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
