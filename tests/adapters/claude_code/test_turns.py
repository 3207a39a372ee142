"""Tests of following an executor's turns."""

import pytest

from roller_capture.adapters.claude_code.facts import Place
from roller_capture.adapters.claude_code.turns import TurnTracker
from tests.adapters.claude_code.session_logs import (
    Record,
    api_error,
    assistant,
    notification,
    prompt,
    tool_result,
    tool_use,
)

_TOOL = assistant("a", None, "msg_t", tool_use("toolu_1", "Bash"))
_ANSWER = assistant("b", None, "msg_a")
_RESULT = tool_result("u", None, "toolu_1")
_COORDINATOR = prompt("p", isMeta=True, origin={"kind": "coordinator"})


def _turns(*records: Record) -> list[tuple[str, str | None]]:
    tracker = TurnTracker()
    for line, record in enumerate(records, 1):
        feed = tracker.assistant if record["type"] == "assistant" else tracker.user
        feed(record, record["message"], Place("log", line))
    return [(turn.state.value, turn.word) for turn in tracker.finish()]


@pytest.mark.parametrize(
    ("records", "turns"),
    [
        ([], []),
        ([prompt("p"), _ANSWER], [("ended", "end_turn")]),
        ([prompt("p"), _TOOL, _RESULT], [("running", None)]),
        ([prompt("p"), _ANSWER, prompt("p2"), _TOOL], [("ended", "end_turn"), ("running", "tool_use")]),
        ([prompt("p"), _ANSWER, _COORDINATOR, _ANSWER], [("ended", "end_turn"), ("ended", "end_turn")]),
        ([prompt("p"), _TOOL, _COORDINATOR, _ANSWER], [("running", "tool_use"), ("ended", "end_turn")]),
        ([prompt("p"), _ANSWER, notification("n", "b", "a1", "toolu_2"), _TOOL], [("running", "tool_use")]),
        ([prompt("p"), _ANSWER, prompt("p2", isMeta=True)], [("ended", "end_turn")]),
        ([prompt("p"), _ANSWER, prompt("i", "[Request interrupted by user]")], [("ended", "end_turn")]),
        ([prompt("p"), api_error("e", None, 529), prompt("p2")], [("failed", "api_error_529"), ("running", None)]),
        ([prompt("p"), api_error("e", None, True)], [("failed", "api_error")]),
        ([prompt("p"), assistant("a", None, "m", stop_reason="pause_turn")], [("running", "pause_turn")]),
        ([prompt("p"), assistant("a", None, "m", stop_reason=["odd"])], [("ended", None)]),
    ],
)
def test_turns_end_with_an_answer_and_begin_with_a_prompt(
    records: list[Record], turns: list[tuple[str, str | None]]
) -> None:
    """Remarks, interruptions and messages in mid-turn neither end nor begin one."""
    assert _turns(*records) == turns
