"""The statuses of a call and of the whole, row by row."""

from typing import Any

import pytest

from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.statuses import CallVerdict, call_statuses, keeps_raw, lifecycle, status_reasons
from roller_capture.records import CallError, NativeOutputCoverage
from roller_capture.vocabulary import (
    Blocker,
    CallErrorCode,
    CaptureStatus,
    CoverageStatus,
    CoverageStrength,
    DebugRetention,
    ExecutionStatus,
    IdentityStatus,
    LifecycleStatus,
    ResponseCaptureStatus,
    SubtaskSupport,
)
from tests.support.attempts import participant
from tests.support.surveyed import surveyed

RESOLVED = Identity(IdentityStatus.RESOLVED, "root", (), ())
DISK_FULL = (CallErrorCode.DISK_ERROR, "disk full")
FAULT = (CallErrorCode.RECORDER_ERROR, "internal")
UNKNOWN_OWNER = Identity(IdentityStatus.UNATTRIBUTED, None, (), ())


@pytest.mark.parametrize(
    ("request_facts", "response", "recorded", "identity", "match", "capture", "blockers"),
    [
        ({}, {}, {}, RESOLVED, "equal", "complete", []),
        ({}, {}, {}, RESOLVED, "date_suffix", "complete", []),
        ({}, {}, {}, UNKNOWN_OWNER, "equal", "complete", ["identity_unresolved"]),
        ({}, {}, {}, RESOLVED, "mismatch", "complete", ["model_mismatch"]),
        ({}, {}, {}, RESOLVED, "unrequested", "complete", ["model_mismatch"]),
        ({}, {"model": None}, {}, RESOLVED, "unreported", "complete", ["model_unreported"]),
        ({"is_json": False}, {}, {}, RESOLVED, "equal", "complete", ["context_not_json"]),
        ({"whole": False}, {}, {}, RESOLVED, "equal", "partial", ["request_incomplete"]),
        ({}, {}, {"recorder_errors": [DISK_FULL]}, RESOLVED, "equal", "partial", ["capture_error"]),
        ({}, {}, {"recorder_errors": [FAULT]}, RESOLVED, "equal", "partial", ["capture_error"]),
        (
            {},
            {
                "execution_status": ExecutionStatus.FAILED,
                "model": None,
                "blockers": (Blocker.EXECUTION_NOT_COMPLETED,),
            },
            {},
            RESOLVED,
            "unreported",
            "complete",
            ["execution_not_completed"],
        ),
        (
            {},
            {
                "execution_status": ExecutionStatus.INTERRUPTED,
                "response_capture_status": ResponseCaptureStatus.PARTIAL,
                "blockers": (Blocker.RESPONSE_INCOMPLETE,),
            },
            {},
            UNKNOWN_OWNER,
            "equal",
            "partial",
            ["response_incomplete", "identity_unresolved"],
        ),
        (
            {},
            {"execution_status": ExecutionStatus.FAILED, "blockers": (Blocker.EXECUTION_NOT_COMPLETED,)},
            {"masked": "decoded"},
            RESOLVED,
            "equal",
            "partial",
            ["execution_not_completed", "capture_error"],
        ),
        (
            {},
            {"response_capture_status": ResponseCaptureStatus.MISSING, "blockers": (Blocker.EXECUTION_NOT_COMPLETED,)},
            {},
            RESOLVED,
            "equal",
            "partial",
            ["execution_not_completed"],
        ),
    ],
)
def test_a_call_is_exportable_only_when_nothing_speaks_against_it(
    request_facts: dict[str, Any],
    response: dict[str, Any],
    recorded: dict[str, Any],
    identity: Identity,
    match: str,
    capture: str,
    blockers: list[str],
) -> None:
    """Every blocker is named; a fully recorded failure is a complete record that is not exportable."""
    call = surveyed("r", request=request_facts, response=response, recorded=recorded)
    got = call_statuses(call, identity, match)
    assert got.capture_status.value == capture
    assert (got.response_capture_status is ResponseCaptureStatus.COMPLETE) == (
        "response_capture_status" not in response and "capture_error" not in blockers
    )
    assert [blocker.value for blocker in got.blockers] == blockers
    assert got.export_status.value == ("blocked" if blockers else "exportable")


def test_errors_of_a_call_name_the_side_that_cut_it_and_the_masking() -> None:
    """One list of all that went wrong, whoever noticed it."""
    call = surveyed(
        "r",
        request={"errors": (CallError(code=CallErrorCode.REQUEST_CUT, message="gone"),)},
        recorded={"masked": True, "recorder_errors": [DISK_FULL], "foreign_credential": True},
    )
    codes = [error.code.value for error in call_statuses(call, RESOLVED, "equal").errors]
    assert codes == ["request_cut", "disk_error", "credential_masked", "foreign_credential"]


