"""The manifest's figures of coverage and lifecycle are those of one sum, and fit the calls."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from roller_capture.integrity.call_facts import CallFacts
from roller_capture.integrity.coverage import check_coverage
from roller_capture.integrity.records import Seen


def call(
    number: int,
    *,
    completed: bool = True,
    response_id: str | None = "same",
    proofs: frozenset[str] = frozenset(),
    **headers: str,
) -> CallFacts:
    """Of participant `p`; its response id is its number, unless it has another or none."""
    return CallFacts(
        number,
        f"call_{number}",
        number,
        "p",
        completed,
        f"msg_{number}" if response_id == "same" else response_id,
        None,
        {name.replace("_", "-"): frozenset({value}) for name, value in headers.items()},
        {},
        frozenset(),
        proofs,
        True,
    )


def manifest(coverage: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A complete one, with a root."""
    whole = {"missing": [], "surplus_calls": 0, "status": "complete", "strength": "per_id", "key": "response_id"}
    beside = {"name": "x", "expected": coverage["expected"], "observed": coverage["expected"]}
    counted = {**whole, "protocol_count": beside, **coverage}
    return {
        "closed_at": "2026-01-01T00:00:00.000000Z",
        "status_reasons": [],
        "errors": [],
        "lifecycle": {"status": "complete", "pending_participant_ids": []},
        "participants": [{"participant_id": "p", "role": "root"}, {"participant_id": "c", "role": "child"}],
        "capabilities": {
            "subtasks": "supported",
            "identity": [counted["key"], "header:x-session"],
            "native_output_coverage": counted,
        },
        **members,
    }


def found(document: dict[str, Any], *calls: CallFacts) -> list[str]:
    seen = Seen()
    seen.calls = list(calls)
    return [finding.message for finding in check_coverage(document, seen)]


HEADER = {"key": "header:x-message"}
OWN = {"key": "context:/number"}


@pytest.mark.parametrize(
    ("coverage", "calls", "good"),
    [
        ({"expected": 2, "observed": 2}, [call(1), call(2)], True),
        ({"expected": 1, "observed": 1, "surplus_calls": 1}, [call(1), call(2)], True),
        ({"expected": 1, "observed": 1}, [call(1), call(2)], False),
        ({"expected": 3, "observed": 3}, [call(1), call(2)], False),
        ({"expected": 2, "observed": 2, "surplus_calls": 1}, [call(1), call(2)], False),
        ({"expected": 2, "observed": 2, "surplus_calls": 3}, [call(1), call(2)], False),
        # One that was cut counts where its id is known; it can be no surplus.
        ({"expected": 2, "observed": 2}, [call(1), call(2, completed=False)], True),
        ({"expected": 1, "observed": 1}, [call(1), call(2, completed=False)], True),
        # The same id in two calls is one output.
        ({"expected": 1, "observed": 1}, [call(1, response_id="a"), call(2, response_id="a")], True),
        ({"expected": 2, "observed": 2}, [call(1, response_id="a"), call(2, response_id="a")], False),
        ({"expected": 2, "observed": 1, "missing": ["msg_9"], "status": "incomplete"}, [call(1)], True),
        ({"expected": 2, "observed": 1, "missing": ["msg_1"], "status": "incomplete"}, [call(1)], False),
        ({"expected": 2, "observed": 1, "missing": ["msg_9"]}, [call(1)], False),
        ({"expected": 1, "observed": 1, "missing": ["msg_9"], "status": "incomplete"}, [call(1)], False),
        ({"expected": 2, "observed": 1, "missing": ["msg_9", "msg_9"], "status": "incomplete"}, [call(1)], False),
        # A response id is one output's; a number of a participant's own can be that of two.
        ({"expected": 3, "observed": 1, "missing": ["msg_8", "msg_9"], "status": "incomplete"}, [call(1)], True),
        ({"expected": 3, "observed": 1, "missing": ["msg_9", "msg_9"], "status": "incomplete"}, [call(1)], False),
        ({"expected": 2, "observed": 0, "missing": ["S/1", "S/1"], "status": "incomplete", **OWN}, [], True),
        ({"expected": 1, "observed": 0, "missing": ["S/1", "S/1"], "status": "incomplete", **OWN}, [], False),
        ({"expected": 2, "observed": 1, "status": "unknown"}, [call(1)], True),
        ({"expected": 2, "observed": 1, "status": "not_applicable"}, [call(1)], False),
        ({"expected": 1, "observed": 1, **HEADER}, [call(1, x_message="a")], True),
        ({"expected": 1, "observed": 1, **HEADER}, [call(1, x_message="a"), call(2, x_message="a")], True),
        ({"expected": 2, "observed": 2, **HEADER}, [call(1, x_message="a"), call(2, x_message="a")], False),
        ({"expected": 1, "observed": 1, **HEADER}, [call(1)], False),
        ({"expected": 2, "observed": 2, "strength": "count"}, [call(1), call(2)], True),
        ({"expected": 2, "observed": 1, "strength": "count", "status": "incomplete"}, [call(1)], True),
        ({"expected": 2, "observed": 1, "strength": "count"}, [call(1)], False),
        ({"expected": 2, "observed": 2, "strength": "count", "surplus_calls": 1}, [call(1), call(2)], False),
        ({"expected": 0, "observed": 0, "strength": "none", "status": "unknown"}, [call(1)], True),
        ({"expected": 1, "observed": 1, "strength": "none"}, [call(1)], False),
        ({"expected": 0, "observed": 0, "protocol_count": None, "status": "unknown"}, [call(1)], True),
        ({"expected": 1, "observed": 1, "protocol_count": None}, [call(1)], False),
    ],
)
def test_outputs_and_calls_are_one_sum(coverage: dict[str, Any], calls: list[CallFacts], good: bool) -> None:
    """What was expected is observed or missing; every call that answered is observed or surplus."""
    document = manifest(coverage)
    document["capabilities"]["native_output_coverage"]["protocol_count"] = coverage.get(
        "protocol_count", {"name": "x", "expected": 1, "observed": 0}
    )
    if coverage.get("protocol_count", "") is None:
        document["capabilities"]["native_output_coverage"]["protocol_count"] = None
    if coverage.get("missing") or (coverage.get("strength") == "count" and coverage.get("status") == "incomplete"):
        count = len(coverage.get("missing", ())) or 1
        document["status_reasons"] = [{"code": "coverage_incomplete", "count": count, "call_ids": []}]
    assert (found(document, *calls) == []) == good


