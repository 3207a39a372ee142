"""All conversations of an attempt, and which tool call launched which of them: by spawn relations alone."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from roller_capture.api import Agent, Attempt, Call, Participant, Relation
from roller_capture.export.atif.conversation import Conversation
from roller_capture.export.atif.images import Images
from roller_capture.export.atif.steps import refer, referred_ids, told_steps
from roller_capture.export.main.chain import NO_ROOT, NoTrajectoryError

_DEEPEST = 32
"""Agents below agents that are put into one document; readers of nested JSON give up somewhere, too."""


class LeftOut(NamedTuple):
    """A subagent without a trajectory: why, and at which call."""

    participant_id: str
    reason: str
    call_id: str | None


class Family:
    """The conversations of the root and of the agents below it.

    `left_out` are the agents without a trajectory, `unattributed` the ids of calls that nobody is proven to have made,
    `referred` the ids of trajectories that a step refers to, `images` the files that steps refer to.
    """

    def __init__(self, attempt: Attempt, calls: Iterable[Call]) -> None:
        """Goes through the calls once. Raises `NoTrajectoryError` where the root has no trajectory."""
        if len(attempt.roots) != 1:
            raise NoTrajectoryError(NO_ROOT if not attempt.roots else "several roots")
        self.attempt = attempt
        self.root = attempt.roots[0]
        self._agents = {
            agent.participant.participant_id: agent for agent in _walk(attempt.tree(), self.root.participant_id)
        }
        self._conversations = {name: Conversation(attempt, agent.participant) for name, agent in self._agents.items()}
        self.unattributed: list[str] = []
        for call in calls:
            conversation = self._conversations.get(call.participant_id or "")
            if conversation is not None:
                conversation.add(call)
            elif call.participant_id is None:
                self.unattributed.append(call.call_id)
        for conversation in self._conversations.values():
            conversation.finish(told_steps)
        refused = self.conversation(self.root).refused
        if refused is not None:
            raise refused
        self.left_out = [*self._refused(), *self._unplaced()]
        self.images = self._images()
        self.referred = {name for agent in self._agents.values() for name in self._refer(agent.participant)}

    def conversation(self, participant: Participant) -> Conversation:
        """What a participant said."""
        return self._conversations[participant.participant_id]

    def children(self, participant: Participant) -> list[Participant]:
        """The agents that it launched and that have a trajectory."""
        below = [agent.participant for agent in self._agents[participant.participant_id].children]
        return [child for child in below if child.participant_id in self._conversations and not self._is_refused(child)]

    def trajectory_ids(self, participant: Participant) -> list[str]:
        """One for each conversation between compactions."""
        count = len(self.conversation(participant).stretches)
        name = participant.participant_id
        return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]

    def _refer(self, participant: Participant) -> set[str]:
        """Puts the references into a participant's steps; the trajectories that they lead to."""
        launches = self._launches(participant)
        authors = {child.participant_id: list(self._references(child)) for child in self.children(participant)}
        for stretch in self.conversation(participant).stretches:
            refer(stretch.steps, launches, authors)
        return {name for stretch in self.conversation(participant).stretches for name in referred_ids(stretch.steps)}

    def _launches(self, participant: Participant) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """References to its children's trajectories, by the call and the tool call that launched them."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for child in self.children(participant):
            for relation in self._agents[child.participant_id].spawned_by:
                reference = relation.record["model_tool_ref"]  # null where the call is not known
                if reference:
                    place = (str(relation.parent_call_id), str(reference["call_id"]))
                    found.setdefault(place, []).extend(self._references(child, relation))
        return found

    def _references(self, child: Participant, launch: Relation | None = None) -> Iterator[dict[str, Any]]:
        told: dict[str, Any] = {"participant_id": child.participant_id}
        if launch is not None:
            told |= {"relation_id": launch.relation_id}
            told |= {name: launch.record[name] for name in ("delegation", "task_index")}
        for trajectory_id in self.trajectory_ids(child):
            yield {
                "trajectory_id": trajectory_id,
                "session_id": self.attempt.capture_id,
                "extra": {name: value for name, value in told.items() if value is not None},
            }

    def _is_refused(self, participant: Participant) -> bool:
        return self.conversation(participant).refused is not None

    def _refused(self) -> Iterator[LeftOut]:
        """Subagents whose conversation cannot be told, and those below them: they have no place without it."""
        reached = {item.participant_id for item in self._placed(self.root)}
        for name, conversation in self._conversations.items():
            if conversation.refused is not None:
                yield LeftOut(name, conversation.refused.reason, conversation.refused.call_id)
            elif name not in reached:
                yield LeftOut(name, "its parent has no trajectory", None)

    def _placed(self, participant: Participant) -> list[Participant]:
        placed = [participant]
        for item in placed:
            placed += self.children(item)
        return placed

    def _images(self) -> Images:
        """Those of all conversations that are told."""
        told = [self.conversation(participant) for participant in self._placed(self.root)]
        stretches = [stretch for conversation in told for stretch in conversation.stretches]
        return {name: data for stretch in stretches for name, data in stretch.images.items()}

    def _unplaced(self) -> Iterator[LeftOut]:
        for participant in self.attempt.participants:
            if participant.participant_id not in self._conversations:
                yield LeftOut(participant.participant_id, "not known to be below the root, or too deep below it", None)


def _walk(tops: Sequence[Agent], root_id: str) -> Iterator[Agent]:
    """The root and the agents below it, down to a depth that a document can have."""
    waiting = [(agent, 0) for agent in tops if agent.participant.participant_id == root_id]
    while waiting:
        agent, depth = waiting.pop()
        yield agent
        if depth < _DEEPEST:
            waiting += [(child, depth + 1) for child in reversed(agent.children)]