@pytest.mark.parametrize(
    ("states", "support", "override", "status", "pending"),
    [
        ([], SubtaskSupport.SUPPORTED, None, "complete", []),
        ([], SubtaskSupport.NOT_AVAILABLE, None, "unsupported", []),
        ([], SubtaskSupport.UNKNOWN, None, "unknown", []),
        ([LifecycleStatus.COMPLETE], SubtaskSupport.SUPPORTED, None, "complete", []),
        ([LifecycleStatus.COMPLETE, LifecycleStatus.PENDING], SubtaskSupport.SUPPORTED, None, "pending", ["p1"]),
        ([LifecycleStatus.UNKNOWN, LifecycleStatus.PENDING], SubtaskSupport.SUPPORTED, None, "unknown", ["p1"]),
        ([LifecycleStatus.PENDING], SubtaskSupport.NOT_AVAILABLE, None, "pending", ["p0"]),
        ([LifecycleStatus.COMPLETE], SubtaskSupport.SUPPORTED, LifecycleStatus.UNKNOWN, "unknown", []),
    ],
)
def test_the_lifecycle_is_that_of_the_least_finished_subtask(
    states: list[LifecycleStatus],
    support: SubtaskSupport,
    override: LifecycleStatus | None,
    status: str,
    pending: list[str],
) -> None:
    """Unknown beats pending beats complete."""
    children = [participant(f"c{index}", parent="root", lifecycle=state) for index, state in enumerate(states)]
    ids = {f"c{index}": f"p{index}" for index in range(len(states))} | {"root": "p"}
    got = lifecycle([participant("root"), *children], ids, support, override)
    assert (got.status.value, got.pending_participant_ids) == (status, pending)


def coverage(status: CoverageStatus, missing: tuple[str, ...] = ()) -> NativeOutputCoverage:
    return NativeOutputCoverage(
        key="response_id",
        strength=CoverageStrength.PER_ID,
        expected=2,
        observed=2 - len(missing),
        missing=list(missing),
        surplus_calls=0,
        status=status,
        protocol_count=None,
    )


def verdict(
    call_id: str = "c1",
    *,
    execution: ExecutionStatus = ExecutionStatus.COMPLETED,
    capture: CaptureStatus = CaptureStatus.COMPLETE,
    identity: IdentityStatus = IdentityStatus.RESOLVED,
    side: bool = False,
) -> CallVerdict:
    return CallVerdict(call_id, execution, capture, identity, side)


@pytest.mark.parametrize(
    ("verdicts", "cover", "life", "closed", "errors", "expected"),
    [
        ([verdict()], coverage(CoverageStatus.COMPLETE), "complete", True, 0, []),
        ([verdict()], coverage(CoverageStatus.NOT_APPLICABLE), "unsupported", True, 0, []),
        (
            [verdict(execution=ExecutionStatus.FAILED)],
            coverage(CoverageStatus.COMPLETE),
            "complete",
            True,
            0,
            [],
        ),
        (
            [verdict("c1", capture=CaptureStatus.PARTIAL), verdict("c2", capture=CaptureStatus.PARTIAL)],
            coverage(CoverageStatus.COMPLETE),
            "complete",
            True,
            0,
            [("call_incomplete", 2, ["c1", "c2"])],
        ),
        (
            [verdict(identity=IdentityStatus.UNATTRIBUTED, side=True)],
            coverage(CoverageStatus.COMPLETE),
            "complete",
            True,
            0,
            [],
        ),
        (
            [verdict("c1", identity=IdentityStatus.UNATTRIBUTED), verdict("c2", identity=IdentityStatus.AMBIGUOUS)],
            coverage(CoverageStatus.COMPLETE),
            "complete",
            True,
            0,
            [("identity_ambiguous", 1, ["c2"]), ("identity_unattributed", 1, ["c1"])],
        ),
        (
            [],
            coverage(CoverageStatus.INCOMPLETE, ("m1",)),
            "pending",
            False,
            3,
            [
                ("coverage_incomplete", 1, []),
                ("lifecycle_pending", 1, []),
                ("recorder_not_closed", 1, []),
                ("errors", 3, []),
            ],
        ),
        (
            [],
            coverage(CoverageStatus.UNKNOWN),
            "unknown",
            True,
            0,
            [("coverage_unknown", 1, []), ("lifecycle_unknown", 1, [])],
        ),
    ],
)
def test_the_capture_is_partial_for_every_reason_by_name(
    verdicts: list[CallVerdict],
    cover: NativeOutputCoverage,
    life: str,
    closed: bool,
    errors: int,
    expected: list[tuple[str, int, list[str]]],
) -> None:
    """No reason means complete; a failed call that is fully recorded is no reason."""
    got = status_reasons(verdicts, cover, LifecycleStatus(life), recorder_closed=closed, error_count=errors)
    assert [(item.code.value, item.count, item.call_ids) for item in got] == expected


GOOD_CHILD = participant("c", parent="root")
BAD_CHILD = participant("c", parent="root", status=ExecutionStatus.FAILED)


@pytest.mark.parametrize(
    ("retention", "execution", "capture", "verdicts", "child", "kept"),
    [
        ("on-error", "completed", "complete", [verdict()], GOOD_CHILD, False),
        ("on-error", "failed", "complete", [verdict()], GOOD_CHILD, True),
        ("on-error", "interrupted", "complete", [verdict()], GOOD_CHILD, True),
        ("on-error", "unknown", "complete", [verdict()], GOOD_CHILD, True),
        ("on-error", "completed", "partial", [verdict()], GOOD_CHILD, True),
        ("on-error", "completed", "complete", [verdict(execution=ExecutionStatus.FAILED)], GOOD_CHILD, True),
        ("on-error", "completed", "complete", [verdict()], BAD_CHILD, True),
        ("full", "completed", "complete", [verdict()], GOOD_CHILD, True),
        ("off", "failed", "partial", [verdict(execution=ExecutionStatus.FAILED)], BAD_CHILD, False),
    ],
)
def test_raw_is_kept_when_something_went_wrong_or_as_told(
    retention: str, execution: str, capture: str, verdicts: list[CallVerdict], child: Any, kept: bool
) -> None:
    """`on-error`, `full`, `off` exactly as the design says."""
    assert (
        keeps_raw(DebugRetention(retention), ExecutionStatus(execution), CaptureStatus(capture), verdicts, [child])
        is kept
    )
