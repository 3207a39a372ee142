"""The Python API: what it reads, what it refuses, and that it is no bother where it is not used."""

import subprocess
import sys
from pathlib import Path

import pytest

import roller_capture
from roller_capture import InvalidAttemptError, iter_attempts, open_attempt
from roller_capture.api import Usage, participants, tree
from roller_capture.errors import RollerError
from roller_capture.vocabulary import (
    Blocker,
    CaptureStatus,
    DebugRetention,
    ExecutionStatus,
    Protocol,
    Purpose,
    RelationType,
    Role,
)
from tests.export.published import publish_calls, three_protocols
from tests.support.old_attempts import by_participant, without_lifecycle
from tests.support.publish import lines, publish_family


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root, child, and the root again; published."""
    publish_family(
        tmp_path / "a",
        monkeypatch,
        execution_status=ExecutionStatus.COMPLETED,
        debug_retention=DebugRetention.FULL,
    )
    return tmp_path / "a"


def test_an_attempt_says_who_did_what(attempt: Path) -> None:
    """Participants, their tree, relations, statuses."""
    opened = open_attempt(attempt)
    root, child = opened.participants
    assert opened.roots == (root,)
    assert (root.role, child.role) == (Role.ROOT, Role.CHILD)
    assert child.parent_participant_id == root.participant_id
    assert root.execution_status is ExecutionStatus.COMPLETED
    assert "agent_id" in child.native_ids
    assert opened.participant(child.participant_id) is child
    assert opened.capture_status is CaptureStatus.COMPLETE
    assert opened.execution_status is ExecutionStatus.COMPLETED
    assert (opened.harness, opened.harness_version, opened.sample_id) == ("claude-code", "2.1.332", None)
    (top,) = opened.tree()
    assert [agent.participant for agent in top.walk()] == [root, child]
    (spawn,) = top.children[0].spawned_by
    assert (spawn.type, spawn.tool_call_id) == (RelationType.SPAWN, "toolu_1")
    held = next(item for item in opened.relations if item.type is RelationType.RESULT_IN_CONTEXT)
    last = list(opened.calls())[-1]
    assert (held.context_call_id, held.context_pointer) == (last.call_id, "/messages/1/content/0")
    assert held.receiver_participant_id == root.participant_id
    assert held.relation_id


def test_calls_are_read_when_they_are_asked_for(attempt: Path) -> None:
    """The head at once, the context each time; all of them, or those of one participant."""
    opened = open_attempt(attempt)
    first, second, third = opened.calls()
    assert [call.sequence for call in (first, second, third)] == [1, 2, 3]
    assert first.protocol is Protocol.ANTHROPIC_MESSAGES
    assert (first.purpose, first.exportable, first.blockers) == (Purpose.UNKNOWN, True, ())
    assert first.output["id"] == "msg_1"
    assert "context" not in first.record
    assert first.context["messages"] == [{"role": "user", "content": "ask"}]
    assert third.context == lines(attempt / "calls.jsonl")[2]["context"]
    assert third.context_text in (attempt / "calls.jsonl").read_bytes()
    (child,) = opened.calls(opened.participants[1])
    assert child.call_id == second.call_id
    assert list(opened.calls("p_nobody")) == []
    assert opened.participants[1].call_ids == (second.call_id,)


def test_an_attempt_that_does_not_validate_is_not_opened(attempt: Path) -> None:
    """Unless that is asked for."""
    calls = attempt / "calls.jsonl"
    calls.write_bytes(calls.read_bytes().replace(b'"ask"', b'"ASK"'))
    with pytest.raises(InvalidAttemptError) as caught:
        open_attempt(attempt)
    assert caught.value.exit_code == 1
    assert caught.value.findings[0].file == "calls.jsonl"
    assert str(attempt) in str(caught.value)
    unchecked = open_attempt(attempt, validate=False)
    assert next(unchecked.calls()).context["messages"][0]["content"] == "ASK"


@pytest.mark.parametrize("when", ["before", "during", "context"])
def test_a_file_that_changes_afterwards_is_not_read(attempt: Path, when: str) -> None:
    """What was validated is what is read, or nothing."""
    opened = open_attempt(attempt)
    calls = opened.calls()
    first = next(calls) if when != "before" else None
    text = (attempt / "calls.jsonl").read_bytes()
    (attempt / "calls.jsonl").unlink()
    (attempt / "calls.jsonl").write_bytes(text)
    with pytest.raises(RollerError, match="has changed since"):
        first.context if first is not None and when == "context" else list(calls)


def test_what_is_no_published_attempt_is_refused(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(RollerError, match="no such folder") as caught:
        open_attempt(tmp_path / "none")
    assert caught.value.exit_code == 2
    with pytest.raises(RollerError, match="roller-capture finalize"):
        open_attempt(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema": "roller.capture/v9"}')
    with pytest.raises(RollerError, match="does not validate"):
        open_attempt(tmp_path)
    with pytest.raises(RollerError, match="does not know"):
        open_attempt(tmp_path, validate=False)
    (tmp_path / "manifest.json").write_text('{"schema": "roller.capture/v1", "storage_layout": "compact/v2"}')
    with pytest.raises(RollerError, match="cannot be read"):
        open_attempt(tmp_path, validate=False)


def test_the_attempts_of_a_run_come_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each knows its sample."""
    for name in ("b", "a"):
        place = tmp_path / "run" / "samples" / name / "capture" / "attempt-0001"
        publish_family(place, monkeypatch, execution_status=ExecutionStatus.COMPLETED)
    assert [attempt.sample_id for attempt in iter_attempts(tmp_path / "run")] == ["a", "b"]
    with pytest.raises(RollerError, match="does not exist"):
        next(iter_attempts(str(tmp_path / "none")))


