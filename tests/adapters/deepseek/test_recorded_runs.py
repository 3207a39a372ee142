"""Runs of the real program against a scripted provider, and what must be read from their logs.

`calls.json` is the provider's own record: it and the adapter share no code.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.deepseek import read
from roller_capture.adapters.deepseek.identity import SESSION_HEADER
from roller_capture.capture_protocol import NativeCapture
from roller_capture.vocabulary import Purpose, Role
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "harness" / "deepseek"
_RUNS = sorted(path.parent for path in _FIXTURES.glob("*/*/calls.json"))

_LAUNCHED = {"spawn": 1, "launch_acknowledged": 1}
_DONE = {**_LAUNCHED, "child_completed": 1, "result_delivered": 1}
_TWICE = {name: 2 * count for name, count in _DONE.items()}
_WORKFLOW = {"spawn": 2, "child_completed": 2, "result_delivered": 2}
_ENDED = ("completed", "complete")

# recording: (relations, execution status and lifecycle of each child)
_EXPECTED: dict[str, tuple[dict[str, int], list[tuple[str, str]]]] = {
    "ordinary": ({}, []),
    "cross-process-resume": ({}, []),
    "compaction": ({}, []),
    "title": ({}, []),
    "single": (_DONE, [_ENDED]),
    "single-responses": (_DONE, [_ENDED]),
    "single-chat": (_DONE, [_ENDED]),
    "background": (_DONE, [_ENDED]),
    "messages": (_DONE, [_ENDED]),
    "fork": (_DONE, [_ENDED]),
    "cut-child": (_DONE, [_ENDED]),
    "parallel": (_TWICE, [_ENDED, _ENDED]),
    "nested-allowed": (_TWICE, [_ENDED, _ENDED]),
    "resumed-child": (_TWICE, [_ENDED]),
    "tool-configs": (_WORKFLOW, [_ENDED, _ENDED]),
    "two-workflows": (_WORKFLOW, [_ENDED, _ENDED]),
    "child-failure": ({**_LAUNCHED, "child_failed": 1, "result_delivered": 1}, [("failed", "complete")]),
    "compaction-chat": ({}, []),
    # What it was given after the stop was cut by the wait ceiling.
    "stopped-again": ({name: 2 * count for name, count in _LAUNCHED.items()}, [("interrupted", "pending")]),
    "stopped-child": (_LAUNCHED, [("interrupted", "complete")]),
    "wait-ceiling": (_LAUNCHED, [("interrupted", "pending")]),
    "killed": (_LAUNCHED, [("interrupted", "pending")]),
}


_UNMARKED = {"title": 2, "compaction-chat": 3}
"""Which request is for a title, or for a compaction through another provider than the harness's own."""


def _name(run: Path) -> str:
    return f"{run.parent.name}-{run.name}"


def _read(run: Path) -> tuple[NativeCapture, list[dict[str, Any]]]:
    source, _ = recorded_run(run)
    calls: list[dict[str, Any]] = json.loads((run / "calls.json").read_bytes())
    native = read(source)
    assert_sound(native)
    return native, calls


def test_every_recording_is_expected() -> None:
    """And the other way round."""
    assert {run.name for run in _RUNS} == set(_EXPECTED)


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_each_run_gives_the_expected_relations_and_outcomes(run: Path) -> None:
    """Relations, each child's end and lifecycle are those of the scenario; nothing is left as a gap."""
    native, _ = _read(run)
    relations, children = _EXPECTED[run.name]
    assert Counter(item.type.value for item in native.relations) == relations
    ended = [
        (item.execution_status.value, item.lifecycle.value) for item in native.participants if item.role is Role.CHILD
    ]
    assert sorted(ended) == sorted(children)
    assert native.gaps == ()
    assert (native.harness_version, native.version_tested) == (run.parent.name, True)


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_the_session_header_names_one_owner_for_every_call(run: Path) -> None:
    """Each owner of the provider's record is one participant, and each participant one owner."""
    native, calls = _read(run)
    claims = {claim.value: claim.participant_key for claim in native.identity_claims if SESSION_HEADER in claim.field}
    pairs = {
        (call["owner"], claims[call["headers"][SESSION_HEADER]])
        for call in calls
        if call["headers"].get(SESSION_HEADER)
    }
    assert len({owner for owner, _ in pairs}) == len(pairs) == len({key for _, key in pairs})
    if not run.name.endswith(("-chat", "-responses")):
        assert {key for _, key in pairs} == {participant.key for participant in native.participants}


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_the_logs_hold_every_whole_answer_once(run: Path) -> None:
    """Per participant: no copy in a fork is counted, no failed or cut call is, no title or compaction is."""
    native, calls = _read(run)
    side = Counter(
        call["owner"]
        for call in calls
        if "x-deepseek-harness-compact" in call["headers"] or call["number"] == _UNMARKED.get(run.name)
    )
    whole = Counter(call["owner"] for call in calls if call["status"] == 200 and call["terminal_sent"])
    assert sorted((whole - side).values()) == sorted(
        count for count in native.coverage.protocol_count.values() if count
    )


def test_response_ids_of_the_other_providers_are_those_of_the_answers() -> None:
    """Each id in the logs is that of one call, and belongs to that call's owner."""
    for name in ("single-responses", "single-chat"):
        native, calls = _read(_FIXTURES / "0.2.1rc2" / name)
        owners = {call["response_id"]: call["owner"] for call in calls}
        claimed = {
            claim.value: claim.participant_key for claim in native.identity_claims if claim.field == "response_id"
        }
        assert claimed.keys() == owners.keys()
        assert len({(owners[value], key) for value, key in claimed.items()}) == 2


def test_a_compaction_through_another_provider_is_said_to_be_nothing() -> None:
    """It has its agent's system prompt and no mark: agent's turns are known by the ids of their answers, and it by
    nothing."""
    native, calls = _read(_FIXTURES / "0.2.1rc2" / "compaction-chat")
    turns = {call["response_id"] for call in calls if call["number"] != _UNMARKED["compaction-chat"]}
    claims = {(claim.field, claim.value) for claim in native.purpose_claims if claim.purpose is Purpose.AGENT}
    assert claims == {("response_id", identifier) for identifier in turns}
