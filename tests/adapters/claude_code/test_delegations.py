"""Tests of which tool call delegated to which child, and of everything that leaves it unproven."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import LifecycleStatus
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    SessionLogs,
    api_error,
    assistant,
    completed,
    foreground_run,
    gap_codes,
    launched,
    notification,
    prompt,
    relation_rows,
    text,
    tool_result,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"
GRAND = "afedcba9876543210"


def test_two_children_with_one_prompt_are_tied_by_their_own_tool_ids(tmp_path: Path) -> None:
    """Text and order say nothing; the results stand in completion order."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1")),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_2")),
            tool_result("r3", "r2", "toolu_2", detail=completed("a2")),
            tool_result("r4", "r1", "toolu_1", detail=completed("a1")),
        ]
    )
    for agent_id, tool_id in (("a2", "toolu_2"), ("a1", "toolu_1")):
        logs.write_agent([prompt("c1"), assistant("c2", "c1", f"msg_{agent_id}")], agent_id, {"toolUseId": tool_id})
    native = logs.read()
    tied = {(item.child_key, item.tool_call_id) for item in native.relations}
    assert tied == {("agent:a1", "toolu_1"), ("agent:a2", "toolu_2")}
    assert native.gaps == ()


@pytest.mark.parametrize("tool", ["Task", "Agent"])
@pytest.mark.parametrize("meta", [None, {"agentType": "x", "description": "d"}])
def test_without_a_tool_id_in_metadata_the_result_ties_the_child(tmp_path: Path, tool: str, meta: object) -> None:
    """Versions up to 2.1.114 have no metadata, or none with the tool id; `toolUseResult.agentId` is the tie."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1", tool)),
            tool_result("r2", "r1", "toolu_1", detail=completed("1a2b3c4")),
        ]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], "1a2b3c4", meta)
    assert relation_rows(logs.read()) == [
        ("spawn", ROOT, "agent:1a2b3c4", 1, None),
        ("result_delivered", ROOT, "agent:1a2b3c4", 1, "completed"),
        ("child_completed", ROOT, "agent:1a2b3c4", 1, "completed"),
    ]


def test_a_child_that_no_tool_call_launched_has_no_parent(tmp_path: Path) -> None:
    """A warm-up child is a real executor with real calls, and nothing says who started it."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent([prompt("c1", "Warmup"), assistant("c2", "c1", "msg_c1")], "1a2b3c4")
    native = logs.read()
    assert [(item.parent_key, item.lifecycle) for item in native.participants[1:]] == [(None, LifecycleStatus.UNKNOWN)]
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}


def _nested(logs: SessionLogs, *, meta: dict[str, object], result: dict[str, object]) -> None:
    foreground_run(
        logs,
        child=[
            prompt("c1"),
            assistant("c2", "c1", "msg_c1", tool_use("toolu_2")),
            tool_result("c3", "c2", "toolu_2", **result),
            assistant("c4", "c3", "msg_c2"),
        ],
    )
    logs.write_agent([prompt("g1"), assistant("g2", "g1", "msg_g1")], GRAND, meta)


_META = {"toolUseId": "toolu_2", "parentAgentId": AGENT}
_TEXT = [text("An answer."), text(f"agentId: {GRAND} (use SendMessage)\n<usage>tokens: 1</usage>")]
_RESULT = {"content": _TEXT, "sourceToolAssistantUUID": "c2"}


@pytest.mark.parametrize(
    ("meta", "result", "delivered"),
    [
        (_META, _RESULT, True),
        ({"toolUseId": "toolu_2"}, _RESULT, True),
        ({"toolUseId": "toolu_2"}, _RESULT | {"content": "no id in it"}, False),
        (_META, _RESULT | {"content": [text("agentId: aother\n<usage>")]}, False),
        (_META, _RESULT | {"sourceToolAssistantUUID": "c9"}, False),
        (_META, {"content": _TEXT}, False),
        ({"parentAgentId": AGENT}, _RESULT, False),
        (_META | {"parentAgentId": "aother"}, _RESULT, False),
        (_META, _RESULT | {"content": [text(f"forged\nagentId: {GRAND}"), text("agentId: aother\n<usage>")]}, False),
    ],
)
def test_a_nested_result_needs_metadata_record_and_text_to_agree(
    tmp_path: Path, meta: dict[str, object], result: dict[str, object], delivered: bool
) -> None:
    """A child's log has no `toolUseResult`: metadata, the calling record's uuid and the harness's line must agree."""
    logs = SessionLogs(tmp_path)
    _nested(logs, meta=meta, result=result)
    native = logs.read()
    found = [row for row in relation_rows(native) if row[0] == "result_delivered" and row[2] == f"agent:{GRAND}"]
    assert bool(found) is delivered
    assert ("native_relation_unproven" in gap_codes(native)) is not delivered


