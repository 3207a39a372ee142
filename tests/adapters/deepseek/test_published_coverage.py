"""Coverage of a whole publication: the number in a request's body against the one in the log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from tests.adapters.deepseek.session_logs import ROOT, SessionLogs, accepted, answer, event, header, turn
from tests.support.attempts import AttemptBuilder, message_body
from tests.support.harness_run import read_json

_TITLE = [
    event("session/title-llm-request", system="Title."),
    accepted(1),
    event("session/title", source={"kind": "provider"}),
]
Cover = Callable[..., dict[str, Any]]


@pytest.fixture
def cover(tmp_path: Path) -> Cover:
    """Publishes calls with these numbers beside a log with these records; the manifest's coverage."""

    def publish(numbers: list[Any], *records: dict[str, Any]) -> dict[str, Any]:
        logs = SessionLogs(tmp_path)
        logs.write([header(), *turn(*records)])
        builder = AttemptBuilder(tmp_path / "attempt", "deepseek")
        for place, number in enumerate(numbers):
            log = {"session": {"id": ROOT}, "throughSeq": number}
            body = {"model": "m", "max_tokens": 9, "messages": [], "dsh_session_log": log}
            headers = (("x-deepseek-harness-session-id", ROOT),)
            builder.call(json.dumps(body).encode(), message_body(f"msg_{place}"), session=None, headers=headers)
        attempt = builder.build()
        finalize_attempt(attempt, FinalizeRequest(native=logs.root))
        assert validate_attempt(attempt, deep=True) == []
        coverage: dict[str, Any] = read_json(attempt / "manifest.json")["capabilities"]["native_output_coverage"]
        assert coverage.pop("key") == "context:/dsh_session_log/throughSeq"
        assert coverage.pop("strength") == "per_id"
        return coverage

    return publish


@pytest.mark.parametrize(
    ("numbers", "missing", "surplus"),
    [
        ([0, 3], [], 0),
        ([0, 3, 9], [], 1),
        ([0], [f"{ROOT}/3"], 0),
        # Two calls, as many as the log has outputs; but not those. A count would not have seen it.
        ([0, 9], [f"{ROOT}/3"], 1),
        ([0, 0], [f"{ROOT}/3"], 1),
        # What is no whole number is none.
        ([0, True], [f"{ROOT}/3"], 1),
        ([0, 3.0], [f"{ROOT}/3"], 1),
        ([0, -3], [f"{ROOT}/3"], 1),
        ([0, 1 << 80], [f"{ROOT}/3"], 1),
        ([0, None], [f"{ROOT}/3"], 1),
        ([0, {"3": 3}], [f"{ROOT}/3"], 1),
    ],
)
def test_each_output_needs_the_call_of_its_number(
    cover: Cover, numbers: list[Any], missing: list[str], surplus: int
) -> None:
    """Beside it stands the protocol's count of completed assistants."""
    coverage = cover(numbers, accepted(0), answer("m-1"), accepted(3), answer("m-2"))
    assert coverage == {
        "expected": 2,
        "observed": 2 - len(missing),
        "missing": missing,
        "surplus_calls": surplus,
        "status": "incomplete" if missing else "complete",
        "protocol_count": {"name": "completed_assistants", "expected": 2, "observed": min(2, len(numbers))},
    }


@pytest.mark.parametrize(("numbers", "lacking"), [([1, 1], 0), ([1], 1), ([1, 5], 1), ([1, True], 1), ([5], 2)])
def test_a_title_s_call_does_not_stand_in_for_an_answer_s(
    cover: Cover, tmp_path: Path, numbers: list[Any], lacking: int
) -> None:
    """Both have the same number, so there have to be two; it is missing as often as a call is."""
    coverage = cover(numbers, *_TITLE, accepted(1), answer("m-1"))
    assert (coverage["expected"], coverage["observed"]) == (2, 2 - lacking)
    assert (coverage["missing"], coverage["status"]) == (
        [f"{ROOT}/1"] * lacking,
        "incomplete" if lacking else "complete",
    )
    reasons = {one["code"]: one["count"] for one in read_json(tmp_path / "attempt/manifest.json")["status_reasons"]}
    assert reasons.get("coverage_incomplete", 0) == lacking
