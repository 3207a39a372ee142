"""Runs of the real program against a scripted provider, and what must be read from their rollouts.

`calls.json` is the provider's own record: it and the adapter share no code.
"""

from collections import Counter
from pathlib import Path

import pytest

from roller_capture.adapters.codex import read
from roller_capture.vocabulary import Purpose, Role
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run

RUNS = sorted(
    path.parent for path in (Path(__file__).parents[2] / "fixtures" / "harness" / "codex").glob("*/*/calls.json")
)

_MESSAGE = Counter(spawn=1, launch_acknowledged=1, child_completed=1, result_delivered=1)
_WAITED = _MESSAGE + Counter(result_delivered=1)
_FAILED = Counter(spawn=1, launch_acknowledged=1, child_failed=1, result_delivered=1)
_LOST = Counter(spawn=1, launch_acknowledged=1)
_DONE = ("completed", "complete")

# name: (relations, execution status and lifecycle of each child)
EXPECTED: dict[str, tuple[Counter[str], list[tuple[str, str]]]] = {
    "single": (_WAITED, [_DONE]),
    "identical-prompts": (_WAITED + _WAITED, [_DONE, _DONE]),
    "one-wait-for-two": (_WAITED + _WAITED, [_DONE, _DONE]),
    "child-failure-400": (_FAILED + Counter(result_delivered=1), [("failed", "complete")]),
    "abandoned": (_LOST, [("interrupted", "pending")]),
    "nested": (_WAITED + _WAITED, [_DONE, _DONE]),
    "resumed-child": (_WAITED + _MESSAGE, [_DONE]),
    "stopped-child": (_LOST, [("interrupted", "complete")]),
    "reopened-child": (_LOST + _LOST, [("interrupted", "pending")]),
    "forked-late": (_WAITED + _WAITED, [_DONE, _DONE]),
    "cut-spawn": (_WAITED, [_DONE]),
    "compaction": (_WAITED, [_DONE]),
    "cross-process-resume": (_WAITED, [_DONE]),
    "guardian": (Counter(), [_DONE]),
    "review": (Counter(), [_DONE]),
    "single-v2": (_MESSAGE, [_DONE]),
    "parallel-v2": (_MESSAGE + _MESSAGE, [_DONE, _DONE]),
    "child-failure-400-v2": (_FAILED, [("failed", "complete")]),
    "resumed-child-v2": (_MESSAGE + _MESSAGE, [_DONE]),
    "stopped-child-v2": (_LOST, [("interrupted", "complete")]),
    "stopped-again-v2": (_LOST + _LOST, [("interrupted", "pending")]),
    "forked-late-v2": (_MESSAGE + _MESSAGE, [_DONE, _DONE]),
    "nested-code-mode": (_MESSAGE + _MESSAGE, [_DONE, _DONE]),
}
each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.name))


def test_every_run_is_there() -> None:
    """Those that are expected, and no other."""
    assert {run.name for run in RUNS} == EXPECTED.keys()


@each_run
def test_each_run_gives_the_expected_relations_and_outcomes(run: Path) -> None:
    """Relations, each child's end and lifecycle are those of the scenario; nothing is left as a gap."""
    native = read(recorded_run(run)[0])
    relations, children = EXPECTED[run.name]
    assert_sound(native)
    assert Counter(item.type.value for item in native.relations) == relations
    ended = [
        (item.execution_status.value, item.lifecycle.value) for item in native.participants if item.role is Role.CHILD
    ]
    assert sorted(ended) == sorted(children)
    assert native.gaps == ()
    assert (native.harness_version, native.version_tested) == (run.parent.name, True)


@each_run
def test_every_call_has_the_owner_that_the_provider_knows(run: Path) -> None:
    """Each thread id belongs to one owner, and each response id that a rollout holds to the same one."""
    source, calls = recorded_run(run)
    native = read(source)
    claims = {(claim.field, claim.value): claim.participant_key for claim in native.identity_claims}
    threads: dict[str, set[object]] = {}
    for call in calls:
        headers = call["headers"]
        assert isinstance(headers, dict)
        key = claims["header:thread-id", headers["thread-id"]]
        threads.setdefault(key, set()).add(call["owner"])
        assert claims.get(("response_id", str(call["response_id"])), key) == key
    assert all(len(owners) == 1 for owners in threads.values())
    assert len({next(iter(owners)) for owners in threads.values()}) == len(threads)


@each_run
def test_expected_are_the_answers_that_went_out_whole(run: Path) -> None:
    """Cut and failed ones leave no record; nothing that a fork copied is expected of it."""
    source, calls = recorded_run(run)
    native = read(source)
    whole = sorted(str(call["response_id"]) for call in calls if call["status"] == 200 and call["terminal_sent"])
    assert sorted(str(output.output_id) for output in native.coverage.outputs or ()) == whole
    assert sum(native.coverage.protocol_count.values()) == len(whole)


def test_the_call_that_sums_up_is_marked() -> None:
    """And it alone."""
    [run] = [run for run in RUNS if run.name == "compaction"]
    native = read(recorded_run(run)[0])
    purposes = Counter(claim.purpose for claim in native.purpose_claims if claim.field == "response_id")
    assert purposes[Purpose.COMPACTION] == 1
    assert purposes.keys() == {Purpose.COMPACTION, Purpose.AGENT}
