"""Tests of the whole answer: what one run gives, versions, roots, missing logs, unknown sessions."""

from pathlib import Path

import pytest

from roller_capture.capture_protocol import NativeCapture
from roller_capture.vocabulary import CoverageStrength, ExecutionStatus, LifecycleStatus, Purpose, Role
from tests.adapters.hermes.extracts import (
    CHILD,
    OTHER,
    ROOT,
    TOOL,
    Extracts,
    event,
    gap_codes,
    part,
    read_folder,
    relation_types,
    result,
    session,
    started,
    turn,
)


def _roles(native: NativeCapture) -> dict[str, tuple[Role, str | None, ExecutionStatus]]:
    return {item.key: (item.role, item.parent_key, item.execution_status) for item in native.participants}


def test_a_child_that_ended_well(tmp_path: Path) -> None:
    """Both participants, their claims, all relations with the delegating tool call's id, and full coverage."""
    native = Extracts().read(tmp_path)
    assert _roles(native) == {
        ROOT: (Role.ROOT, None, ExecutionStatus.COMPLETED),
        CHILD: (Role.CHILD, ROOT, ExecutionStatus.COMPLETED),
    }
    claims = {(claim.field, claim.value, claim.participant_key) for claim in native.identity_claims}
    assert claims == {
        ("header:x-roller-session", ROOT, ROOT),
        ("header:x-roller-session", CHILD, CHILD),
        ("response_id", f"resp-{ROOT}", ROOT),
        ("response_id", f"resp-{CHILD}", CHILD),
    }
    assert relation_types(native) == ["child_completed", "result_delivered", "spawn"]
    assert {(item.tool_call_id, item.task_index, item.parent_key) for item in native.relations} == {(TOOL, 0, ROOT)}
    assert native.coverage.strength is CoverageStrength.PER_ID
    assert native.coverage.outputs is not None
    assert {item.output_id for item in native.coverage.outputs} == {f"{ROOT}:t1:api:1", f"{CHILD}:t1:api:1"}
    assert native.coverage.protocol_count == {ROOT: 1, CHILD: 1}
    assert (native.gaps, native.lifecycle, native.hook_header) == ((), None, "x-roller-session")
    assert (native.harness_version, native.version_tested) == ("0.19.0", True)


@pytest.mark.parametrize("root", [None, "missing", "file"])
def test_without_a_folder_nothing_is_known_and_nothing_is_claimed(tmp_path: Path, root: str | None) -> None:
    """No native log read is `unknown`, never `complete`."""
    (tmp_path / "file").write_text("x")
    native = read_folder(tmp_path / (root or "none"), ROOT)
    assert native.coverage.outputs is None
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert (native.participants, native.identity_claims) == ((), ())
    assert "native_logs_missing" in gap_codes(native)


def test_without_the_plugins_log_owners_are_known_and_relations_are_not(tmp_path: Path) -> None:
    """Rows alone do not tell which tool call made a child, nor which request brought an answer."""
    folder = Extracts().write(tmp_path)
    (folder / "plugin.jsonl").unlink()
    native = read_folder(folder, ROOT, CHILD)
    assert {key: role for key, (role, _, _) in _roles(native).items()} == {ROOT: Role.ROOT, CHILD: Role.CHILD}
    assert native.relations == ()
    assert native.coverage.outputs is None
    assert gap_codes(native) == {"hook_not_seen", "native_relation_unproven"}
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize(
    ("said", "reported", "tested"),
    [("0.19.0", "0.19.0", True), ("0.20.1", "0.20.1", False), (None, "0.19.0", True), (5, "0.19.0", True)],
)
def test_the_version_is_the_plugins_word_else_the_launchers(
    tmp_path: Path, said: object, reported: str, tested: bool
) -> None:
    """An untested version is named, and all else is as usual."""
    extracts = Extracts()
    extracts.plugin[0]["harness_version"] = said
    native = extracts.read(tmp_path, launcher={"harness_version": "0.19.0"})
    assert (native.harness_version, native.version_tested) == (reported, tested)
    assert gap_codes(native) == (set() if tested else {"native_version_untested"})
    assert len(native.relations) == 3


