"""Runs of the real program against a scripted provider, and what must be read from their logs.

`calls.json` is the provider's own record: it and the adapter share no code.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.pi import read
from roller_capture.vocabulary import Purpose, Role, SubtaskSupport
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run

_RUNS = sorted(
    path.parent for path in (Path(__file__).parents[2] / "fixtures" / "harness" / "pi").glob("*/*/calls.json")
)

# name: (execution status of the root, completed answers, calls that compact)
_EXPECTED = {
    "ordinary": ("completed", 2, 0),
    "ordinary-responses": ("completed", 2, 0),
    "ordinary-messages": ("completed", 2, 0),
    "tool-error": ("completed", 2, 0),
    "refused-delegation": ("completed", 4, 0),
    "compaction": ("completed", 3, 1),
    "compaction-messages": ("completed", 3, 1),
    "cross-process-resume": ("completed", 4, 0),
    "cut-stream": ("completed", 2, 0),
    "cut-always": ("failed", 0, 0),
    "error-event-messages": ("completed", 2, 0),
    "http-400": ("failed", 0, 0),
    "http-500": ("completed", 1, 0),
    "max-tokens": ("completed", 1, 0),
    "without-response-ids": ("completed", 2, 0),
    "killed": ("interrupted", 1, 0),
}


def _name(run: Path) -> str:
    return f"{run.parent.name}-{run.name}"


each_run = pytest.mark.parametrize("run", _RUNS, ids=_name)


def test_all_fixtures_are_there() -> None:
    """A recording that is missing would be a test that is not run."""
    assert sorted(run.name for run in _RUNS) == sorted(_EXPECTED)


@each_run
def test_one_root_and_no_relation(run: Path) -> None:
    """The session is the root, with the end that its last answer had; no delegation, no gap."""
    source, _ = recorded_run(run)
    native = read(source)
    status, completed, _ = _EXPECTED[run.name]
    assert_sound(native)
    [root] = native.participants
    assert (root.role, root.parent_key, root.execution_status) == (Role.ROOT, None, status)
    assert root.native_ids == {"session_id": (source.launcher["root_native_id"],)}
    assert (native.relations, native.context_probes, native.gaps) == ((), (), ())
    assert native.subtasks is SubtaskSupport.NOT_AVAILABLE
    assert native.lifecycle is None
    assert native.coverage.protocol_count == {root.key: completed}
    assert (native.harness_version, native.version_tested) == (run.parent.name, True)


@each_run
def test_every_header_and_every_response_id_names_the_root(run: Path) -> None:
    """Each call carries the session in the hook's header; those that do not compact also in a native one."""
    source, calls = recorded_run(run)
    native = read(source)
    claimed = {(item.field, item.value) for item in native.identity_claims}
    for call in calls:
        headers = _headers(call)
        assert ("header:x-roller-session", headers["x-roller-session"]) in claimed
        native_ones = headers.keys() - {name for name in headers if name.startswith("x-roller-")}
        assert all((f"header:{name}", headers[name]) in claimed for name in native_ones)
        assert bool(native_ones) != (headers["x-roller-leaf"] in _compacted(native.purpose_claims))


@each_run
def test_every_native_output_is_one_call(run: Path) -> None:
    """Calls that are left over failed without a body, or compacted."""
    source, calls = recorded_run(run)
    native = read(source)
    outputs = Counter(item.output_id for item in native.coverage.outputs or ())
    by_leaf = native.coverage.field == "header:x-roller-leaf"
    assert by_leaf == (run.name == "without-response-ids")
    made = [_headers(call)["x-roller-leaf"] if by_leaf else call["response_id"] for call in calls]
    assert set(outputs.values()) <= {1}
    assert set(outputs) <= set(made)
    compacting = [call for call in calls if _headers(call)["x-roller-leaf"] in _compacted(native.purpose_claims)]
    assert len(compacting) == _EXPECTED[run.name][2]
    answered = [call for call in calls if call["status"] == 200 and call not in compacting]
    assert len(answered) == len(outputs)


def _headers(call: dict[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = call["headers"]
    return headers


def _compacted(purpose_claims: Any) -> set[str]:
    return {item.value for item in purpose_claims if item.purpose is Purpose.COMPACTION}
