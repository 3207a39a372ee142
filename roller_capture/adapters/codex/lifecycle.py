"""Whether a child's work is settled: ended, with each result delivered, or stopped by whoever gave it.

A stop settles what was given before it and nothing else. No id ties a stop to a turn, so its own output (the state in
which it found the child) is held against how many of the child's turns were cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from roller_capture.adapters.codex.delegations import Delegation
from roller_capture.adapters.codex.deliveries import Deliveries
from roller_capture.adapters.codex.facts import AgentState, EndState, Rollout, ToolCall, Turn, has_ended
from roller_capture.adapters.codex.record_shapes import STOP_TOOLS, agent_state
from roller_capture.adapters.codex.threads import Threads
from roller_capture.vocabulary import LifecycleStatus

_AT_REST: Final = frozenset({"completed", "errored", "interrupted", "shutdown", "not_found"})
"""States in which a stop finds nothing to cut."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A tool call that stopped an agent; `found` is the state that it found the agent in, where its output tells."""

    by: Rollout
    call: ToolCall
    found: AgentState | None

    def settles(self, delegation: Delegation) -> bool:
        """Whether it was made by whoever gave the task, once that was known to have been given."""
        given = delegation.output or delegation.call
        return self.by is delegation.parent and given.place.line < self.call.place.line

    @property
    def may_have_cut_a_turn(self) -> bool:
        """Whether the agent may have been at work."""
        return self.found is None or self.found.word not in _AT_REST


def find_stops(threads: Threads) -> dict[str, list[Stop]]:
    """The stops of each agent, by its thread id: those that the harness's own records confirm."""
    found: dict[str, list[Stop]] = {}
    for rollout in threads.by_id.values():
        active: dict[str, set[str]] = {}
        for activity in rollout.activities:
            active.setdefault(activity.call_id, set()).add(activity.thread_id)
        for call in rollout.tool_calls.values():
            if call.name not in STOP_TOOLS or call.call_id in rollout.repeated_calls:
                continue
            named = {*_stopped_by(rollout, call), *active.get(call.call_id, ())}
            if len(named) == 1:
                output = rollout.outputs.get(call.call_id)
                state = agent_state(output.value.get("previous_status")) if output is not None else None
                found.setdefault(named.pop(), []).append(Stop(rollout, call, state))
    return found


def _stopped_by(rollout: Rollout, call: ToolCall) -> Iterator[str]:
    record = rollout.collab_calls.get(call.call_id)
    is_own = record is not None and record.tool == call.name and record.sender == rollout.thread_id
    if record is not None and is_own and record.succeeded:
        yield from record.receivers


def lifecycle(
    child: Rollout, delegations: list[Delegation], deliveries: Deliveries, stops: list[Stop], *, is_doubtful: bool
) -> LifecycleStatus:
    """Of one child. `is_doubtful`: records about it disagree, or do not prove what became of one of its tasks."""
    if not child.turns or child.is_unknown_fork:
        waits = delegations and not is_doubtful and not child.usages and not child.token_counts
        return LifecycleStatus.PENDING if waits else LifecycleStatus.UNKNOWN
    ended = has_ended(child.turns[-1])
    if child.meta.side is not None:  # nobody waits for its result by a tool call
        return LifecycleStatus.COMPLETE if ended else LifecycleStatus.PENDING
    if not delegations or is_doubtful:
        return LifecycleStatus.UNKNOWN
    owed = [item for item in delegations if not any(stop.settles(item) for stop in stops)]
    if not owed and _ended_by(stops, child.turns):
        return LifecycleStatus.COMPLETE
    owed = owed or delegations
    if not ended or not all(deliveries.of(item) for item in owed):
        return LifecycleStatus.PENDING
    return LifecycleStatus.COMPLETE if all(has_ended(item.turn) for item in owed) else LifecycleStatus.UNKNOWN


def _ended_by(stops: list[Stop], turns: list[Turn]) -> bool:
    """Whether the agent's last turn is one that a stop cut, or that had ended when a stop came, by that stop's output.

    Where more turns were cut than stops can have cut, the run's own end cut one of them, which may be the last.
    """
    last = turns[-1]
    if last.state is EndState.ABORTED:
        cut = sum(turn.state is EndState.ABORTED for turn in turns)
        return cut <= sum(stop.may_have_cut_a_turn for stop in stops)
    words = {EndState.ENDED: "completed", EndState.FAILED: "errored"}
    return any(stop.found == AgentState(words.get(last.state, ""), last.message) for stop in stops)