def test_a_session_of_the_wire_without_a_row_is_named(tmp_path: Path) -> None:
    """Its calls have no owner, and whether all ended is not known."""
    native = Extracts().read(tmp_path, ROOT, CHILD, OTHER)
    assert gap_codes(native) == {"participant_log_missing"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize(
    ("named", "roots", "codes"),
    [
        (ROOT, {ROOT}, {"native_relation_unproven"}),
        (None, {ROOT, OTHER}, {"root_ambiguous"}),
        ("20260101_000000_ffffff", {ROOT, OTHER}, {"root_ambiguous"}),
    ],
)
def test_the_root_is_the_session_that_the_launcher_started(
    tmp_path: Path, named: str | None, roots: set[str], codes: set[str]
) -> None:
    """Two roots in one home: the launcher's word decides, and the other one is named; without it both are."""
    extracts = Extracts()
    extracts.state.append(session(OTHER))
    native = extracts.read(tmp_path, ROOT, CHILD, OTHER, launcher={"root_native_id": named})
    assert {item.key for item in native.participants if item.role is Role.ROOT} == roots
    assert gap_codes(native) == codes


@pytest.mark.parametrize(
    ("task", "purpose", "side_call"),
    [
        ("turn", Purpose.AGENT, False),
        ("background_review", Purpose.REVIEW, True),
        ("compression", Purpose.COMPACTION, True),
        ("title_generation", Purpose.TITLE, True),
        ("iteration_limit_summary", Purpose.SUMMARY, True),
        ("vision", Purpose.UNKNOWN, True),
    ],
)
def test_a_purpose_is_the_requests_own_mark(tmp_path: Path, task: str, purpose: Purpose, side_call: bool) -> None:
    """A mark that is not known is no agent's turn."""
    folder = Extracts().write(tmp_path)
    headers = {"x-roller-session": frozenset({ROOT, CHILD}), "x-roller-task": frozenset({task})}
    from roller_capture.adapters.hermes import read
    from roller_capture.capture_protocol import AdapterInput

    [claim] = read(AdapterInput(folder, headers)).purpose_claims
    assert (claim.field, claim.value) == ("header:x-roller-task", task)
    assert (claim.purpose, claim.side_call) == (purpose, side_call)


def test_a_review_is_an_output_and_no_turn(tmp_path: Path) -> None:
    """It has the session's id; its end says nothing of the session's own turn."""
    extracts = Extracts()
    behind = {"turn_id": "review", "origin": "background_review"}
    extracts.plugin += [
        event("turn", CHILD, **behind),
        event("request", CHILD, request_id="r", **behind),
        event("output", CHILD, request_id="r", origin="background_review"),
        event("turn_end", CHILD, completed=False, interrupted=True, **behind),
    ]
    native = extracts.read(tmp_path)
    assert _roles(native)[CHILD][2] is ExecutionStatus.COMPLETED
    assert native.coverage.outputs is not None
    assert "r" in {item.output_id for item in native.coverage.outputs}


def test_a_rotated_session_is_one_participant_with_two_ids(tmp_path: Path) -> None:
    """Compaction went on under a new id, which is no child; a child made there has the same parent."""
    extracts = Extracts()
    extracts.state = [
        session(ROOT, end_reason="compression"),
        {**session(OTHER), "parent_session_id": ROOT},
        session(CHILD, OTHER),
        extracts.state[3] | {"session_id": OTHER},
        extracts.state[4],
        result(OTHER, part()),
    ]
    extracts.plugin = [*turn(ROOT), *turn(CHILD), {**extracts.plugin[6], "parent_session_id": OTHER}]
    native = extracts.read(tmp_path, ROOT, OTHER, CHILD, launcher={"harness_version": "0.19.0"})
    ids = {item.key: item.native_ids["session_id"] for item in native.participants}
    assert ids == {ROOT: (ROOT, OTHER), CHILD: (CHILD,)}
    assert relation_types(native) == ["child_completed", "result_delivered", "spawn"]
    assert native.gaps == ()


def test_a_session_that_was_branched_off_is_no_continuation(tmp_path: Path) -> None:
    """It names a parent too, but compaction did not end that one: neither the same executor nor its child."""
    extracts = Extracts()
    extracts.state.append({**session(OTHER), "parent_session_id": ROOT})
    native = extracts.read(tmp_path, ROOT, CHILD, OTHER, launcher={"root_native_id": ROOT})
    ids = {item.key: item.native_ids["session_id"] for item in native.participants}
    assert ids == {ROOT: (ROOT,), CHILD: (CHILD,), OTHER: (OTHER,)}
    assert {item.key: item.parent_key for item in native.participants}[OTHER] is None
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize(
    ("launcher", "status"),
    [
        ({"exit_codes": [0, 1], "ended_by": "harness"}, "failed"),
        ({"exit_codes": [0, 143], "ended_by": "harness"}, "interrupted"),
        ({"exit_codes": [0, -9], "ended_by": "harness"}, "interrupted"),
        ({"exit_codes": [0, 1], "ended_by": "timeout"}, "interrupted"),
        ({"exit_codes": ["1"], "ended_by": "harness"}, "interrupted"),
        ({"exit_codes": 1, "ended_by": "harness"}, "interrupted"),
        ({}, "interrupted"),
    ],
)
def test_a_resumed_turn_that_failed_is_told_by_the_end_of_its_process(
    tmp_path: Path, launcher: dict[str, object], status: str
) -> None:
    """Hermes leaves the row of a session that it resumed without an end; a kill leaves it so, too."""
    failed = Extracts(state=[session(ROOT, end_reason=None)], plugin=turn(ROOT, answered=False, ended=False))
    native = failed.read(tmp_path, ROOT, launcher={"root_native_id": ROOT, **launcher})
    assert [item.execution_status for item in native.participants] == [status]


_END = {"turn_id": f"{CHILD}:t1", "origin": "turn", "completed": True, "interrupted": False}


@pytest.mark.parametrize(
    ("strange", "code"),
    [
        (event("output", OTHER, request_id="r"), "participant_log_missing"),
        (started(OTHER, index=1), "participant_log_missing"),
        (event("turn_end", ROOT, **_END), "native_id_not_unique"),
        (event("turn_end", OTHER, **_END), "native_id_not_unique"),
        (event("turn", ROOT, turn_id=f"{CHILD}:t1", origin="turn"), "native_id_not_unique"),
        (event("request", ROOT, turn_id=f"{CHILD}:t1", request_id="r", origin="turn"), "native_id_not_unique"),
    ],
)
def test_an_event_that_fits_no_session_leaves_the_lifecycle_unknown(
    tmp_path: Path, strange: dict[str, object], code: str
) -> None:
    """There may be a child of which no row tells, and an end that one session tells of another's turn is nobody's."""
    extracts = Extracts()
    extracts.plugin.append(strange)
    native = extracts.read(tmp_path)
    assert code in gap_codes(native)
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_a_failed_child_is_not_completed_by_anothers_end(tmp_path: Path) -> None:
    """Its own log knows of no end; the root's turn may have ended well. Nor has the root failed with the child."""
    extracts = Extracts()
    failed = turn(CHILD, answered=False, ended=False)
    extracts.plugin = [*extracts.plugin[:1], *turn(ROOT), started(), *failed, event("turn_end", ROOT, **_END)]
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["result_delivered", "spawn"]
    assert _roles(native)[CHILD][2] is ExecutionStatus.UNKNOWN
    assert gap_codes(native) == {"native_id_not_unique", "native_relation_unproven"}
    extracts.plugin[-1] = event("turn", ROOT, turn_id=f"{CHILD}:t1", origin="turn")
    assert _roles(extracts.read(tmp_path))[ROOT][2] is ExecutionStatus.INTERRUPTED
