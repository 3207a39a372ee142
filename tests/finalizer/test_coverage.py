"""Does every native output have its call?"""

import dataclasses
from typing import Any

import pytest

from roller_capture.capture_protocol import NativeCoverage, NativeOutput
from roller_capture.finalizer.coverage import native_output_coverage
from roller_capture.finalizer.identity import Identity
from roller_capture.vocabulary import CoverageStrength, ExecutionStatus, IdentityStatus
from tests.support.attempts import evidence
from tests.support.surveyed import surveyed

FAILED = {"execution_status": ExecutionStatus.FAILED}


def outputs(*ids: str | None) -> tuple[NativeOutput, ...]:
    return tuple(NativeOutput("root", one, evidence()) for one in ids)


BY_ID = NativeCoverage("response_id", CoverageStrength.PER_ID, outputs("a", "b"), "message_ids", {"root": 2})


@pytest.mark.parametrize(
    ("native", "response_ids", "expected"),
    [
        (BY_ID, ["a", "b"], (2, 2, [], 0, "complete")),
        (BY_ID, ["a", "b", "surplus"], (2, 2, [], 1, "complete")),
        (BY_ID, ["a"], (2, 1, ["b"], 0, "incomplete")),
        (BY_ID, [], (2, 0, ["a", "b"], 0, "incomplete")),
        (dataclasses.replace(BY_ID, outputs=()), [], (0, 0, [], 0, "complete")),
        (dataclasses.replace(BY_ID, outputs=None), ["a"], (0, 0, [], 0, "unknown")),
        (dataclasses.replace(BY_ID, strength=CoverageStrength.NONE), ["a"], (0, 0, [], 0, "unknown")),
        (dataclasses.replace(BY_ID, outputs=outputs("a", None)), ["a"], (2, 1, [], 0, "unknown")),
        (dataclasses.replace(BY_ID, outputs=outputs("a", "a")), ["a"], (1, 1, [], 0, "complete")),
    ],
)
def test_coverage_by_id_is_one_sided(
    native: NativeCoverage, response_ids: list[str], expected: tuple[Any, ...]
) -> None:
    """Each native id needs its call; surplus calls are counted and are no error; no log is unknown."""
    calls = [surveyed(one) for one in response_ids]
    identities = [Identity(IdentityStatus.RESOLVED, "root", (), ())] * len(calls)
    got = native_output_coverage(native, calls, identities)
    assert (got.expected, got.observed, got.missing, got.surplus_calls, got.status.value) == expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("a", {}), ("b", {})], (2, [], 0)),
        ([("a", FAILED), ("a", {}), ("b", {})], (2, [], 0)),
        ([("a", FAILED), ("b", {})], (1, ["a"], 0)),
        ([("a", {}), ("b", {}), ("other", {})], (2, [], 1)),
        ([("a", {}), (None, {})], (1, ["b"], 1)),
    ],
)
def test_an_id_that_the_request_brought_counts_only_with_an_answer(
    calls: list[tuple[str | None, dict[str, Any]]], expected: tuple[Any, ...]
) -> None:
    """It says that an output was asked for; a failed attempt at it is no output."""
    native = dataclasses.replace(BY_ID, field="header:x-roller-request")
    made = [
        surveyed(response=response, recorded={"roller_headers": [("x-roller-request", value)] if value else []})
        for value, response in calls
    ]
    identities = [Identity(IdentityStatus.RESOLVED, "root", (), ())] * len(made)
    got = native_output_coverage(native, made, identities)
    assert (got.observed, got.missing, got.surplus_calls) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        (["root", "root"], (2, 2, 0, "complete")),
        (["root", "root", "root"], (2, 2, 1, "complete")),
        (["root", "child"], (2, 1, 1, "incomplete")),
        (["root", None], (2, 1, 0, "incomplete")),
    ],
)
def test_coverage_by_count_compares_each_participant_for_itself(
    owners: list[str | None], expected: tuple[Any, ...]
) -> None:
    """A child's surplus never makes up for the root's missing output."""
    native = dataclasses.replace(BY_ID, strength=CoverageStrength.COUNT, outputs=outputs(None, None))
    calls = [surveyed(None) for _ in owners] + [surveyed(None, response=FAILED)]
    identities = [
        Identity(IdentityStatus.RESOLVED if owner else IdentityStatus.UNATTRIBUTED, owner, (), ())
        for owner in [*owners, "root"]
    ]
    got = native_output_coverage(native, calls, identities)
    assert (got.expected, got.observed, got.surplus_calls, got.status.value) == expected
    assert got.protocol_count is not None
    assert got.protocol_count.expected == 2
