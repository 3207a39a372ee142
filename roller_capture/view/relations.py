"""How a child came to be, ended and was heard of: one sentence per fact, each with the records that prove it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roller_capture.view.attempt import Call
from roller_capture.view.family import Agent, Family
from roller_capture.view.words import call_numbers, cut
from roller_capture.vocabulary import RelationType

Relation = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence, and the relations behind it."""

    text: str
    relations: tuple[Relation, ...]


class RelationWords:
    """Words the relations of one attempt; in-context relations of one delivery are one sentence unless `expanded`."""

    def __init__(self, calls: Sequence[Call], family: Family, *, expanded: bool) -> None:
        self._calls: Mapping[str, Call] = {call.call_id: call for call in calls}
        self._family = family
        self._expanded = expanded
        self._sentences: dict[str, Callable[[Relation], str]] = {
            RelationType.SPAWN: self._spawn,
            RelationType.LAUNCH_ACKNOWLEDGED: self._acknowledged,
            RelationType.CHILD_COMPLETED: self._completed,
            RelationType.CHILD_FAILED: self._failed,
            RelationType.RESULT_DELIVERED: self._delivered,
        }

    def facts(self, agent: Agent) -> Iterator[Fact]:
        """The facts about one child, delegation by delegation, in the order of a task's life."""
        by_delegation: dict[int, dict[str, list[Relation]]] = {}
        for relation in agent.relations:
            by_delegation.setdefault(relation["delegation"], {}).setdefault(relation["type"], []).append(relation)
        for delegation, by_type in sorted(by_delegation.items()):
            prefix = f"delegation {delegation}: " if len(by_delegation) > 1 else ""
            for kind in _LIFE:
                for fact in self._facts_of(kind, by_type.get(kind, ())):
                    yield Fact(prefix + fact.text, fact.relations)

    def _facts_of(self, kind: RelationType, relations: Sequence[Relation]) -> Iterator[Fact]:
        if kind in self._sentences:
            yield from (Fact(self._sentences[kind](item), (item,)) for item in relations)
            return
        groups: dict[object, list[Relation]] = {}
        for index, item in enumerate(relations):
            key = index if self._expanded else (self._receiver(item), item["delivery"]["bound_id"], item["task_index"])
            groups.setdefault(key, []).append(item)
        for group in groups.values():
            ordered = sorted(group, key=self._place)
            yield Fact(self._in_context(kind, ordered), tuple(ordered))

    def _spawn(self, relation: Relation) -> str:
        tool_call_id = relation["tool_call_id"]
        call = self._calls.get(relation["parent_call_id"] or "")
        verb = "spawned" if relation["delegation"] == 1 else "given a new task"
        task = "" if relation["task_index"] is None else f", task index {relation['task_index']}"
        if tool_call_id is None:
            return f"{verb} by {self._family.name(relation['parent_participant_id'])}{task}"
        reference = relation["model_tool_ref"] or {"call_id": None, "item_id": None}
        names = [
            ref["name"]
            for ref in (call.record["tool_refs"] if call else ())
            if ref["tool_call_id"] == reference["call_id"] and ref["item_id"] == reference["item_id"] and ref["name"]
        ]
        tool = f"{cut(names[0])} " if len(names) == 1 else "tool call "
        where = f"in {self.call(relation['parent_call_id'])}" if call else "in a call that is not known"
        return f"{verb} by {tool}{cut(tool_call_id)} {where}{task}"

    def _acknowledged(self, relation: Relation) -> str:
        return f"launch acknowledged to {self._receiver(relation)} {_carrier(relation)}"

    def _completed(self, relation: Relation) -> str:
        outcome = relation["outcome"]
        said = "" if outcome in (None, "completed") else f", outcome {cut(outcome)}"
        return f"end recorded: completed{said}"

    def _failed(self, relation: Relation) -> str:
        outcome = relation["outcome"]
        said = "" if outcome in (None, "failed") else f", outcome {cut(outcome)}"
        return f"end recorded: failed{said}"

    def _delivered(self, relation: Relation) -> str:
        outcome = relation["outcome"]
        said = "" if outcome in (None, "completed") else f", outcome {cut(outcome)}"
        return f"result delivered to {self._receiver(relation)} {_carrier(relation)}{said}"

    def _in_context(self, kind: RelationType, ordered: Sequence[Relation]) -> str:
        what = "result" if kind is RelationType.RESULT_IN_CONTEXT else "acknowledgement"
        first, later = ordered[0], ordered[1:]
        where = f"{self.call(first['context_call_id'])} at {cut(first['context_pointer'], 80)}"
        text = f"{what} in the context of {self._receiver(first)}: {where}"
        others = [self._calls.get(item["context_call_id"]) for item in later]
        numbers = [call.number for call in others if call]
        return f"{text}, then {call_numbers(numbers)}" if numbers else text

    def _receiver(self, relation: Relation) -> str:
        return self._family.name(relation["receiver_participant_id"] or relation["parent_participant_id"])

    def call(self, call_id: str | None) -> str:
        """A call by its number."""
        call = self._calls.get(call_id or "")
        return f"#{call.number}" if call else f"call {cut(call_id or 'unknown')} (not in calls.jsonl)"

    def _place(self, relation: Relation) -> int:
        call = self._calls.get(relation["context_call_id"])
        return call.number if call else 0


_LIFE: Final = (
    RelationType.SPAWN,
    RelationType.LAUNCH_ACKNOWLEDGED,
    RelationType.LAUNCH_ACK_IN_CONTEXT,
    RelationType.CHILD_COMPLETED,
    RelationType.CHILD_FAILED,
    RelationType.RESULT_DELIVERED,
    RelationType.RESULT_IN_CONTEXT,
)


def _carrier(relation: Relation) -> str:
    delivery = relation["delivery"]
    return f"by {delivery['kind'].replace('_', ' ')}, bound by {delivery['bound_by']} {cut(delivery['bound_id'])}"
