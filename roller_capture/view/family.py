"""Puts the agents of an attempt into a tree: each child in the place of its spawn, each call with its owner.

The parent is what the manifest says; the place is the call that the child's first spawn relation proves. A child whose
call is not known stands directly under its parent, one without a parent at the top. Nothing is guessed.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from roller_capture.view.attempt import Attempt, Call
from roller_capture.vocabulary import RelationType, Role

DEEPEST: Final = 40
"""Agents nested deeper are shown at the top: no terminal is that wide, and JSON readers have limits."""

_SHORTEST_ID: Final = 8
_LONGEST_ID: Final = 40
_ID_KINDS: Final = ("agent_id", "thread_id", "session_id")


@dataclass(slots=True, eq=False)
class Agent:
    """A participant in the tree. `spawned` and `resumed` go by the call that made the delegation."""

    record: dict[str, Any]
    name: str
    calls: list[Call] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    children: list["Agent"] = field(default_factory=list)
    spawned: dict[str, list["Agent"]] = field(default_factory=dict)
    resumed: dict[str, list[tuple["Agent", int]]] = field(default_factory=dict)

    @property
    def participant_id(self) -> str:
        """Its id."""
        return str(self.record["participant_id"])


@dataclass(slots=True)
class Family:
    """All agents, those at the top, and the calls that belong to none."""

    agents: dict[str, Agent]
    top: list[Agent] = field(default_factory=list)
    unowned: list[Call] = field(default_factory=list)
    strays: dict[str, str] = field(default_factory=dict)
    """participant_id → why it stands at the top although it is no root."""

    def name(self, participant_id: str | None) -> str:
        """How a participant is called in sentences."""
        if participant_id is None:
            return "an unknown agent"
        agent = self.agents.get(participant_id)
        return agent.name if agent else participant_id


def family_of(attempt: Attempt) -> Family:
    """The tree of an attempt."""
    records = attempt.manifest["participants"]
    names = _names(records)
    family = Family({item["participant_id"]: Agent(item, names[item["participant_id"]]) for item in records})
    for call in attempt.calls:
        owner = family.agents.get(call.record["participant_id"] or "")
        (owner.calls if owner else family.unowned).append(call)
    for agent in family.agents.values():
        agent.calls.sort(key=lambda call: call.number)
    for relation in attempt.relations:
        family.agents[relation["child_participant_id"]].relations.append(relation)
    for agent, parent in _placed(family):
        _place(agent, parent)
    return family


def _placed(family: Family) -> Iterator[tuple[Agent, Agent]]:
    """Each agent that stands under a parent, with the parent; the others go to the top."""
    below: dict[str, list[Agent]] = {}
    for agent in family.agents.values():
        parent_id = agent.record["parent_participant_id"]
        if parent_id in family.agents:
            below.setdefault(parent_id, []).append(agent)
        elif agent.record["role"] == Role.ROOT:
            family.top.append(agent)
    strays = [
        agent
        for agent in family.agents.values()
        if agent.record["parent_participant_id"] not in family.agents and agent.record["role"] != Role.ROOT
    ]
    seen: set[str] = set()
    for start in (*family.top, *strays, *family.agents.values()):
        if start.participant_id in seen:
            continue
        if start not in family.top:
            circle = start.record["parent_participant_id"] in family.agents
            family.strays[start.participant_id] = "its parents form a circle" if circle else "its parent is not known"
            family.top.append(start)
        yield from _descendants(start, below, seen, family)


def _descendants(
    start: Agent, below: dict[str, list[Agent]], seen: set[str], family: Family
) -> Iterator[tuple[Agent, Agent]]:
    queue = deque([(start, 1)])
    seen.add(start.participant_id)
    while queue:
        parent, depth = queue.popleft()
        for child in below.get(parent.participant_id, ()):
            if child.participant_id in seen:
                continue
            seen.add(child.participant_id)
            if depth < DEEPEST:
                yield child, parent
                queue.append((child, depth + 1))
            else:
                family.strays[child.participant_id] = f"nested deeper than {DEEPEST} levels, a child of {parent.name}"
                family.top.append(child)
                queue.append((child, 1))


def _place(child: Agent, parent: Agent) -> None:
    own_calls = {call.call_id for call in parent.calls}
    spawns = [
        (relation["delegation"], relation["parent_call_id"])
        for relation in child.relations
        if relation["type"] == RelationType.SPAWN and relation["parent_call_id"] in own_calls
    ]
    places = sorted(spawns, key=lambda item: item[0])
    if not places or places[0][0] > 1:
        parent.children.append(child)
    else:
        parent.spawned.setdefault(places.pop(0)[1], []).append(child)
    for delegation, call_id in places:
        if delegation > 1:
            parent.resumed.setdefault(call_id, []).append((child, delegation))


def _names(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """`root`, or the role with as much of a native id as tells the agents apart; every name stands for one agent."""
    ids = _own_ids(records)
    short = _shortener(ids.values())
    roots = sum(item["role"] == Role.ROOT for item in records)
    names: dict[str, str] = {}
    uses: Counter[str] = Counter()
    for item in records:
        plain_root = item["role"] == Role.ROOT and roots == 1
        name = "root" if plain_root else f"{item['role']} {short(ids[item['participant_id']])}"
        uses[name] += 1
        names[item["participant_id"]] = name if uses[name] == 1 else f"{name} ({uses[name]})"
    return names


def _own_ids(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """For each participant a native id that is its alone; its participant id where it has none."""
    holders = Counter(
        (kind, value) for item in records for kind, values in item["native_ids"].items() for value in set(values)
    )
    own: dict[str, str] = {}
    for item in records:
        native: dict[str, list[str]] = item["native_ids"]
        kinds = (*_ID_KINDS, *sorted(set(native) - set(_ID_KINDS)))
        candidates = (value for kind in kinds for value in native.get(kind, ()) if holders[kind, value] == 1 and value)
        own[item["participant_id"]] = next(candidates, item["participant_id"])
    return own


def _shortener(ids: Iterable[str]) -> Callable[[str], str]:
    distinct = set(ids)
    lengths = range(_SHORTEST_ID, _LONGEST_ID)
    length = next((size for size in lengths if len({item[:size] for item in distinct}) == len(distinct)), _LONGEST_ID)
    return lambda text: text[:length]
