"""What the page knows of an attempt before anything is opened: its agents, calls, relations and gaps, by number.

Agents, calls and relations stand in lists, and refer to each other by their places in them. Texts of the conversation
are not in here, only the numbers of their pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from roller_capture.paths import named
from roller_capture.view.attempt import Attempt, Call, finding_lines
from roller_capture.view.family import Agent, Family
from roller_capture.view.gaps import Gap
from roller_capture.view.html.prices import Prices
from roller_capture.view.html.time_scale import time_scale
from roller_capture.view.overview import summary_document
from roller_capture.view.provider_words import Tokens
from roller_capture.view.relations import RelationWords
from roller_capture.view.unowned import why_unowned
from roller_capture.vocabulary import RelationType, Role

Document = dict[str, Any]

_CHILD_COLOURS: Final = 8
_MEMBERS: Final = (
    "capture_id",
    "harness",
    "started_at",
    "closed_at",
    "execution_status",
    "capture_status",
    "debug_retention",
    "raw_retained",
    "capabilities",
    "counts",
    "other_requests",
)


@dataclass(frozen=True, slots=True)
class Contents:
    """What was put into pieces: for each call (by id) its texts, for each evidence (source, locator) its record."""

    calls: Mapping[str, Document]
    records: Mapping[tuple[str, str], int]


def attempt_index(
    attempt: Attempt, family: Family, gaps: Sequence[Gap], contents: Contents, prices: Prices | None
) -> Document:
    """The whole index."""
    return _Index(attempt, family, contents, prices).document(gaps)


class _Index:
    def __init__(self, attempt: Attempt, family: Family, contents: Contents, prices: Prices | None) -> None:
        self._attempt = attempt
        self._family = family
        self._contents = contents
        self._prices = prices
        self._words = RelationWords(attempt.calls, family, expanded=False)
        self._call_places = {call.call_id: place for place, call in enumerate(attempt.calls)}
        self._agent_places = {item: place for place, item in enumerate(family.agents)}
        self._relation_places = {id(item): place for place, item in enumerate(attempt.relations)}
        self._colours = _colours(family)
        self._pending = frozenset((attempt.lifecycle or {}).get("pending_participant_ids", ()))
        moments = [_moment(call.record["timing"]["request_start"]) for call in attempt.calls]
        self._begin = min((item for item in moments if item is not None), default=None)

    def document(self, gaps: Sequence[Gap]) -> Document:
        attempt, family = self._attempt, self._family
        calls = [self._call(call) for call in attempt.calls]
        return {
            **{name: attempt.manifest[name] for name in _MEMBERS},
            "path": named(attempt.path),
            "lifecycle": attempt.lifecycle,
            "end": None
            if attempt.end is None
            else {"sentence": attempt.end.sentence, "last_words": list(attempt.end.last_words)},
            "summary": summary_document(attempt),
            "begin": None if self._begin is None else self._begin.isoformat(),
            "currency": None if self._prices is None else self._prices.currency,
            "gaps": [self._gap(gap) for gap in gaps],
            "findings": finding_lines(attempt),
            "top": [self._agent_places[agent.participant_id] for agent in family.top],
            "unowned": self._calls(call.call_id for call in family.unowned),
            "agents": [self._agent(agent) for agent in family.agents.values()],
            "calls": calls,
            "stretches": time_scale((call["start"], call["ms"] or 0) for call in calls if call["start"] is not None),
            "relations": [self._relation(relation) for relation in attempt.relations],
        }

    def _calls(self, call_ids: Any) -> list[int]:
        return [self._call_places[item] for item in call_ids if item in self._call_places]

    def _agents(self, agents: Sequence[Agent]) -> list[int]:
        return [self._agent_places[agent.participant_id] for agent in agents]

    def _gap(self, gap: Gap) -> Document:
        agents = [self._agent_places[item] for item in gap.participant_ids if item in self._agent_places]
        return {
            "code": gap.code,
            "sentence": gap.sentence,
            "next": gap.next_step,
            "calls": self._calls(gap.call_ids),
            "agents": agents,
        }

    def _agent(self, agent: Agent) -> Document:
        record = agent.record
        return {
            "id": agent.participant_id,
            "name": agent.name,
            "role": record["role"],
            "colour": self._colours.get(agent.participant_id, 0),
            "parent": self._agent_places.get(record["parent_participant_id"] or ""),
            "status": record["execution_status"],
            "identity": record["identity_status"],
            "native_ids": record["native_ids"],
            "stray": self._family.strays.get(agent.participant_id),
            "pending": agent.participant_id in self._pending,
            "calls": self._calls(call.call_id for call in agent.calls),
            "spawned": [[self._call_places[item], self._agents(below)] for item, below in agent.spawned.items()],
            "resumed": [
                [
                    self._call_places[item],
                    [[self._agent_places[child.participant_id], number] for child, number in again],
                ]
                for item, again in agent.resumed.items()
            ],
            "children": self._agents(agent.children),
            "facts": [
                {
                    "text": fact.text,
                    "bad": fact.relations[0]["type"] == RelationType.CHILD_FAILED,
                    "relations": [self._relation_places[id(item)] for item in fact.relations],
                }
                for fact in self._words.facts(agent)
            ],
        }

    def _call(self, call: Call) -> Document:
        record = call.record
        owner = self._agent_places.get(record["participant_id"] or "")
        return {
            "n": call.number,
            "id": call.call_id,
            "agent": owner,
            "why": why_unowned(call, self._family) if owner is None else None,
            "protocol": record["protocol"],
            "purpose": record["purpose"],
            "model": record["model"],
            "start": self._offset(record["timing"]["request_start"]),
            "first": record["timing"]["first_byte_ms"],
            "ms": self._duration(call),
            "status": record["execution_status"],
            "response": record["response_capture_status"],
            "identity": record["identity_status"],
            "export": record["export_status"],
            "blockers": record["export_blockers"],
            "finish": call.finish,
            "http": record["http"]["status"],
            "tokens": _tokens(call.tokens),
            "cost": None if self._prices is None else self._prices.cost(call),
            "tools": [[item["name"], item["tool_call_id"]] for item in record["tool_refs"]],
            "errors": record["errors"],
            "content": self._contents.calls.get(call.call_id),
        }

    def _duration(self, call: Call) -> float | None:
        """Milliseconds, by the monotonic clock; by the wall clock where there is nothing better."""
        if call.milliseconds is not None:
            return call.milliseconds
        start, end = (_moment(call.record["timing"][name]) for name in ("request_start", "end"))
        return None if start is None or end is None else max(0.0, (end - start).total_seconds() * 1000)

    def _offset(self, text: str | None) -> float | None:
        """Milliseconds since the first request of the attempt."""
        moment = _moment(text)
        return None if moment is None or self._begin is None else (moment - self._begin).total_seconds() * 1000

    def _relation(self, relation: Document) -> Document:
        return {
            "id": relation["relation_id"],
            "type": relation["type"],
            "parent": self._agent_places.get(relation["parent_participant_id"] or ""),
            "child": self._agent_places.get(relation["child_participant_id"]),
            "tool": relation["tool_call_id"],
            "ref": relation["model_tool_ref"],
            "made_by": self._call_places.get(relation["parent_call_id"] or ""),
            "held_by": self._call_places.get(relation["context_call_id"] or ""),
            "at": relation["context_pointer"],
            "outcome": relation["outcome"],
            "delivery": relation["delivery"],
            "evidence": [
                {**item, "record": self._contents.records.get((item["source"], item["locator"]))}
                for item in relation["evidence"]
            ],
        }


def _colours(family: Family) -> dict[str, int]:
    """Roots have the first colour, children the others by turns in the order of the tree, so that neighbours differ."""
    colours: dict[str, int] = {}
    children = 0
    waiting = list(reversed(family.top))
    while waiting:
        agent = waiting.pop()
        is_root = agent.record["role"] == Role.ROOT
        colours[agent.participant_id] = 0 if is_root else 1 + children % _CHILD_COLOURS
        children += not is_root
        below = [child for spawned in agent.spawned.values() for child in spawned]
        waiting += reversed([*below, *agent.children])
    return colours


def _tokens(tokens: Tokens) -> list[int | None]:
    return [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation]


def _moment(text: str | None) -> datetime | None:
    """The time that a record names; `None` also for the form of a time that is none: month 13."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
