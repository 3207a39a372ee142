"""The verdict on an attempt: silent where all is well, and each broken invariant is told."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import verdict as module
from faults.ground import Ledger
from faults.report import problems, tables
from faults.talks import TARGETS, Talk, new_talk
from faults.verdict import Expected, Verdict, conclude, refusal
from roller_capture.vocabulary import Protocol
from tests.support.attempts import AttemptBuilder

CHANCE = random.Random(1)


def recorded(folder: Path, talk: Talk, stored: bytes, **options: Any) -> Path:
    """An attempt with this call, as far as `stored` of its answer is on disk."""
    builder = AttemptBuilder(folder / "attempt", "generic")
    headers = [("content-type", talk.answer_headers["Content-Type"])]
    headers += [("content-encoding", talk.coding)] if talk.coding else []
    builder.call(
        talk.request,
        stored,
        session=None,
        roller_headers=(("x-roller-session", "agent-1"),),
        response_headers=tuple(headers),
        path=TARGETS[talk.protocol],
        protocol=talk.protocol,
        **options,
    )
    return builder.build()


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_is_whole_is_intact(tmp_path: Path, protocol: Protocol, stream: bool) -> None:
    """In every protocol and form."""
    talk = new_talk(CHANCE, protocol=protocol, stream=stream)
    talk.asked = talk.whole = True
    talk.got, talk.status = talk.answer, 200
    found = conclude(recorded(tmp_path, talk, talk.answer), [talk])
    assert found.problems == []
    assert (found.finished, found.intact, found.cut) == (1, 1, 0)


def cut_talk(part: int = 6) -> Talk:
    """A stream of which the client got some pieces."""
    talk = new_talk(CHANCE, protocol=Protocol.ANTHROPIC_MESSAGES, stream=True)
    talk.asked, talk.status = True, 200
    talk.got = b"".join(talk.pieces[:part])
    return talk


def test_a_call_that_was_cut_is_named(tmp_path: Path) -> None:
    """It is no finished one."""
    talk = cut_talk()
    found = conclude(recorded(tmp_path, talk, talk.got, end="none"), [talk])
    assert found.problems == []
    assert (found.finished, found.cut) == (0, 1)
    assert "call_incomplete" in found.named


def _less_than_the_client_has(talk: Talk) -> bytes:
    return talk.got[:-1]


def _never_sent(talk: Talk) -> bytes:
    return talk.got + b"data: never sent\n\n"


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        (_less_than_the_client_has, "bytes reached the client"),
        (_never_sent, "holds what was never sent"),
    ],
)
def test_other_bytes_are_a_problem(tmp_path: Path, stored: Callable[[Talk], bytes], problem: str) -> None:
    """Fewer than the client has, or more than were sent."""
    talk = cut_talk()
    talk.coding = None
    found = conclude(recorded(tmp_path, talk, stored(talk), end="none"), [talk])
    assert any(problem in text for text in found.problems)


def test_a_call_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """The service has seen it."""
    talk, lost = cut_talk(), cut_talk()
    found = conclude(recorded(tmp_path, talk, talk.got, end="none"), [talk, lost])
    assert found.problems == [f"{lost.mark}: it is there 0 times"]


def test_a_cut_call_that_counts_as_completed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end mark is not on the disk."""
    talk = cut_talk()
    attempt = recorded(tmp_path, talk, talk.got, end="none")
    real = module.call_lines

    def believing(path: Path) -> Any:
        raised = {"execution_status": "completed", "response_capture_status": "complete"}
        return (line._replace(head={**line.head, **raised}) for line in real(path))

    monkeypatch.setattr(module, "call_lines", believing)
    found = conclude(attempt, [talk])
    assert any("its end mark is not there" in text for text in found.problems)
    assert any("does not say all that was sent" in text for text in found.problems)


def test_a_reason_that_has_to_be_named_is_missed(tmp_path: Path) -> None:
    """A recorder that was killed."""
    talk = cut_talk()
    found = conclude(recorded(tmp_path, talk, talk.got), [talk], Expected(reasons=frozenset({"recorder_not_closed"})))
    assert "recorder_not_closed is not named" in found.problems


def test_a_traceback_and_a_refusal_are_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where finalize has to publish."""
    assert any("finalize refused" in text for text in conclude(tmp_path, []).problems)

    def fails(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(module, "finalize_attempt", fails)
    assert conclude(tmp_path, []).problems == ["finalize raised KeyError: 'x'"]


def test_the_table_says_what_broke() -> None:
    """By kind and place; kills are spread out once more."""
    ledger = Ledger()
    ledger.enter("proxy gets SIGKILL", "mid-stream", Verdict(finished=3, intact=2, cut=1), "seed")
    ledger.enter("proxy gets SIGKILL", "mid-stream", Verdict(problems=["a call is gone"]), "held 3")
    everything, spread = tables(ledger, "Faults")
    assert everything.rows == [("proxy gets SIGKILL", "mid-stream", "2", "3", "2", "1", "1", "")]
    assert spread.rows == [("proxy", "mid-stream", "2"), ("all", "", "2")]
    assert problems(ledger) == ["proxy gets SIGKILL, mid-stream: a call is gone [held 3]"]


def test_a_refusal_without_its_path() -> None:
    """What is counted in the table."""
    text = "error: /tmp/a/attempt: nothing was published, no space left on the disk: free some and run finalize again\n"
    assert refusal(text) == "nothing was published, no space left on the disk"
    assert json.dumps(refusal("x")) == '""'
