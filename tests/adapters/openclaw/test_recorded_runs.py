"""Runs of the real gateway against a scripted provider, and what must be read from their records.

`calls.json` holds the provider's own record of who asked: it and the adapter share no code.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.openclaw import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.vocabulary import DeliveryKind, Role

_RUNS = sorted((Path(__file__).parents[2] / "fixtures" / "harness" / "openclaw" / "2026.9.6").iterdir())
_SPAWNED = {"spawn": 1, "launch_acknowledged": 1}
_DONE = {**_SPAWNED, "child_completed": 1, "result_delivered": 1}
_TWICE = dict.fromkeys(_DONE, 2)

# scenario: (relations, execution status and lifecycle of each child)
_EXPECTED: dict[str, tuple[dict[str, int], list[tuple[str, str]]]] = {
    "ordinary": ({}, []),
    "compaction": ({}, []),
    "single": (_DONE, [("completed", "complete")]),
    "background": (_DONE, [("completed", "complete")]),
    "mid-turn": (_DONE, [("completed", "complete")]),
    "identical-prompts": (_TWICE, [("completed", "complete")] * 2),
    "background-pair": ({**_TWICE, "result_delivered": 4}, [("completed", "complete")] * 2),
    "nested": (_TWICE, [("completed", "complete")] * 2),
    "child-failure": (
        {**_SPAWNED, "child_failed": 1, "result_delivered": 1},
        [("failed", "complete")],
    ),
    "resumed-child": (
        {**_DONE, "spawn": 2, "child_completed": 2, "result_delivered": 2},
        [("completed", "complete")],
    ),
    "sent-without-waiting": (
        {"spawn": 3, "launch_acknowledged": 3, "child_completed": 3, "result_delivered": 3},
        [("completed", "complete")],
    ),
    "sent-and-failed": (
        {"spawn": 3, "launch_acknowledged": 2, "child_completed": 1, "child_failed": 2, "result_delivered": 3},
        [("failed", "complete")],
    ),
    "stopped-child": (_SPAWNED, [("interrupted", "complete")]),
    "never-ends": (_SPAWNED, [("interrupted", "pending")]),
}


def _calls(run: Path) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = json.loads((run / "calls.json").read_text())
    return calls


def _read(run: Path, scratch: Path) -> NativeCapture:
    native = run / "native"
    launcher = json.loads((native / "launcher.json").read_text())
    headers = {
        "x-roller-session-id": frozenset(call["session_id"] for call in _calls(run) if call["session_id"]),
        "x-roller-run-id": frozenset(call["run_id"] for call in _calls(run)),
    }
    return read(AdapterInput(native, headers, launcher, scratch))


each_run = pytest.mark.parametrize("run", _RUNS, ids=[path.name for path in _RUNS])


@each_run
def test_every_call_belongs_to_its_owner_by_both_proofs(run: Path, tmp_path: Path) -> None:
    """The session that the hook named, and the response id in the transcript of a call that was answered."""
    native = _read(run, tmp_path)
    claims = {(claim.field, claim.value): claim.participant_key for claim in native.identity_claims}
    owners: dict[str, set[str]] = {}
    for call in _calls(run):
        by_session = claims.get(("header:x-roller-session-id", call["session_id"]))
        key = by_session or claims["header:x-roller-run-id", call["run_id"]]
        owners.setdefault(key, set()).add(call["owner"])
        assert claims.get(("response_id", call["response_id"]), key) == key
    assert all(len(names) == 1 for names in owners.values())
    assert len({name for names in owners.values() for name in names}) == len(owners) == len(native.participants)
    [root] = [item.key for item in native.participants if item.role is Role.ROOT]
    assert owners[root] == {"root"}


@each_run
def test_relations_and_ends_are_the_true_ones(run: Path, tmp_path: Path) -> None:
    """As many as the scenario has; nothing is left unproven."""
    native = _read(run, tmp_path)
    relations, children = _EXPECTED[run.name]
    assert Counter(relation.type.value for relation in native.relations) == relations
    found = [
        (item.execution_status.value, item.lifecycle.value) for item in native.participants if item.role is Role.CHILD
    ]
    assert found == children
    assert native.gaps == ()
    assert native.version_tested


@each_run
def test_every_locator_holds_what_it_says(run: Path, tmp_path: Path) -> None:
    """Each line is there, and the id that a locator names stands on it."""
    native = _read(run, tmp_path)
    paths = {item.source: item.path for item in native.sources}
    evidence = [item for relation in native.relations for item in relation.evidence]
    evidence += [claim.evidence for claim in native.identity_claims]
    for item in evidence:
        line, _, named = item.locator.removeprefix("line:").partition(" ")
        text = paths[item.source].read_text().splitlines()[int(line) - 1]
        assert named.partition(":")[2] in text


@each_run
def test_stream_contexts_are_counted(run: Path, tmp_path: Path) -> None:
    """The protocol's own count: one for each call of a session; a compaction call is given none."""
    of_sessions = [call for call in _calls(run) if call["session_id"]]
    assert sum(_read(run, tmp_path).coverage.protocol_count.values()) == len(of_sessions)


def test_a_nested_announcement_holds_the_inner_one_whole(tmp_path: Path) -> None:
    """The child that had yielded is entered anew under the id that woke it; the root is told by one that holds it."""
    [run] = [path for path in _RUNS if path.name == "nested"]
    deliveries = [one.delivery for one in _read(run, tmp_path).relations if one.delivery is not None]
    inner, outer = sorted({one.bound_id for one in deliveries if one.kind is DeliveryKind.NOTIFICATION}, key=len)
    assert inner in outer
