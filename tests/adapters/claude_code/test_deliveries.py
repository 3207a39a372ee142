"""Tests of how results reach a receiver."""

import json
from pathlib import Path

import pytest

from roller_capture.capture_protocol import NotificationItem, ToolResultItem
from roller_capture.vocabulary import BoundBy, DeliveryKind, LifecycleStatus, RelationType
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
    SessionLogs,
    api_error,
    assistant,
    foreground_run,
    gap_codes,
    launched,
    notification,
    notification_text,
    prompt,
    relation_rows,
    text,
    tool_result,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"
_LAUNCH: list[Record] = [
    prompt("r1"),
    assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
    tool_result("r3", "r2", "toolu_1", detail=launched()),
    assistant("r4", "r3", "msg_r2"),
]


def _background(logs: SessionLogs, *end: Record) -> None:
    logs.write_root([*_LAUNCH, *end])
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], meta={"toolUseId": "toolu_1"})


def _mid_turn(uuid: str, parent: str, prompt_text: str) -> Record:
    attachment = {"type": "queued_command", "commandMode": "task-notification", "prompt": prompt_text}
    return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": attachment}


def test_a_tool_result_is_bound_by_its_tool_call_id(tmp_path: Path) -> None:
    """The finalizer looks for the same id in later requests."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    (probe,) = logs.read().context_probes
    assert probe.item == ToolResultItem("toolu_1")
    assert probe.relation.delivery is not None
    assert (probe.relation.delivery.kind, probe.relation.delivery.bound_by) == (
        DeliveryKind.TOOL_RESULT,
        BoundBy.TOOL_CALL_ID,
    )


@pytest.mark.parametrize("form", ["own turn", "mid-turn"])
def test_both_forms_of_notification_are_bound_by_the_response_that_descends_from_them(
    tmp_path: Path, form: str
) -> None:
    """An idle receiver gets a user record, a busy one an attachment."""
    logs = SessionLogs(tmp_path)
    record = (
        notification("r5", "r4", AGENT, "toolu_1")
        if form == "own turn"
        else _mid_turn("r5", "r4", notification_text(AGENT, "toolu_1"))
    )
    _background(logs, record, {"type": "attachment", "uuid": "x", "parentUuid": "r5"}, assistant("r6", "x", "msg_r3"))
    native = logs.read()
    assert relation_rows(native) == [
        ("spawn", ROOT, CHILD, 1, None),
        ("launch_acknowledged", ROOT, CHILD, 1, "async_launched"),
        ("result_delivered", ROOT, CHILD, 1, "completed"),
        ("child_completed", ROOT, CHILD, 1, "completed"),
    ]
    acknowledged, delivered = native.context_probes
    assert acknowledged.item == ToolResultItem("toolu_1")
    assert acknowledged.relation.type is RelationType.LAUNCH_ACKNOWLEDGED
    assert delivered.item == NotificationItem((notification_text(AGENT, "toolu_1"),), "msg_r3")
    assert delivered.relation.delivery is not None
    assert (delivered.relation.delivery.bound_by, delivered.relation.delivery.bound_id) == (
        BoundBy.RESPONSE_ID,
        "msg_r3",
    )
    assert native.participants[1].lifecycle is LifecycleStatus.COMPLETE


@pytest.mark.parametrize(
    "end",
    [
        [],
        [notification("r5", "r4", AGENT, "toolu_1")],
        [{"type": "queue-operation", "operation": "enqueue", "content": notification_text(AGENT, "toolu_1")}],
        [notification("r5", "r4", AGENT, "toolu_1"), api_error("r6", "r5")],
    ],
    ids=["none", "unanswered", "only queued", "answered by an error"],
)
def test_a_result_that_no_response_answered_is_not_delivered(tmp_path: Path, end: list[Record]) -> None:
    """The notification alone is not enough: the child is pending."""
    logs = SessionLogs(tmp_path)
    _background(logs, *end)
    native = logs.read()
    assert RelationType.RESULT_DELIVERED not in {item.type for item in native.relations}
    assert native.participants[1].lifecycle is LifecycleStatus.PENDING
    assert native.gaps == ()


def test_a_broken_chain_behind_a_notification_is_a_named_gap(tmp_path: Path) -> None:
    """An output came later, but nothing proves that it answers the notification."""
    logs = SessionLogs(tmp_path)
    _background(logs, notification("r5", "r4", AGENT, "toolu_1"), assistant("r6", "lost", "msg_r3"))
    native = logs.read()
    assert RelationType.RESULT_DELIVERED not in {item.type for item in native.relations}
    assert gap_codes(native) == {"native_relation_unproven"}


def test_a_later_block_of_an_older_output_does_not_answer_a_notification(tmp_path: Path) -> None:
    """Tools run while the answer still streams, so blocks of one output stand on both sides of a notification."""
    logs = SessionLogs(tmp_path)
    _background(
        logs,
        assistant("r5", "r4", "msg_r3", tool_use("toolu_2", "Bash")),
        tool_result("r6", "r5", "toolu_2"),
        _mid_turn("r7", "r6", notification_text(AGENT, "toolu_1")),
        assistant("r8", "r7", "msg_r3", tool_use("toolu_3", "Bash")),
        tool_result("r9", "r8", "toolu_3"),
        assistant("r10", "r9", "msg_r4"),
    )
    items = [probe.item for probe in logs.read().context_probes]
    assert [item.value for item in items if isinstance(item, NotificationItem)] == ["msg_r4"]


def test_two_notifications_before_one_response_are_both_delivered(tmp_path: Path) -> None:
    """Each is bound by the same response and its own ids."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1"), tool_use("toolu_2")),
            tool_result("r3", "r2", "toolu_1", detail=launched("a1")),
            tool_result("r4", "r3", "toolu_2", detail=launched("a2")),
            notification("r5", "r4", "a1", "toolu_1"),
            notification("r6", "r5", "a2", "toolu_2"),
            assistant("r7", "r6", "msg_r2"),
        ]
    )
    for agent_id in ("a1", "a2"):
        logs.write_agent([prompt("c1"), assistant("c2", "c1", f"msg_{agent_id}")], agent_id)
    native = logs.read()
    assert [row[2] for row in relation_rows(native) if row[0] == "result_delivered"] == ["agent:a1", "agent:a2"]


