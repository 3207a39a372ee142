"""Every gap is one plain sentence, and every word of the closed lists has one."""

from pathlib import Path
from typing import Any

import pytest

from roller_capture.view.attempt import Attempt, Call
from roller_capture.view.family import family_of
from roller_capture.view.gaps import ERROR_WORDS, Gap, gaps_of
from roller_capture.view.provider_words import Tokens
from roller_capture.vocabulary import AttemptErrorCode, StatusReason


def gaps(code: str, count: int = 1, call_ids: tuple[str, ...] = (), path: Path = Path(), **manifest: Any) -> list[Gap]:
    """The gaps of an attempt with one reason, three calls and one child; the second call carried a key of its own,
    the third reached no service."""
    child = {"participant_id": "k", "role": "child", "parent_participant_id": None, "native_ids": {"agent_id": ["a1"]}}
    coverage = {"status": "complete", "expected": 3, "missing": []} | manifest.pop("coverage", {})
    whole = {
        "participants": [child],
        "status_reasons": [{"code": code, "count": count, "call_ids": list(call_ids)}],
        "capabilities": {"native_output_coverage": coverage},
        "lifecycle": {"status": "complete", "pending_participant_ids": []},
        "errors": [],
        "harness": {"name": "claude-code"},
        "execution_status": "completed",
        "raw_retained": True,
        **manifest,
    }
    number_of_calls = whole.pop("calls", 3)
    foreign = [{"code": "foreign_credential", "message": "m"}]
    unreachable = [{"code": "upstream_unreachable", "message": "m"}]
    calls = []
    for number in range(1, number_of_calls + 1):
        record = {"call_id": f"c{number}", "sequence": number, "participant_id": None}
        errors = unreachable if number == 3 else foreign if number == 2 else []
        calls.append(Call({**record, "errors": errors}, None, Tokens()))
    attempt = Attempt(path, whole, calls)
    return gaps_of(attempt, family_of(attempt))


@pytest.mark.parametrize(
    ("found", "sentence", "step"),
    [
        (gaps("call_incomplete", 2, ("c1", "c2")), "2 calls were not recorded completely: #1-#2", None),
        (gaps("call_incomplete", 1, ("c2",)), "1 call was not recorded completely: #2", None),
        (
            gaps("call_incomplete", 1, ("c3",)),
            "The model service could not be reached for 1 call: #3",
            "Check its address",
        ),
        (
            gaps("identity_ambiguous", 1, ("c3",)),
            "1 call has evidence for more than one agent, so none is chosen: #3",
            None,
        ),
        (
            gaps("identity_unattributed", 2, ("c1", "c3")),
            "2 calls could not be attributed to an agent: #1, #3",
            None,
        ),
        (
            gaps("identity_unattributed", 1, ("c2",)),
            "1 call carried another key than the one that the harness was given, so nothing shows whose it is: #2",
            "Look for a key in the project's settings",
        ),
        (
            gaps("identity_unattributed", 1, ("gone",), coverage={"status": "unknown"}),
            "1 call could not be attributed to an agent: (none of them readable)",
            "--native",
        ),
        (
            gaps("coverage_incomplete", 1, coverage={"status": "incomplete", "missing": ["msg_9"]}),
            "1 model output in the native logs has no recorded call: msg_9",
            "goes around the proxy",
        ),
        (
            gaps("coverage_incomplete", 2, coverage={"status": "incomplete"}),
            "2 model outputs in the native logs have no recorded call",
            "goes around the proxy",
        ),
        (
            gaps("coverage_unknown", coverage={"status": "unknown", "expected": 0, "protocol_count": {"observed": 1}}),
            "The native logs do not tell whether every model call was recorded",
            None,
        ),
        (
            gaps("coverage_unknown", coverage={"status": "unknown", "expected": 0, "protocol_count": None}),
            "No native log was read, so it is not known whether every model call was recorded",
            "--native",
        ),
        (
            gaps("coverage_unknown", coverage={"status": "unknown"}),
            "Some model outputs in the native logs have no id, so it is not known whether each has its call",
            None,
        ),
        (
            gaps("lifecycle_pending", lifecycle={"status": "pending", "pending_participant_ids": ["k"]}),
            "1 subtask did not end, or no result was delivered: child a1",
            "longer timeout",
        ),
        (gaps("lifecycle_unknown"), "It is not known whether all subtasks ended: no native record says so", None),
        (
            gaps("recorder_not_closed"),
            "The recorder was killed before it could close, so calls that were open then have no end",
            "Ctrl-C",
        ),
    ],
)
def test_a_reason_is_one_sentence(found: list[Gap], sentence: str, step: str | None) -> None:
    """With the calls or agents that it is about, and what to do."""
    (gap,) = found
    assert gap.sentence == sentence
    assert (gap.next_step is None) if step is None else (step in (gap.next_step or ""))