@pytest.mark.parametrize("make_old", [by_participant, without_lifecycle])
def test_earlier_layouts_are_read_as_todays(attempt: Path, make_old: object) -> None:
    """The same calls, the same people."""
    today = open_attempt(attempt)
    calls = [(call.call_id, call.context) for call in today.calls()]
    make_old(attempt)  # type: ignore[operator]
    old = open_attempt(attempt)
    assert [(call.call_id, call.context) for call in old.calls()] == calls
    assert len(old.relations) == len(today.relations)
    assert old.manifest["lifecycle"]["status"]


def test_tokens_mean_the_same_in_every_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each provider has its own words for them; what it did not count is nobody's zero."""
    publish_calls(tmp_path / "a", monkeypatch, three_protocols())
    calls = list(open_attempt(tmp_path / "a").calls())
    assert len({call.protocol for call in calls}) == 3
    by_protocol = {call.protocol: call.tokens for call in calls}
    assert by_protocol[Protocol.OPENAI_CHAT_COMPLETIONS] == Usage(input=3, output=4)
    messages = next(call for call in calls if call.protocol is Protocol.ANTHROPIC_MESSAGES)
    messages.record["usage"] = {"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 5}
    assert messages.tokens == Usage(input=13, output=5, cache_read=10)
    messages.record["usage"] = None
    assert messages.tokens == Usage()


def test_a_blocked_call_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the protocol's words."""
    publish_calls(tmp_path / "a", monkeypatch, [("anthropic-messages", {"model": "m", "messages": []}, b"{}")])
    (call,) = open_attempt(tmp_path / "a").calls()
    assert not call.exportable
    assert call.blockers == (Blocker.EXECUTION_NOT_COMPLETED,)
    assert len(repr(call)) < 100


def test_a_ring_of_parents_is_cut() -> None:
    """Everybody is in the tree once."""

    def person(name: str, parent: str | None) -> participants.Participant:
        return participants.Participant({"participant_id": name, "parent_participant_id": parent})

    top = tree.tree_of([person("a", "b"), person("b", "a"), person("c", "gone"), person("d", None)], [])
    assert sorted(agent.participant.participant_id for root in top for agent in root.walk()) == ["a", "b", "c", "d"]


def test_the_api_is_imported_only_when_it_is_used() -> None:
    """The proxy and the command line need not wait for it."""
    code = "import roller_capture, sys; assert 'roller_capture.api' not in sys.modules; roller_capture.open_attempt"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])
    assert {name for name in roller_capture.__all__ if not hasattr(roller_capture, name)} == set()
    with pytest.raises(AttributeError):
        roller_capture.nothing  # noqa: B018
