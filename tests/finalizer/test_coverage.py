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


NUMBERED = NativeCoverage(
    "context:/seq",
    CoverageStrength.PER_ID,
    (*outputs("9", "9", "15"), NativeOutput("child", "9", evidence())),
    "message_ids",
    {"root": 2, "child": 1},
    within_participant=True,
)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("root", "9"), ("root", "9"), ("root", "15"), ("child", "9")], (4, [], 0, "complete")),
        ([("root", "9"), ("root", "15"), ("child", "9")], (3, ["root/9"], 0, "incomplete")),
        ([("root", "15"), ("child", "9")], (2, ["root/9", "root/9"], 0, "incomplete")),
        ([("root", "9"), ("root", "9"), ("root", "9"), ("root", "15")], (3, ["child/9"], 1, "incomplete")),
        ([("root", "9"), ("root", "9"), ("child", "15"), ("child", "9")], (3, ["root/15"], 1, "incomplete")),
        ([("root", "9"), (None, "9"), ("root", "15"), ("child", "9")], (3, ["root/9"], 1, "incomplete")),
        ([("root", "9"), ("root", "9"), ("root", None), ("child", "9")], (3, ["root/15"], 1, "incomplete")),
    ],
    ids=["all", "one-of-two", "none-of-two", "another-s", "wrong-owner", "no-owner", "no-number"],
)
def test_numbers_of_a_participant_s_own_are_compared_within_it(
    calls: list[tuple[str | None, str | None]], expected: tuple[Any, ...]
) -> None:
    """The same number of another participant is another call, and two outputs of one number need two calls."""
    made = [surveyed(request={"context_values": {} if value is None else {"/seq": value}}) for _, value in calls]
    identities = [
        Identity(IdentityStatus.RESOLVED if owner else IdentityStatus.UNATTRIBUTED, owner, (), ()) for owner, _ in calls
    ]
    got = native_output_coverage(NUMBERED, made, identities)
    assert (got.observed, got.missing, got.surplus_calls, got.status.value) == expected
    assert got.expected == got.observed + len(got.missing) == 4


CUT = {"execution_status": ExecutionStatus.INTERRUPTED}


@pytest.mark.parametrize(
    ("native", "calls", "counts", "expected"),
    [
        # A title or a compaction: an output of its own, beyond the protocol's count.
        (
            dataclasses.replace(BY_ID, strength=CoverageStrength.COUNT, outputs=outputs(None, None, None)),
            [(None, {}, "root"), (None, {}, "root"), (None, {}, "root")],
            {"root": 2},
            (3, 3, 0, 2, 2),
        ),
        # One surplus call, in neither.
        (BY_ID, [("a", {}, "root"), ("b", {}, "root"), ("x", {}, "root")], {"root": 2}, (2, 2, 1, 2, 2)),
        # The log holds the id of an answer that was cut.
        (BY_ID, [("a", {}, "root"), ("b", CUT, "root")], {"root": 2}, (2, 2, 0, 2, 2)),
        # One that the log does not hold.
        (BY_ID, [("a", {}, "root"), ("x", CUT, "root")], {"root": 2}, (2, 1, 0, 2, 1)),
        # More native outputs than the protocol counts: those that failed have an id too.
        (BY_ID, [("a", {}, "root"), ("b", CUT, "root")], {"root": 1}, (2, 2, 0, 1, 1)),
        # A child's surplus makes up for nothing here either.
        (BY_ID, [("a", {}, "root"), ("x", {}, "child")], {"root": 2}, (2, 1, 1, 2, 1)),
        (BY_ID, [("a", {}, None), ("b", {}, "root")], {"root": 2}, (2, 2, 0, 2, 1)),
    ],
    ids=["side-call", "surplus", "cut-and-logged", "cut", "failed-outputs", "other-owner", "no-owner"],
)
def test_the_protocols_own_count_is_one_sided_too(
    native: NativeCoverage,
    calls: list[tuple[str | None, dict[str, Any], str | None]],
    counts: dict[str, int],
    expected: tuple[int, ...],
) -> None:
    """It observes what has a call of its participant, and never more than it expects."""
    made = [surveyed(one, response=response) for one, response, _ in calls]
    identities = [
        Identity(IdentityStatus.RESOLVED if owner else IdentityStatus.UNATTRIBUTED, owner, (), ())
        for _, _, owner in calls
    ]
    got = native_output_coverage(dataclasses.replace(native, protocol_count=counts), made, identities)
    assert got.protocol_count is not None
    figures = (got.expected, got.observed, got.surplus_calls)
    assert (*figures, got.protocol_count.expected, got.protocol_count.observed) == expected


def test_without_a_log_there_is_no_count() -> None:
    """Nothing expected because nothing was read is not nothing expected."""
    identities = [Identity(IdentityStatus.RESOLVED, "root", (), ())]
    got = native_output_coverage(dataclasses.replace(BY_ID, outputs=None), [surveyed("a")], identities)
    assert got.protocol_count is None