def test_a_service_that_could_not_be_reached_is_no_loss() -> None:
    """What was lost beside it is told beside it."""
    found = gaps("call_incomplete", 2, ("c1", "c3"))
    assert [gap.call_ids for gap in found] == [("c3",), ("c1",)]


def test_calls_with_another_key_stand_apart() -> None:
    """Of the others it is not known what to look for."""
    found = gaps("identity_unattributed", 2, ("c1", "c2"))
    assert [gap.call_ids for gap in found] == [("c2",), ("c1",)]


def test_the_next_step_is_one_that_can_be_taken(tmp_path: Path) -> None:
    """Whoever ran `collect` starts no proxy and gives no logs to finalize."""
    attempt = tmp_path / "sample-0001" / "capture" / "attempt-0001"
    attempt.mkdir(parents=True)
    coverage = {"status": "unknown", "expected": 0}
    by_hand = [*gaps("coverage_unknown", path=attempt, coverage=coverage), *gaps("recorder_not_closed", path=attempt)]
    (attempt.parent.parent / "sample.json").write_text("{}")
    collected = [*gaps("coverage_unknown", path=attempt, coverage=coverage), *gaps("recorder_not_closed", path=attempt)]
    errors = [
        {"code": code, "message": "m", "source": None, "locator": None, "count": 1}
        for code in map(str, AttemptErrorCode)
    ]
    collected += gaps("errors", len(errors), path=attempt, errors=errors)
    assert [gap.sentence for gap in by_hand] == [gap.sentence for gap in collected[:2]]
    assert "--native" in str(by_hand[0].next_step)
    for gap in collected:
        for impossible in ("--native", "Ctrl-C", "Give every attempt a proxy", "Install it again"):
            assert impossible not in str(gap.next_step)


def _errors(*codes: str) -> list[dict[str, Any]]:
    return [{"code": code, "message": "m", "source": None, "locator": None, "count": 1} for code in codes]


def test_what_was_not_kept_is_not_pointed_at() -> None:
    """Where `raw/` is not there, the advice is how to have it."""
    errors = _errors("unrecognised_model_request", "body_without_event")
    kept, gone = (gaps("errors", 2, errors=errors, raw_retained=raw) for raw in (True, False))
    assert all("raw/" in str(gap.next_step) for gap in kept)
    assert {gap.next_step for gap in gone} == {
        "Capture again with --capture-debug full: raw/, where more would be said, was not kept"
    }


def test_a_program_of_ones_own_gets_advice_that_fits_it() -> None:
    """It has no hook of ours, loads none, and keeps no logs but the one for us."""
    errors = _errors("hook_not_seen", "root_ambiguous", "native_logs_missing")
    found = gaps("errors", 3, errors=errors, harness={"name": "generic"})
    assert found[0].sentence == "Calls do not say which agent makes them: m"
    for gap, word in zip(found, ("x-roller-session", "x-roller-parent-session", "ROLLER_EVENTS"), strict=True):
        assert word in str(gap.next_step)
        assert "hook" not in f"{gap.sentence} {gap.next_step}"


def test_a_run_that_was_stopped_before_its_first_call_needs_no_advice_on_calls() -> None:
    """Whether the hook loads, nobody has seen."""
    errors = _errors("hook_not_seen", "no_request_seen", "native_logs_missing", "drain_failed")
    stopped = gaps("errors", 4, errors=errors, execution_status="interrupted", calls=0)
    assert [gap.next_step is None for gap in stopped] == [True, True, True, False]
    ran = gaps("errors", 4, errors=errors, execution_status="interrupted")
    assert not any(gap.next_step is None for gap in ran)


def test_every_reason_and_every_error_has_words() -> None:
    """A new word of the closed lists needs its sentence."""
    assert set(ERROR_WORDS) == set(AttemptErrorCode)
    silent = [code for code in StatusReason if code is not StatusReason.ERRORS and not gaps(code)]
    assert silent == []


def test_errors_are_told_one_by_one_with_their_place() -> None:
    """That the recorder was killed is told once."""

    def error(code: str, **members: Any) -> dict[str, Any]:
        return {"code": code, "message": "why", "source": None, "locator": None, "count": 1} | members

    errors = [
        error("native_line_unreadable", source="a.jsonl", locator="line:3", count=2),
        error("recorder_not_closed"),
        error("adapter_failed"),
    ]
    assert [gap.sentence for gap in gaps("errors", 3, errors=errors)] == [
        "A line of a native log cannot be read (2 times): why [a.jsonl line:3]",
        "The recorder was killed before it could close, so calls that were open then have no end: why",
        "The native logs could not be interpreted: why",
    ]
    reasons = [{"code": code, "count": 1, "call_ids": []} for code in ("recorder_not_closed", "errors")]
    both = gaps("errors", errors=errors[1:2], status_reasons=reasons)
    assert [gap.code for gap in both] == ["recorder_not_closed"]