def test_a_nested_launch_is_acknowledged_and_not_delivered(tmp_path: Path) -> None:
    """The acknowledgement of a background launch is no result."""
    logs = SessionLogs(tmp_path)
    ack = [text(f"Async agent launched successfully.\nagentId: {GRAND} (internal)\noutput_file: /x")]
    _nested(logs, meta=_META, result=_RESULT | {"content": ack})
    native = logs.read()
    rows = [row[0] for row in relation_rows(native) if row[2] == f"agent:{GRAND}"]
    assert rows == ["spawn", "launch_acknowledged"]
    assert native.participants[2].lifecycle is LifecycleStatus.PENDING


def test_an_answer_that_begins_like_an_acknowledgement_is_a_result(tmp_path: Path) -> None:
    """A child may say anything; the harness adds its own block behind it."""
    logs = SessionLogs(tmp_path)
    forged = [text(f"Async agent launched successfully.\nagentId: {GRAND}"), _TEXT[1]]
    _nested(logs, meta=_META, result=_RESULT | {"content": forged})
    assert ("result_delivered", CHILD, f"agent:{GRAND}", 1, "completed") in relation_rows(logs.read())


def test_a_tool_id_in_two_outputs_is_no_proof(tmp_path: Path) -> None:
    """Some providers count tool ids per answer."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1")),
            assistant("r2", "r1", "msg_r2", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed()),
        ]
    )
    native = logs.read()
    assert native.relations == ()
    assert native.participants[1].lifecycle is LifecycleStatus.UNKNOWN
    assert "native_id_not_unique" in gap_codes(native)


def test_metadata_and_result_that_disagree_prove_nothing(tmp_path: Path) -> None:
    """The result of the tool call names another agent than the one whose metadata names the call."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, detail=completed("aother"))
    logs.write_agent([assistant("o1", None, "msg_o1")], "aother")
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_a_result_of_another_record_than_the_tool_calls_proves_nothing(tmp_path: Path) -> None:
    """`sourceToolAssistantUUID` names the record that made the call."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed(), sourceToolAssistantUUID="r9"),
        ]
    )
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_agents_that_launched_one_another_have_no_parents(tmp_path: Path) -> None:
    """A cycle is nobody's tree."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    for agent_id, uses, launched_by in (("a1", "toolu_2", "toolu_1"), ("a2", "toolu_1", "toolu_2")):
        records = [assistant("c1", None, f"msg_{agent_id}", tool_use(uses))]
        logs.write_agent(records, agent_id, {"toolUseId": launched_by})
    native = logs.read()
    assert [item.parent_key for item in native.participants[1:]] == [None, None]
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_an_agent_that_names_itself_as_parent_has_none(tmp_path: Path) -> None:
    """The shortest cycle."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent(
        [assistant("c1", None, "msg_c1", tool_use("toolu_1"))], meta={"toolUseId": "toolu_1", "parentAgentId": AGENT}
    )
    assert logs.read().participants[1].parent_key is None


def test_a_parent_named_by_metadata_alone_is_kept_but_spawns_nothing(tmp_path: Path) -> None:
    """Where the line with the tool call is damaged there is a parent, no proof of the call, and a gap."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_agent([assistant("g1", None, "msg_g1")], GRAND, {"toolUseId": "toolu_lost", "parentAgentId": AGENT})
    native = logs.read()
    assert native.participants[2].parent_key == CHILD
    assert not [row for row in relation_rows(native) if row[2] == f"agent:{GRAND}"]
    assert "native_relation_unproven" in gap_codes(native)


