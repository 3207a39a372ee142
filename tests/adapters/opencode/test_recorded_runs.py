"""The adapter against recorded runs of the real harness: everybody gets what the provider says was his."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.vocabulary import Purpose

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "harness" / "opencode" / "1.18.33"
ONCE = {"spawn": 1, "result_delivered": 1, "child_completed": 1}
TWICE = {"spawn": 2, "result_delivered": 2, "child_completed": 2}


@dataclass(frozen=True)
class Expected:
    """What a run must give: relations by type, participants as (execution status, lifecycle), root first."""

    relations: Mapping[str, int] = field(default_factory=dict)
    participants: tuple[tuple[str, str], ...] = (("completed", "complete"),)
    compactions: int = 0


DONE = ("completed", "complete")
EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(),
    "background-refused": Expected(),
    "single": Expected(ONCE, (DONE, DONE)),
    "parallel": Expected(TWICE, (DONE, DONE, DONE)),
    "identical-prompts": Expected(TWICE, (DONE, DONE, DONE)),
    "nested": Expected(TWICE, (DONE, DONE, DONE)),
    "depth-limit": Expected(ONCE, (DONE, DONE)),
    "resumed-child": Expected(TWICE, (DONE, DONE)),
    "cut-child": Expected(ONCE, (DONE, DONE)),
    "compaction": Expected(ONCE, (DONE, DONE), compactions=1),
    "subtask-command": Expected(ONCE, (DONE, DONE)),
    "child-failure": Expected({"spawn": 1, "result_delivered": 1, "child_failed": 1}, (DONE, ("failed", "complete"))),
    "background": Expected({**ONCE, "launch_acknowledged": 1}, (DONE, DONE)),
    "two-notifications": Expected({**TWICE, "launch_acknowledged": 2}, (DONE, DONE, DONE)),
    "background-failure": Expected(
        {"spawn": 1, "launch_acknowledged": 1, "result_delivered": 1, "child_failed": 1}, (DONE, ("failed", "complete"))
    ),
    "killed": Expected({"spawn": 1}, (("interrupted", "complete"), ("interrupted", "pending"))),
}
each_run = pytest.mark.parametrize("name", sorted(EXPECTED))


@cache
def calls_of(name: str) -> list[dict[str, Any]]:
    """The run's model requests, each with its owner."""
    calls: list[dict[str, Any]] = json.loads((RECORDED / name / "calls.json").read_text())
    return calls


@cache
def capture_of(name: str) -> NativeCapture:
    """What the adapter makes of the run."""
    seen: dict[str, set[str]] = {}
    for call in calls_of(name):
        for header, value in call["headers"].items():
            seen.setdefault(header, set()).add(value)
    launcher = json.loads((RECORDED / name / "native" / "launcher.json").read_text())
    headers = {header: frozenset(values) for header, values in seen.items()}
    return read(AdapterInput(RECORDED / name / "native", headers, launcher))


def claimed(capture: NativeCapture, call: dict[str, Any]) -> set[str]:
    """The participants that the claims give a call to."""
    fields = {f"header:{name}": value for name, value in call["headers"].items()}
    return {claim.participant_key for claim in capture.identity_claims if fields.get(claim.field) == claim.value}


@each_run
def test_every_call_is_claimed_for_its_owner(name: str) -> None:
    """For one participant each, by at least two ids that agree, and for different owners different ones."""
    capture = capture_of(name)
    owners: dict[str, set[str]] = {}
    for call in calls_of(name):
        [key] = claimed(capture, call)
        owners.setdefault(call["owner"], set()).add(key)
    assert all(len(keys) == 1 for keys in owners.values())
    assert len({key for keys in owners.values() for key in keys}) == len(owners)


@each_run
def test_relations_and_ends(name: str) -> None:
    """Those of the run's delegations and no others; every participant with its end; no gap."""
    capture, expected = capture_of(name), EXPECTED[name]
    assert Counter(relation.type.value for relation in capture.relations) == dict(expected.relations)
    participants = [(item.execution_status.value, item.lifecycle.value) for item in capture.participants]
    assert participants == list(expected.participants)
    assert [item.role.value for item in capture.participants] == ["root", *["child"] * (len(participants) - 1)]
    assert (capture.gaps, capture.version_tested) == ((), True)


@each_run
def test_delegations_are_by_the_tool_calls_that_the_provider_sent(name: str) -> None:
    """Each spawn has a tool id of an answer to its parent; a command's own child has an id that no model made."""
    sent = {tool_id: call["owner"] for call in calls_of(name) for tool, tool_id in call["tools"] if tool == "task"}
    spawns = [relation.tool_call_id for relation in capture_of(name).relations if relation.type == "spawn"]
    assert len(set(spawns)) == len(spawns)
    assert name == "subtask-command" or sent.keys() >= set(spawns)
    assert name != "subtask-command" or sent == {}


@each_run
def test_every_recorded_answer_had_its_call(name: str) -> None:
    """Coverage by message id: what the sessions hold was asked for, and completed on the wire."""
    capture = capture_of(name)
    completed = {
        call["headers"].get("x-roller-message-id")
        for call in calls_of(name)
        if (call["status"], call["delivered"]) == (200, "complete")
    }
    outputs = capture.coverage.outputs
    assert outputs
    assert {output.output_id for output in outputs} <= completed
    assert capture.coverage.field == "header:x-roller-message-id"


@each_run
def test_purposes_come_from_the_harness_s_own_marks(name: str) -> None:
    """One title for each root, the summary of a compaction, and otherwise an agent's turns."""
    claims = {(claim.field, claim.value): claim.purpose for claim in capture_of(name).purpose_claims}
    found: Counter[Purpose] = Counter()
    for call in calls_of(name):
        fields = [(f"header:{header}", value) for header, value in call["headers"].items()]
        [purpose] = {claims[field] for field in fields if field in claims}
        found[purpose] += 1
    assert (found[Purpose.TITLE], found[Purpose.COMPACTION]) == (1, EXPECTED[name].compactions)
    assert found.total() == len(calls_of(name))


@each_run
def test_evidence_stands_where_it_is_said_to_stand(name: str) -> None:
    """Every locator names a line of the extract that holds the id."""
    capture = capture_of(name)
    lines = (RECORDED / name / "native" / "opencode.jsonl").read_text().splitlines()
    places = [item for relation in capture.relations for item in relation.evidence]
    places += [claim.evidence for claim in capture.identity_claims]
    for place in places:
        line, _, identifier = place.locator.partition(" ")
        assert identifier.partition(":")[2] in lines[int(line.removeprefix("line:")) - 1]


def test_the_two_messages_of_one_call_have_a_header_each() -> None:
    """Both children ended while their parent was at work: their messages stand in one call, under two headers."""
    fields = {
        probe.item.field for probe in capture_of("two-notifications").context_probes if hasattr(probe.item, "field")
    }
    assert fields == {"header:x-roller-user-message-id", "header:x-roller-user-message-id-2"}


def test_a_retry_has_the_message_id_of_the_call_that_was_cut() -> None:
    """So the id proves whose both are, and only the whole one covers the recorded answer."""
    ids = [call["headers"].get("x-roller-message-id") for call in calls_of("cut-child") if call["owner"] == "child-c"]
    assert len(ids) == len(set(ids)) + 1
