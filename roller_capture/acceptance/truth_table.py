"""Holds a published capture against the provider's record. Knows wire and published format, and no adapter.

A call is recognised by the nonce of its answer: it stands in the call's response id, output, `request-id` header or
error text, and in no other call's. Owners are the provider's; a participant is matched with the owner of most of its
calls, and no two participants with the same one.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from roller_capture import json_text
from roller_capture.acceptance.captured_run import Capture
from roller_capture.acceptance.expected import Delegation, as_it_stands
from roller_capture.scripted_provider import TruthRecord
from roller_capture.scripted_provider.request import nonces_in

_AGENT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRUNCATED = frozenset({"max_tokens", "length", "max_output_tokens"})


class ComparisonError(Exception):
    """Capture and record do not even have the same things in them; the text says which."""


class Relation(NamedTuple):
    """A relation in the provider's words: owners for participants, nonces for calls."""

    type: str
    parent: str
    child: str
    tool_call_id: str
    parent_call: str
    context_call: str | None = None


class TruthTable:
    """The comparison of one capture with the truth.

    `delegation_tools` are the names of the tools by which this harness's model delegates, `plain_tool_id` reduces each
    of its spellings of a tool call's id to what they share (`Plan.plain_tool_id`).
    """

    delegation_tools: tuple[str, ...] = ()

    def __init__(
        self,
        capture: Capture,
        delegation_tools: tuple[str, ...] | None = None,
        plain_tool_id: Callable[[str], str] = as_it_stands,
    ) -> None:
        self.capture = capture
        self._plain = plain_tool_id
        if delegation_tools is not None:
            self.delegation_tools = delegation_tools

    @cached_property
    def truth(self) -> Mapping[str, TruthRecord]:
        """The provider's records by nonce."""
        return {record.nonce: record for record in self.capture.truth}

    @cached_property
    def calls(self) -> Mapping[str, dict[str, Any]]:
        """The published calls by the nonce of their answers; each must have exactly one, and each its own."""
        found: dict[str, dict[str, Any]] = {}
        for call in self.capture.calls:
            head = {name: value for name, value in call.items() if name not in ("context", "context_raw")}
            marks = nonces_in(json.dumps(head))
            if len(marks) != 1 or not marks.isdisjoint(found):
                raise ComparisonError(f"call {call['call_id']} shows {len(marks)} answers, or one that another shows")
            found[next(iter(marks))] = call
        return found

    @cached_property
    def by_id(self) -> Mapping[str, dict[str, Any]]:
        """The published calls by their ids."""
        return {call["call_id"]: call for call in self.capture.calls}

    @property
    def context_items(self) -> list[tuple[dict[str, Any], Any]]:
        """Each in-context relation with the item of the request that its pointer leads to."""
        return [
            (relation, json_text.resolve_pointer(self.by_id[call_id]["context"], relation["context_pointer"]))
            for relation in self.capture.relations
            if (call_id := relation["context_call_id"]) is not None
        ]

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The owner that each published participant id stands for."""
        found: dict[str, str] = {}
        for participant in self.capture.manifest["participants"]:
            identifier = participant["participant_id"]
            made = [nonce for nonce, call in self.calls.items() if call["participant_id"] == identifier]
            ranking = Counter(str(self.truth[nonce].owner) for nonce in made).most_common(1)
            # One without calls can own none wrongly.
            found[identifier] = ranking[0][0] if ranking else f"without calls: {identifier}"
        if len(set(found.values())) != len(found):
            raise ComparisonError("one agent was published as two participants")
        return found

    @property
    def participants(self) -> dict[str, tuple[str, str | None, str]]:
        """Role, parent and execution status of each participant, by owner."""
        return {
            self.owners[participant["participant_id"]]: (
                participant["role"],
                self.owners.get(participant["parent_participant_id"]),
                participant["execution_status"],
            )
            for participant in self.capture.manifest["participants"]
        }

    @property
    def owned(self) -> dict[str, set[str]]:
        """The nonces of the calls that each participant owns, by owner."""
        owned: dict[str, set[str]] = {owner: set() for owner in self.owners.values()}
        for nonce, call in self.calls.items():
            if call["participant_id"] is not None:
                owned[self.owners[call["participant_id"]]].add(nonce)
        return owned

    @property
    def true_owned(self) -> dict[str, set[str]]:
        """The same by the provider's record."""
        owned: dict[str, set[str]] = {}
        for record in self.capture.truth:
            owned.setdefault(str(record.owner), set()).add(record.nonce)
        return owned

    @property
    def wrong(self) -> list[str]:
        """Calls that were given to somebody else than their owner."""
        return [
            nonce
            for nonce, call in self.calls.items()
            if call["participant_id"] is not None and self.owners[call["participant_id"]] != self.truth[nonce].owner
        ]

    @property
    def unattributed(self) -> list[str]:
        """Calls that were given to nobody."""
        return [nonce for nonce, call in self.calls.items() if call["participant_id"] is None]

    @property
    def exportable(self) -> set[str]:
        """Calls published as exportable."""
        return {nonce for nonce, call in self.calls.items() if call["export_status"] == "exportable"}

    @property
    def truly_exportable(self) -> set[str]:
        """Answers that went out whole and ended well."""
        return {
            record.nonce for record in self.capture.truth if record.answered_whole and record.finish not in _TRUNCATED
        }

    @property
    def relations(self) -> Counter[Relation]:
        """The published relations in the provider's words."""
        nonces = {call["call_id"]: nonce for nonce, call in self.calls.items()}
        return Counter(
            Relation(
                relation["type"],
                self.owners[relation["parent_participant_id"]],
                self.owners[relation["child_participant_id"]],
                self._plain(relation["tool_call_id"]),
                nonces[relation["parent_call_id"]],
                nonces.get(relation["context_call_id"]),
            )
            for relation in self.capture.relations
        )

    def true_relations(self, failed: frozenset[str], background: str | None) -> Counter[Relation]:
        """What the delegations must give. Children in `failed` did not end well; the child `background` is the one that
        is launched, or resumed, without being waited for.

        A delegation is a tool call that went out in a whole answer. Its result in a later request of the parent tells
        the child, by the answers that stand in it; a result without any is an acknowledgement, and then the child's own
        final answer arrives elsewhere in a request.
        """
        found: Counter[Relation] = Counter()
        for record, tool_id in self.delegations:
            holders = [later for later in self.capture.truth if tool_id in later.results_seen]
            assert {holder.owner for holder in holders} == {record.owner}
            owners = {str(self.truth[nonce].owner) for nonce in holders[0].results_seen[tool_id]}
            [child] = owners or {str(background)}
            end = "child_failed" if child in failed else "child_completed"
            kinds: list[tuple[str, str | None]] = [("spawn", None), ("result_delivered", None), (end, None)]
            if owners:
                kinds += [("result_in_context", holder.nonce) for holder in holders]
            else:
                kinds.append(("launch_acknowledged", None))
                kinds += [("launch_ack_in_context", holder.nonce) for holder in holders]
                kinds += [("result_in_context", nonce) for nonce in self._notified(record.owner, child)]
            for kind, context_call in kinds:
                found[Relation(kind, str(record.owner), child, tool_id, record.nonce, context_call)] += 1
        return found

    def relations_of(self, delegations: Sequence[Delegation]) -> Counter[Relation]:
        """The relations of the given delegations, with the calls that the provider saw hold their results.

        Raises `ComparisonError` when the script was not asked for just these.
        """
        found: Counter[Relation] = Counter()
        tasks = Counter(delegation.child for delegation in delegations)
        given: Counter[str] = Counter()
        for (record, tool_id), delegation in self._paired(delegations):
            task = given[delegation.child] if tasks[delegation.child] > 1 else None
            given[delegation.child] += 1
            acknowledged = ["launch_acknowledged"] if delegation.background else []
            ended = ["result_delivered", delegation.end] if delegation.end else []
            # A forked child's requests hold the items of its parent, too.
            held_by = [
                later.nonce
                for later in self.capture.truth
                if later.owner == delegation.parent and tool_id in map(self._plain, later.results_seen)
            ]
            in_context = {"launch_ack_in_context" if delegation.background else "result_in_context": held_by}
            if delegation.background and delegation.end:
                in_context["result_in_context"] = self._told(delegation, task)
            pairs: list[tuple[str, str | None]] = [(kind, None) for kind in ["spawn", *acknowledged, *ended]]
            pairs += [(kind, nonce) for kind, nonces in in_context.items() for nonce in nonces]
            for kind, context_call in pairs:
                found[Relation(kind, delegation.parent, delegation.child, tool_id, record.nonce, context_call)] += 1
        return found

    def _paired(self, expected: Sequence[Delegation]) -> list[tuple[tuple[TruthRecord, str], Delegation]]:
        made = iter(self.delegations)
        pairs: list[tuple[tuple[TruthRecord, str], Delegation]] = []
        for delegation in expected:
            call = pairs[-1][0] if delegation.same_call else next(made, None)
            if call is None or call[0].owner != delegation.parent:
                raise ComparisonError(f"the provider was not asked to delegate to {delegation.child or 'nobody'}")
            pairs.append((call, delegation))
        if next(made, None) is not None:
            raise ComparisonError("there were more delegations than the scenario has")
        return [
            (call, replace(delegation, child=self._twin(call[1], delegation)) if delegation.twin else delegation)
            for call, delegation in pairs
            if not delegation.refused
        ]

    def _twin(self, tool_id: str, delegation: Delegation) -> str:
        """Which of the children with one prompt a tool call launched."""
        owners = self._announced_as(tool_id, delegation) if delegation.background else self._answered_as(tool_id)
        if len(owners) != 1:
            raise ComparisonError(f"the result of a tool call leads to the answers of {len(owners)} agents")
        return owners.pop()

    def _announced_as(self, tool_id: str, delegation: Delegation) -> set[str]:
        """The agents whose answers came in a message of their own, with the one id that the result names; by the
        requests of the receiver, as the recorder has them."""
        contexts = [self.calls[one.nonce]["context"] for one in self.capture.truth if one.owner == delegation.receiver]
        texts = {json.dumps(item) for context in contexts for item in context.get("messages", context.get("input", ()))}
        named = {name for text in texts if tool_id in text for name in _AGENT_ID.findall(text)}
        told = {nonce for text in texts if any(name in text for name in named) for nonce in nonces_in(text)}
        return {str(self.truth[nonce].owner) for nonce in told} - {delegation.parent}

    def _answered_as(self, tool_id: str) -> set[str]:
        """The agents whose answers the provider saw come back as the result of a tool call."""
        return {
            str(self.truth[nonce].owner)
            for later in self.capture.truth
            for result_id, nonces in later.results_seen.items()
            if self._plain(result_id) == tool_id
            for nonce in nonces
        }

    def _told(self, delegation: Delegation, task: int | None) -> list[str]:
        """Requests of the receiver that carry an answer of the child, or its error, outside of any tool result; of a
        child with several tasks its answer to this one, counted from 0. One that failed may have said its last while it
        called a tool, or left its telling to the harness."""
        if delegation.told_as is not None:
            return [
                record.nonce
                for record in self.capture.truth
                if record.owner == delegation.receiver
                and delegation.told_as in json.dumps(self.calls[record.nonce]["context"])
            ]
        answers = [one for one in self.capture.truth if one.owner == delegation.child]
        closing = [one for one in answers if not one.tools]
        if task is not None:
            closing = closing[task : task + 1]
        own = {one.nonce for one in (answers if delegation.end == "child_failed" else closing)}
        return [
            record.nonce
            for record in self.capture.truth
            if record.owner == delegation.receiver
            and own & record.nonces_seen - frozenset().union(*record.results_seen.values())
        ]

    @property
    def delegations(self) -> list[tuple[TruthRecord, str]]:
        """The answers that delegated, each with the delegating tool call's plain id, in order."""
        return [
            (record, self._plain(tool_id))
            for record in self.capture.truth
            for name, tool_id in (record.tools if record.answered_whole else ())
            if name in self.delegation_tools
        ]

    def _notified(self, parent: str | None, child: str) -> list[str]:
        """Requests of the parent that carry the child's last answer outside of any tool result."""
        last = [record for record in self.capture.truth if record.owner == child][-1]
        return [
            record.nonce
            for record in self.capture.truth
            if record.owner == parent
            and last.nonce in record.nonces_seen
            and last.nonce not in frozenset().union(*record.results_seen.values())
        ]