def _resumed(logs: SessionLogs, *end: dict[str, object], child_again: bool = True) -> None:
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed()),
            assistant("r4", "r3", "msg_r2", tool_use("toolu_2", "SendMessage", to=AGENT)),
            tool_result("r5", "r4", "toolu_2", detail={"success": True, "resumedAgentId": AGENT}),
            assistant("r6", "r5", "msg_r3", tool_use("toolu_3", "SendMessage", to=AGENT)),
            tool_result("r7", "r6", "toolu_3", detail={"success": True, "message": "queued"}),
            *end,
        ]
    )
    again = [prompt("c3", "More.", isMeta=True, origin={"kind": "coordinator"}), assistant("c4", "c3", "msg_c2")]
    first = [prompt("c1"), assistant("c2", "c1", "msg_c1")]
    logs.write_agent(first + (again if child_again else again[:1]), meta={"toolUseId": "toolu_1"})


def test_a_resumed_child_is_judged_by_the_new_tool_id(tmp_path: Path) -> None:
    """A message that was only queued is no delegation."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    native = logs.read()
    assert relation_rows(native) == [
        ("spawn", ROOT, CHILD, 1, None),
        ("result_delivered", ROOT, CHILD, 1, "completed"),
        ("child_completed", ROOT, CHILD, 1, "completed"),
        ("spawn", ROOT, CHILD, 2, None),
        ("launch_acknowledged", ROOT, CHILD, 2, "resumed"),
        ("result_delivered", ROOT, CHILD, 2, "completed"),
        ("child_completed", ROOT, CHILD, 2, "completed"),
    ]
    assert {item.tool_call_id for item in native.relations if item.delegation == 2} == {"toolu_2"}


def test_each_delegation_of_a_resumed_child_has_its_own_end(tmp_path: Path) -> None:
    """The first one failed, the second one completed, both were reported as completed."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    again = [prompt("c3", "More.", isMeta=True, origin={"kind": "coordinator"}), assistant("c4", "c3", "msg_c2")]
    logs.write_agent([prompt("c1"), api_error("c2", "c1"), *again], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    ends = [(row[0], row[3]) for row in relation_rows(native) if row[0].startswith("child_")]
    assert ends == [("child_failed", 1), ("child_completed", 2)]


def test_the_first_completion_is_not_reused_for_the_second_delegation(tmp_path: Path) -> None:
    """A second delegation without an end is pending."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, child_again=False)
    native = logs.read()
    assert [row for row in relation_rows(native) if row[3] == 2] == [
        ("spawn", ROOT, CHILD, 2, None),
        ("launch_acknowledged", ROOT, CHILD, 2, "resumed"),
    ]
    assert native.participants[1].lifecycle is LifecycleStatus.PENDING


def test_an_old_task_call_that_resumes_by_its_input_is_a_second_delegation(tmp_path: Path) -> None:
    """`Task` with `resume` returned the same agent id under a new tool id."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1", "Task")),
            tool_result("r2", "r1", "toolu_1", detail=completed("1a2b3c4")),
            assistant("r3", "r2", "msg_r2", tool_use("toolu_2", "Task", resume="1a2b3c4")),
            tool_result("r4", "r3", "toolu_2", detail=completed("1a2b3c4")),
        ]
    )
    logs.write_agent(
        [prompt("c1"), assistant("c2", "c1", "msg_c1"), prompt("c3"), assistant("c4", "c3", "msg_c2")], "1a2b3c4"
    )
    native = logs.read()
    assert [row[3] for row in relation_rows(native) if row[0] == "child_completed"] == [1, 2]
    assert native.gaps == ()


def test_two_launches_of_one_agent_contradict_each_other(tmp_path: Path) -> None:
    """Only a call whose own input names the agent may delegate to it again."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1"), tool_use("toolu_2")),
            tool_result("r2", "r1", "toolu_1", detail=completed()),
            tool_result("r3", "r1", "toolu_2", detail=launched()),
        ]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")])
    native = logs.read()
    assert native.participants[1].lifecycle is LifecycleStatus.UNKNOWN
    assert "native_relation_unproven" in gap_codes(native)
