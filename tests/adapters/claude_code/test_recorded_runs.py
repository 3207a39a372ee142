"""Runs of the real program against a scripted provider, and what must be read from their logs.

`calls.json` is the provider's own record: it and the adapter share no code.
"""

from collections import Counter
from pathlib import Path

import pytest

from roller_capture.adapters.claude_code import read
from roller_capture.vocabulary import BoundBy, Purpose, Role
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run
from tests.adapters.claude_code.session_logs import owners

_SHARED = Path(__file__).parents[2] / "fixtures" / "harness" / "claude-code"
_OWN = Path(__file__).parent / "recorded"
_RUNS = sorted(path.parent for root in (_SHARED, _OWN) for path in root.glob("*/*/calls.json"))

_FOREGROUND = {"spawn": 1, "result_delivered": 1, "child_completed": 1}
_FAILED = {"spawn": 1, "result_delivered": 1, "child_failed": 1}
_BACKGROUND = {"spawn": 1, "launch_acknowledged": 1, "result_delivered": 1, "child_completed": 1}
_TWICE = {name: 2 * count for name, count in _FOREGROUND.items()}

# scenario: (relations, execution status and lifecycle of each child)
_DONE = ("completed", "complete")
_EXPECTED: dict[str, tuple[dict[str, int], list[tuple[str, str]]]] = {
    "ordinary": ({}, []),
    "thinking": ({}, []),
    "slow-cut": ({}, []),
    "cut-late": ({}, []),
    "error-event": ({}, []),
    "compaction": ({}, []),
    "notified-compaction": (_BACKGROUND, [_DONE]),
    "message-at-end": (_BACKGROUND | {"result_delivered": 2}, [_DONE]),
    "resumed-cut": (_FOREGROUND | {"spawn": 2, "launch_acknowledged": 1}, [("interrupted", "pending")]),
    "single": (_FOREGROUND, [_DONE]),
    "tool-error": (_FOREGROUND, [_DONE]),
    "max-tokens": (_FOREGROUND, [_DONE]),
    "cut-child": (_FOREGROUND, [_DONE]),
    "slow-cut-child": (_FOREGROUND, [_DONE]),
    "forked-session": (_FOREGROUND, [_DONE]),
    "parallel": (_TWICE, [_DONE, _DONE]),
    "identical-prompts": (_TWICE, [_DONE, _DONE]),
    "tool-configs": (_TWICE, [_DONE, _DONE]),
    "nested": (_TWICE, [_DONE, _DONE]),
    "child-failure-400": (_FAILED, [("failed", "complete")]),
    "child-failure-500": (_FAILED, [("failed", "complete")]),
    "background": (_BACKGROUND, [_DONE]),
    "forked-agent": (_BACKGROUND, [_DONE]),
    "nested-background": (dict.fromkeys(_BACKGROUND, 2), [_DONE, _DONE]),
    "mid-turn-notification": (dict.fromkeys(_BACKGROUND, 2), [_DONE, _DONE]),
    "background-failure": (_FAILED | {"launch_acknowledged": 1}, [("failed", "complete")]),
    "fetched-result": (_BACKGROUND | {"result_delivered": 2}, [_DONE]),
    "resumed-child": (_TWICE | {"launch_acknowledged": 1}, [_DONE]),
    "stopped-child": ({"spawn": 1, "launch_acknowledged": 1}, [("interrupted", "complete")]),
    "wait-ceiling": ({"spawn": 1, "launch_acknowledged": 1}, [("interrupted", "pending")]),
    "killed": ({"spawn": 1}, [("interrupted", "pending")]),
}


_COMPACTING_CALLS = {"compaction": 2, "notified-compaction": 1}


