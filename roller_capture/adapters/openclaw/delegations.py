"""Which tool call started, or addressed again, which child.

Only ids tie them. A spawn is proven by its tool result (`sessions_spawn`, accepted, with the child's session key and
run id), by the child's own row, which names who spawned it, and by the registry, which keeps the spawn's run id as
`taskRunId` when it enters the run anew under another id. Where these disagree, or an id stands for two things, there
is no delegation but a gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.openclaw.announcements import Announcement
from roller_capture.adapters.openclaw.facts import (
    Answer,
    ChildRun,
    Home,
    Input,
    Place,
    Session,
    Task,
    ToolCall,
    ToolResult,
)
from roller_capture.adapters.openclaw.transcript import SEND_TOOL, SPAWN_TOOL
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode

_TOOLS = frozenset({SPAWN_TOOL, SEND_TOOL})
_ANSWERED = frozenset({"ok", "error"})
_SENT = frozenset({"ok", "accepted", "timeout"})
_REFUSED = frozenset({"error", "forbidden"})


@dataclass(slots=True)
class Delegation:
    """One delegation to a child. `run` is the registry's row of a spawn; `begin` and `task` are the child's input and
    the task of a message that was sent to it later, `told` what brought its answer where its tool result did not.
    `number` counts from 1 for each child."""

    child: Session
    parent: Session
    answer: Answer
    call: ToolCall
    result: ToolResult
    number: int = 1
    run: ChildRun | None = None
    begin: Input | None = None
    task: Task | None = None
    told: Announcement | None = None

    @property
    def is_spawn(self) -> bool:
        """Whether it started the child."""
        return self.result.tool_name == SPAWN_TOOL

    @property
    def is_answered(self) -> bool:
        """Whether its tool result says how it ended: of a message that was waited for until then."""
        return not self.is_spawn and self.result.status in _ANSWERED

    def evidence(self) -> tuple[Evidence, ...]:
        """The records that prove it."""
        found = [
            self.answer.place.evidence("tool", self.call.tool_id),
            self.result.place.evidence("tool", self.result.tool_id),
        ]
        if self.is_spawn and self.child.node is not None:
            found.append(self.child.node.evidence())
        found += [item.place.evidence() for item in (self.run, self.begin, self.task) if item is not None]
        return tuple(found)


@dataclass(slots=True)
class Delegations:
    """All that are proven, by child key, in the order in which the parent made them. `doubtful` are the children of
    which a record speaks that does not fit; `missing`: a record speaks of one that nothing else names."""

    of_child: dict[str, list[Delegation]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    missing: bool = False

    def all(self) -> Iterator[Delegation]:
        """Every delegation."""
        for found in self.of_child.values():
            yield from found


def find_delegations(home: Home, gaps: GapLog) -> Delegations:
    """The delegations that ids prove. Every child without a proven spawn is a gap."""
    finder = _Finder(home, gaps)
    for session in home.sessions.values():
        finder.look_at(session)
    for child in home.sessions.values():
        finder.name_what_is_unproven(child)
    if any(run.child_key not in home.sessions for run in home.runs):
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, "the registry names a child of which there is no row")
        finder.found.missing = True
    return finder.found


class _Finder:
    def __init__(self, home: Home, gaps: GapLog) -> None:
        self.found = Delegations()
        self._home = home
        self._gaps = gaps
        self._spawned = Counter(
            result.session_key
            for session in home.sessions.values()
            for thread in session.threads
            for result in thread.results
            if result.tool_name == SPAWN_TOOL and result.status == "accepted"
        )

    def look_at(self, parent: Session) -> None:
        """The delegations in one parent's log."""
        calls: dict[str, list[tuple[Answer, ToolCall]]] = {}
        for thread in parent.threads:
            for answer in thread.answers:
                for call in answer.tool_calls:
                    calls.setdefault(call.tool_id, []).append((answer, call))
        results = Counter(result.tool_id for thread in parent.threads for result in thread.results)
        self._name_lost_results(parent, results)
        for thread in parent.threads:
            for result in thread.results:
                child = self._addressed(parent, result)
                if child is None:
                    continue
                made = [one for one in calls.get(result.tool_id, []) if one[1].name == result.tool_name]
                if made and all(answer.is_copy for answer, _ in made):
                    continue
                if len(made) != 1 or results[result.tool_id] != 1:
                    self._unproven("a delegation's tool id stands for none or for more than one call", result)
                    continue
                self._add(Delegation(child, parent, *made[0], result))

    def name_what_is_unproven(self, child: Session) -> None:
        """A child that nobody is proven to have spawned, and messages to it of which its parent's log says nothing."""
        known = self.found.of_child.get(child.key, [])
        if child.spawned_by and not any(item.is_spawn for item in known):
            self._doubt(child.key, "no tool result proves who spawned a session", child.node or child.place)
        begun = {item.begin for item in known}
        for thread in child.threads:
            for item in thread.inputs:
                is_sent = item.source_tool == SEND_TOOL and item.source_key in child.spawned_by
                if is_sent and item not in begun:
                    self._doubt(child.key, "a session's log has a message that no tool result sent", item.place)

    def _name_lost_results(self, parent: Session, results: Mapping[str, int]) -> None:
        """A request holds the result of each tool call before it, so a transcript that goes on must hold it too."""
        for thread in parent.threads:
            for answer in thread.answers[:-1]:
                lost = [call for call in answer.tool_calls if call.name in _TOOLS and not results.get(call.tool_id)]
                if lost and not answer.is_copy:
                    reason = "a transcript that goes on does not hold the result of a tool call about a session"
                    self._doubt(None, reason, answer.place)

    def _addressed(self, parent: Session, result: ToolResult) -> Session | None:
        """The child that a result names. A refused spawn has none, though its result may hold ids too (measured)."""
        refused = (result.is_error or result.status in _REFUSED) and not result.sent_before_error
        if refused:
            return None
        if result.session_key is None or result.run_id is None:
            self._unproven("a tool result does not say which session it is about, or in which run", result)
            return None
        if result.tool_name == SPAWN_TOOL and result.status != "accepted":
            return None
        child = self._home.sessions.get(result.session_key)
        if result.tool_name == SEND_TOOL:
            # Any session can be sent a message; that delegates only where it goes to one's own child.
            if child is None or parent.key not in child.spawned_by:
                return None
            if result.status in _SENT | _REFUSED:
                return child
            self._unproven("the tool result of a message to a child has no status that is known", result)
            return None
        if child is None:
            self.found.missing = True
            reason = "a spawn was accepted, and there is no row of its session"
            self._gaps.add(
                AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason, source=result.place.source, line=result.place.line
            )
        return child

    def _add(self, delegation: Delegation) -> None:
        problem = self._complete_spawn(delegation) if delegation.is_spawn else self._complete_message(delegation)
        if problem is not None:
            self._unproven(problem, delegation.result)
            return
        known = self.found.of_child.setdefault(delegation.child.key, [])
        delegation.number = len(known) + 1
        known.append(delegation)

    def _complete_spawn(self, delegation: Delegation) -> str | None:
        """Finds the registry's row; says what contradicts the spawn."""
        child, parent, result = delegation.child, delegation.parent, delegation.result
        if self._spawned[child.key] > 1:
            return "two tool results say to have spawned the same session"
        if list(child.spawned_by) != [parent.key]:
            return "a session's row names another spawner than the tool result"
        runs = [run for run in self._home.runs if run.child_key == child.key and run.task_run_id == result.run_id]
        if len(runs) > 1 or any(run.requester_key != parent.key for run in runs):
            return "the registry contradicts a spawn's tool result"
        others = [run for run in self._home.runs if run.child_key == child.key]
        if not runs and others:
            return "the registry knows a spawned session under another run only"
        delegation.run = runs[0] if runs else None
        return None

    def _complete_message(self, delegation: Delegation) -> str | None:
        """Finds the run that a message began in the child's log."""
        run_id = delegation.result.run_id
        begins = [item for thread in delegation.child.threads for item in thread.inputs if item.key == f"{run_id}:user"]
        if len(begins) != 1:
            return "a message to a session began no run, or more than one, in that session's log"
        delegation.begin = begins[0]
        tasks = [task for task in self._home.tasks if task.run_id == run_id]
        if len(tasks) > 1 or any(task.session_key != delegation.child.key for task in tasks):
            return "the table of tasks contradicts a message to a session"
        delegation.task = tasks[0] if tasks else None
        return None

    def _unproven(self, reason: str, result: ToolResult) -> None:
        self._doubt(result.session_key, reason, result.place)

    def _doubt(self, child_key: str | None, reason: str, place: Place | None) -> None:
        source, line = (place.source, place.line) if place is not None else (None, None)
        self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=source, line=line)
        if child_key is None:
            self.found.missing = True
        else:
            self.found.doubtful.add(child_key)
