"""Tests of reading single records."""

import pytest

from roller_capture.adapters.claude_code import record_shapes
from roller_capture.adapters.claude_code.facts import Place, ResultKind
from tests.adapters.claude_code.session_logs import Record, completed, launched, notification_text, text, tool_result

_PLACE = Place("log", 1)


@pytest.mark.parametrize(
    ("record", "kind", "agent_id"),
    [
        (tool_result("u", None, "t", detail=completed("a1")), ResultKind.COMPLETED, "a1"),
        (tool_result("u", None, "t", detail=launched("a1")), ResultKind.LAUNCHED, "a1"),
        (tool_result("u", None, "t", detail={"agentId": "a1", "isAsync": True}), ResultKind.LAUNCHED, "a1"),
        (tool_result("u", None, "t", detail={"success": True, "resumedAgentId": "a1"}), ResultKind.RESUMED, "a1"),
        (tool_result("u", None, "t", detail={"success": False, "resumedAgentId": "a1"}), ResultKind.PLAIN, None),
        (tool_result("u", None, "t", detail={"agentId": "a1", "status": "?"}), ResultKind.OTHER_STATUS, "a1"),
        (tool_result("u", None, "t", detail={"agentId": ["a1"], "status": "completed"}), ResultKind.PLAIN, None),
        (tool_result("u", None, "t", detail="Error: no", is_error=True), ResultKind.ERROR, None),
        (tool_result("u", None, "t", is_error=True, toolDenialKind="user-rejected"), ResultKind.REJECTED, None),
        (tool_result("u", None, "t", "plain"), ResultKind.PLAIN, None),
        (tool_result("u", None, "t", [text("agentId: a1 (use it)\n<usage>")]), ResultKind.COMPLETED, "a1"),
        (tool_result("u", None, "t", [text("  agentId: a2\nagentId: a1\n<usage>")]), ResultKind.COMPLETED, "a1"),
        (tool_result("u", None, "t", [text("agentId: a2\nagentId: a1\n<usage>")]), ResultKind.COMPLETED, "a1"),
        (tool_result("u", None, "t", '{"success":true,"resumedAgentId":"a1"}'), ResultKind.RESUMED, "a1"),
        (tool_result("u", None, "t", '{"success":false,"resumedAgentId":"a1"}'), ResultKind.PLAIN, None),
        (tool_result("u", None, "t", '{"resumedAgentId":'), ResultKind.PLAIN, None),
        (tool_result("u", None, "t", 5), ResultKind.PLAIN, None),
    ],
)
def test_what_a_tool_result_says_of_an_agent(record: Record, kind: ResultKind, agent_id: str | None) -> None:
    """The harness's own detail first, its part of the text where there is none."""
    (result,) = record_shapes.tool_results(record, record["message"], _PLACE)
    assert (result.kind, result.agent_id) == (kind, agent_id)


def test_one_detail_cannot_speak_for_two_results() -> None:
    """`toolUseResult` belongs to the record, so with two results it is nobody's."""
    record = tool_result("u", None, "t1", detail=completed("a1"))
    record["message"]["content"] += tool_result("u", None, "t2")["message"]["content"]
    results = list(record_shapes.tool_results(record, record["message"], _PLACE))
    assert [(item.tool_id, item.kind) for item in results] == [("t1", ResultKind.PLAIN), ("t2", ResultKind.PLAIN)]


@pytest.mark.parametrize(
    ("text_value", "expected"),
    [
        (notification_text("a1", "t1"), ("a1", "t1", "completed")),
        (notification_text("a1", None, "killed"), ("a1", None, "killed")),
        ("  " + notification_text("a1", "t1"), ("a1", "t1", "completed")),
        ("<task-notification><task-id>a1</task-id><summary><status>completed</status>", ("a1", None, None)),
        ("said: " + notification_text("a1", "t1"), None),
        ("<task-notification><task-id></task-id>", None),
        ("<task-notification>\n<status>completed</status>", None),
    ],
)
def test_a_notification_is_read_up_to_the_agents_own_words(
    text_value: str, expected: tuple[str, str | None, str | None] | None
) -> None:
    """Ids and status stand before summary and result."""
    found = record_shapes.notification(text_value, place=_PLACE, uuid="u", delivered=True)
    assert (found and (found.agent_id, found.tool_id, found.status)) == expected
