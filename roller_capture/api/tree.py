"""The agents of an attempt as a tree, as far as it is proven."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from roller_capture.api.participants import Participant, Relation
from roller_capture.vocabulary import RelationType


@dataclass(slots=True, eq=False)
class Agent:
    """A participant in its place. `spawned_by` are its launches: more than one where it was resumed."""

    participant: Participant
    spawned_by: tuple[Relation, ...] = ()
    children: list["Agent"] = field(default_factory=list)

    def walk(self) -> Iterator["Agent"]:
        """This agent and all below it, parents first."""
        waiting = [self]
        while waiting:
            agent = waiting.pop()
            yield agent
            waiting += reversed(agent.children)


def tree_of(participants: Sequence[Participant], relations: Sequence[Relation]) -> tuple[Agent, ...]:
    """The agents at the top: those without a known parent. Parents that form a ring are cut where it begins."""
    agents = {item.participant_id: Agent(item, _spawns(item, relations)) for item in participants}
    top = [agent for agent in agents.values() if _parent(agent, agents) is None]
    for agent in agents.values():
        parent = _parent(agent, agents)
        if parent is not None:
            parent.children.append(agent)
    reached = {id(agent) for root in top for agent in root.walk()}
    for agent in agents.values():
        if id(agent) in reached:
            continue
        parent = _parent(agent, agents)
        if parent is not None:
            parent.children.remove(agent)
        top.append(agent)
        reached |= {id(below) for below in agent.walk()}
    return tuple(top)


def _parent(agent: Agent, agents: dict[str, Agent]) -> Agent | None:
    parent = agent.participant.parent_participant_id
    return None if parent is None else agents.get(parent)


def _spawns(participant: Participant, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    return tuple(
        relation
        for relation in relations
        if relation.type is RelationType.SPAWN and relation.child_participant_id == participant.participant_id
    )