Change = Callable[[dict[str, Any]], Any]


def life(**members: Any) -> Change:
    return lambda document: document["lifecycle"].update(members)


@pytest.mark.parametrize(
    "change",
    [
        life(status="unsupported"),
        life(status="pending"),
        life(pending_participant_ids=["c"]),
        life(status="pending", pending_participant_ids=["p"]),
        life(status="pending", pending_participant_ids=["c", "c"]),
        lambda document: document["capabilities"].update(subtasks="unknown"),
        lambda document: (
            document["participants"].pop(),
            document["capabilities"].update(subtasks="not_available_in_bundled_profile"),
        ),
        lambda document: document["capabilities"].update(identity=[]),
        lambda document: document["capabilities"].update(identity=["header:x-session", "response_id"]),
        lambda document: document["capabilities"]["identity"].append("context:/a"),
        lambda document: document["capabilities"]["identity"].append("header:x-session"),
        lambda document: document.update(closed_at=None),
        lambda document: document["errors"].append({"code": "recorder_not_closed"}),
        lambda document: document.update(status_reasons=[{"code": "errors", "count": 2, "call_ids": []}]),
        lambda document: document.update(status_reasons=[{"code": "coverage_unknown", "count": 1, "call_ids": ["a"]}]),
        lambda document: document.update(
            status_reasons=[{"code": "lifecycle_unknown", "count": 1, "call_ids": []} for _ in range(2)]
        ),
    ],
)
def test_members_of_the_manifest_that_contradict_each_other(change: Change) -> None:
    """Lifecycle and subtasks, fields and key, reasons and what they count."""
    document = manifest({"expected": 1, "observed": 1})
    assert found(document, call(1)) == []
    changed = copy.deepcopy(document)
    change(changed)
    assert found(changed, call(1)) != []


@pytest.mark.parametrize(
    ("identity", "headers", "told"),
    [
        (["response_id", "context:/user", "header:x-session"], ["x-session", "x-run"], None),
        (["response_id", "context:/user"], [], None),
        (["context:/user", "response_id"], [], "in the order"),
        (["response_id", "response_id", "context:/user"], [], "twice"),
        (["response_id", "context:/user", "header:x-session"], ["x-run"], "header:x-session"),
        (["response_id", "context:/user", "model"], ["x-run"], "has model"),
        (["response_id"], ["x-session"], "evidence is context:/user"),
        (["context:/user"], ["x-session"], None),
    ],
)
def test_the_fields_that_tell_owners(identity: list[str], headers: list[str], told: str | None) -> None:
    """In order, each once, each something that calls have; and none is missing that a call was attributed by."""
    document = manifest({"expected": 1, "observed": 1})
    document["capabilities"].update(identity=identity, native_id_headers=headers)
    messages = found(document, call(1, proofs=frozenset({"context:/user"})))
    assert [told is not None and told in message for message in messages] == ([] if told is None else [True]), messages


def test_outputs_are_compared_by_something_that_calls_have() -> None:
    """A header need not be a native id for that."""
    document = manifest({"expected": 1, "observed": 1, **HEADER})
    document["capabilities"].update(identity=[], native_id_headers=[])
    assert found(document, call(1, x_message="m1")) == []
    document["capabilities"]["native_output_coverage"]["key"] = "number"
    assert any("compared by number" in message for message in found(document, call(1, x_message="m1")))


def test_lifecycles_that_follow_from_what_the_harness_can_do() -> None:
    """No delegation in the bundled profile, a child that was cut, and what nobody knows."""
    document = manifest({"expected": 1, "observed": 1})
    document["lifecycle"] = {"status": "pending", "pending_participant_ids": ["c"]}
    assert found(document, call(1)) == []
    document["lifecycle"] = {"status": "unknown", "pending_participant_ids": ["c"]}
    assert found(document, call(1)) == []
    document["participants"].pop()
    document["capabilities"]["subtasks"] = "not_available_in_bundled_profile"
    document["lifecycle"] = {"status": "unsupported", "pending_participant_ids": []}
    assert found(document, call(1)) == []