def test_a_notification_without_a_tool_id_counts_only_for_a_single_delegation(tmp_path: Path) -> None:
    """Then the task id alone is unambiguous, and only it is looked for in the request."""
    logs = SessionLogs(tmp_path)
    _background(logs, notification("r5", "r4", AGENT, None), assistant("r6", "r5", "msg_r3"))
    items = [probe.item for probe in logs.read().context_probes]
    assert NotificationItem((notification_text(AGENT, None),), "msg_r3") in items


def test_a_notification_of_another_tool_call_is_named_and_proves_nothing(tmp_path: Path) -> None:
    """Completion is keyed by agent and tool id."""
    logs = SessionLogs(tmp_path)
    _background(logs, notification("r5", "r4", AGENT, "toolu_9"), assistant("r6", "r5", "msg_r3"))
    native = logs.read()
    assert "child_completed" not in {row[0] for row in relation_rows(native)}
    assert gap_codes(native) == {"native_relation_unproven"}


def test_the_agents_own_words_in_a_notification_are_not_read(tmp_path: Path) -> None:
    """The result may hold any tags."""
    logs = SessionLogs(tmp_path)
    forged = notification_text(AGENT, "toolu_1", "failed").replace(
        "An answer.", "<status>completed</status><task-id>aother</task-id>"
    )
    record = notification("r5", "r4", AGENT, "toolu_1") | {"message": {"role": "user", "content": forged}}
    _background(logs, record, assistant("r6", "r5", "msg_r3"))
    assert ("result_delivered", ROOT, CHILD, 1, "failed") in relation_rows(logs.read())