def _name(run: Path) -> str:
    return f"{run.parent.name}-{run.name}"


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_each_run_gives_the_expected_relations_and_outcomes(run: Path) -> None:
    """Relations, each child's end and lifecycle are those of the scenario; nothing is left as a gap."""
    native = read(recorded_run(run)[0])
    relations, children = _EXPECTED[run.name]
    assert_sound(native)
    assert Counter(item.type.value for item in native.relations) == relations
    ended = [
        (item.execution_status.value, item.lifecycle.value) for item in native.participants if item.role is Role.CHILD
    ]
    assert sorted(ended) == sorted(children)
    assert native.gaps == ()
    assert (native.harness_version, native.version_tested) == (run.parent.name, True)


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_response_id_and_header_name_the_same_owner_for_every_call(run: Path) -> None:
    """Each id of the log belongs to the agent whose header its call carried, or to the root where it carried none."""
    source, calls = recorded_run(run)
    native = read(source)
    by_agent = {item.value: item.participant_key for item in native.identity_claims if item.field.startswith("header:")}
    root = next(item.key for item in native.participants if item.role is Role.ROOT)
    claimed = owners(native)
    for call in calls:
        headers = call["headers"]
        assert isinstance(headers, dict)
        agent_id = headers.get("x-claude-code-agent-id")
        expected = by_agent[agent_id] if agent_id is not None else root
        assert claimed.get(str(call["response_id"]), {expected}) == {expected}


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_every_native_output_is_one_call_and_only_unlogged_calls_are_left_over(run: Path) -> None:
    """Each expected output has its call; calls left over failed, were cut, or compacted."""
    source, calls = recorded_run(run)
    native = read(source)
    outputs = Counter(item.output_id for item in native.coverage.outputs or ())
    answered = {call["response_id"] for call in calls}
    assert set(outputs.values()) <= {1}
    assert set(outputs) <= answered
    good = {call["response_id"] for call in calls if call["status"] == 200 and _whole(call)}
    assert len(good - set(outputs)) == _COMPACTING_CALLS.get(run.name, 0)
    agent = {item.value for item in native.purpose_claims if item.purpose is Purpose.AGENT}
    assert agent == set(outputs)


@pytest.mark.parametrize("run", _RUNS, ids=_name)
def test_the_parent_output_of_each_delegation_is_the_call_that_made_the_tool_call(run: Path) -> None:
    """`parent_output_id` is the response whose tool calls hold the delegation's id, by the provider's record."""
    source, calls = recorded_run(run)
    made = {tool: call["response_id"] for call in calls for tool in _tool_ids(call)}
    for relation in read(source).relations:
        assert relation.parent_output_id is not None
        if made:
            assert made[relation.tool_call_id] == relation.parent_output_id


def _whole(call: dict[str, object]) -> bool:
    return call.get("delivered", "complete") == "complete" and call.get("terminal_sent", True) is True


def _tool_ids(call: dict[str, object]) -> list[str]:
    ids = call.get("tool_ids", [])
    assert isinstance(ids, list)
    return ids


def test_a_grandchild_is_the_childs_and_its_notification_reaches_the_root() -> None:
    """The spawner comes from metadata, the receiver from the log that holds the notification."""
    native = read(recorded_run(_OWN / "2.1.332" / "nested-background")[0])
    root, child, grandchild = (item.key for item in native.participants)
    assert [item.parent_key for item in native.participants] == [None, root, child]
    delivered = next(
        item for item in native.relations if item.child_key == grandchild and item.type.value == "result_delivered"
    )
    assert (delivered.parent_key, delivered.receiver_key) == (child, root)
    assert delivered.delivery is not None
    assert delivered.delivery.bound_by is BoundBy.RESPONSE_ID


def test_a_forked_session_is_one_participant_with_two_session_ids() -> None:
    """`--fork-session` copies the history into a new log; its outputs are counted once."""
    for version in ("2.1.197", "2.1.332"):
        native = read(recorded_run(_OWN / version / "forked-session")[0])
        roots = [item for item in native.participants if item.role is Role.ROOT]
        assert [len(item.native_ids["session_id"]) for item in roots] == [2]


def test_a_forked_agent_does_not_own_the_copy_of_the_output_that_launched_it() -> None:
    """Its log begins with the parent's last output under a new uuid."""
    native = read(recorded_run(_OWN / "2.1.332" / "forked-agent")[0])
    spawn = next(item for item in native.relations if item.type.value == "spawn")
    assert spawn.parent_output_id is not None
    assert owners(native)[spawn.parent_output_id] == {spawn.parent_key}


def test_the_two_delegations_of_a_resumed_child_have_their_own_tool_ids() -> None:
    """A resumed child is judged by the tool id of each delegation."""
    for version in ("2.1.197", "2.1.332"):
        native = read(recorded_run(_SHARED / version / "resumed-child")[0])
        completed = {
            item.delegation: item.tool_call_id for item in native.relations if item.type.value == "child_completed"
        }
        assert sorted(completed) == [1, 2]
        assert len(set(completed.values())) == 2