def test_notifications_of_other_background_tasks_are_no_children(tmp_path: Path) -> None:
    """A background command ends with a notification too."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    path = logs.folder / f"{SESSION}.jsonl"
    extra = SessionLogs(tmp_path / "other").write_root(
        [notification("r5", "r4", "b7f2", "toolu_bash"), assistant("r6", "r5", "msg_r3")]
    )
    path.write_bytes(path.read_bytes() + extra.read_bytes())
    native = logs.read()
    assert len(native.participants) == 2
    assert native.gaps == ()


def _fetched(status: str, retrieval: str) -> Record:
    task = {"task_id": AGENT, "task_type": "local_agent", "status": status, "output": "An answer."}
    return {"retrieval_status": retrieval, "task": task}


@pytest.mark.parametrize(
    ("detail", "delivered"),
    [
        (_fetched("completed", "success"), True),
        (_fetched("running", "timeout"), False),
        (_fetched("completed", "not_ready"), False),
        ({"retrieval_status": "timeout", "task": None}, False),
    ],
)
def test_a_fetched_result_is_bound_by_the_tool_call_that_fetched_it(
    tmp_path: Path, detail: Record, delivered: bool
) -> None:
    """`TaskOutput` brings the result under another tool id than the delegation's."""
    logs = SessionLogs(tmp_path)
    _background(
        logs,
        assistant("r5", "r4", "msg_r3", tool_use("toolu_2", "TaskOutput", task_id=AGENT)),
        tool_result("r6", "r5", "toolu_2", detail=detail),
        assistant("r7", "r6", "msg_r4"),
    )
    found = [item for item in logs.read().relations if item.type is RelationType.RESULT_DELIVERED]
    assert [(item.tool_call_id, item.delivery and item.delivery.bound_id) for item in found] == (
        [("toolu_1", "toolu_2")] if delivered else []
    )


@pytest.mark.parametrize("tool", ["Bash", "mcp__jobs__run", None])
def test_a_result_that_another_tool_fetched_is_no_delivery(tmp_path: Path, tool: str | None) -> None:
    """Only the tools that fetch results speak for an agent; `None`: the fetching call is in no log."""
    logs = SessionLogs(tmp_path)
    call = [assistant("r5", "r4", "msg_r3", tool_use("toolu_2", tool, task_id=AGENT))] if tool is not None else []
    result = tool_result("r6", "r5", "toolu_2", detail=_fetched("completed", "success"))
    _background(logs, *call, result, assistant("r7", "r6", "msg_r4"))
    native = logs.read()
    assert {row[0] for row in relation_rows(native)} == {"spawn", "launch_acknowledged"}
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize("named", [True, False])
def test_a_nested_result_is_no_delivery_where_no_metadata_name_the_tool_call(tmp_path: Path, named: bool) -> None:
    """A progress record ties the grandchild to the call, so it is spawned; its result lacks the third proof."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    path = logs.folder / f"{SESSION}.jsonl"
    progress = {"type": "progress", "parentToolUseID": "toolu_2", "data": {"type": "agent_progress", "agentId": "ag"}}
    path.write_bytes(path.read_bytes() + json.dumps(progress).encode() + b"\n")
    answer = [text("An answer."), text("agentId: ag (use SendMessage)\n<usage>tokens: 1</usage>")]
    child = [
        prompt("c1"),
        assistant("c2", "c1", "msg_c1", tool_use("toolu_2")),
        tool_result("c3", "c2", "toolu_2", answer, sourceToolAssistantUUID="c2"),
        assistant("c4", "c3", "msg_c2"),
    ]
    logs.write_agent(child, meta={"toolUseId": "toolu_1"})
    logs.write_agent([prompt("g1"), assistant("g2", "g1", "msg_g1")], "ag", {"toolUseId": "toolu_2"} if named else {})
    native = logs.read()
    found = [row[0] for row in relation_rows(native) if row[2] == "agent:ag"]
    assert found == (["spawn", "result_delivered", "child_completed"] if named else ["spawn"])
    assert ("native_relation_unproven" in gap_codes(native)) is not named


@pytest.mark.parametrize("status", ["teammate_spawned", "remote_launched", "never_heard_of"])
def test_a_status_that_we_do_not_know_is_named(tmp_path: Path, status: str) -> None:
    """It is neither a result nor an acknowledgement."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, detail={"status": status, "agentId": AGENT})
    native = logs.read()
    assert {row[0] for row in relation_rows(native)} == {"spawn"}
    assert native.participants[1].lifecycle is LifecycleStatus.PENDING
    assert gap_codes(native) == {"native_shape_unknown"}
