"""Tests of what a spawn, a message to a child, and a child's end give."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.capture_protocol import NotificationItem, ToolResultItem
from roller_capture.vocabulary import BoundBy, DeliveryKind, ExecutionStatus, LifecycleStatus, RelationType
from tests.adapters.openclaw.home_rows import (
    CHILD,
    CHILD_ID,
    CHILD_RUN,
    RESULT,
    ROOT,
    ROOT_ID,
    ROOT_RUN,
    SETTLE,
    SPAWN_CALL,
    V1,
    WIRE_ID,
    HomeRows,
    accepted,
    gap_codes,
    lifecycle_of,
    one_child,
    relation_types,
)

_DONE = ["spawn", "launch_acknowledged", "child_completed", "result_delivered"]
_HEADING = f"session_key: {CHILD}\nsession_id: "
_SEND_RUN = "61111111-0000-4000-8000-000000000001"
_OTHER_RUN = "71111111-0000-4000-8000-000000000001"
_TOLD_RUN = "81111111-0000-4000-8000-000000000001"
_LAST_RUN = "91111111-0000-4000-8000-000000000001"


def test_a_child_that_was_announced_gives_all_four_relations(tmp_path: Path) -> None:
    """Spawn, acknowledgement, end and delivery, each with the native id of the delegation and of the announcement."""
    native = one_child().read(tmp_path)
    assert native.gaps == ()
    assert relation_types(native) == _DONE
    assert {item.tool_call_id for item in native.relations} == {SPAWN_CALL}
    assert {(item.parent_key, item.child_key, item.parent_output_id) for item in native.relations} == {
        (ROOT, CHILD, "resp_1")
    }
    deliveries = [item.delivery for item in native.relations if item.delivery is not None]
    assert [(item.kind, item.bound_by, item.bound_id) for item in deliveries] == [
        (DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, SPAWN_CALL),
        (DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID, SETTLE),
    ]


def test_the_tool_result_is_looked_for_under_the_id_that_the_resolver_gave(tmp_path: Path) -> None:
    """Never under the native id, and never under one that only looks as the resolver would make it."""
    native = one_child().read(tmp_path)
    assert next(item.item for item in native.context_probes) == ToolResultItem(WIRE_ID)


def test_an_id_of_call_and_item_is_looked_for_by_its_call(tmp_path: Path) -> None:
    """The Responses endpoint is sent the part before the bar (the native id of the relation keeps both)."""
    rows = one_child()
    rows.hook.clear()
    native = rows.tool_ids("resp_1", "call_spawn|fc_9").read(tmp_path)
    assert native.context_probes[0].item == ToolResultItem("call_spawn")


def test_an_id_that_the_harnesss_client_made_up_is_one_like_any_other(tmp_path: Path) -> None:
    """Some services give tool calls no ids (Ollama); what the client put in their place is in logs and requests."""
    made_up = "ollama_call_5f0e6a0c-2f0b-4d55-9a10-0c8c7d2f6c11"
    rows = one_child()
    for row in rows.agent:
        row.update(event_json=str(row.get("event_json")).replace(SPAWN_CALL, made_up))
    rows.hook.clear()
    native = rows.tool_ids("resp_1", made_up.replace("_", "")).read(tmp_path)
    assert {item.tool_call_id for item in native.relations} == {made_up}
    assert native.context_probes[0].item == ToolResultItem(made_up.replace("_", ""))


def test_without_the_resolvers_word_no_result_is_looked_for(tmp_path: Path) -> None:
    """The rule by which ids are rewritten is the harness's own business: not knowing it is a gap."""
    rows = one_child()
    rows.hook.clear()
    native = rows.read(tmp_path)
    assert [type(item.item) for item in native.context_probes] == [NotificationItem]
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize(
    ("announcement", "has_input", "on_the_wire", "expected"),
    [
        (SETTLE, True, True, NotificationItem((f"It has ended.\n{RESULT}",), SETTLE, "header:x-roller-run-id")),
        (SETTLE, True, False, NotificationItem((f"It has ended.\n{RESULT}",), "resp_4")),
        (
            V1,
            False,
            True,
            NotificationItem((f"session_key: {CHILD}\nsession_id: ", RESULT), V1, "header:x-roller-run-id"),
        ),
    ],
)
def test_a_notification_is_bound_by_its_run_and_by_its_text(
    tmp_path: Path, announcement: str, has_input: bool, on_the_wire: bool, expected: NotificationItem
) -> None:
    """The text is the native one; where the log lacks it, the child's key as such messages give it, and its result."""
    rows = one_child(announcement)
    if not has_input:
        rows.agent = [row for row in rows.agent if f"{announcement}:user" not in str(row.get("event_json"))]
    native = rows.read(tmp_path, run_ids=frozenset({announcement}) if on_the_wire else frozenset())
    assert native.context_probes[-1].item == expected
    assert native.gaps == ()


def test_a_message_put_into_a_running_turn_is_bound_to_the_answer_behind_it(tmp_path: Path) -> None:
    """It has no run of its own; its marks of internal context are written otherwise in the request."""
    rows = one_child("")
    text = f"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nended: {RESULT}\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    rows.user(ROOT_ID, f"{V1}:active-wake", text).event(ROOT_ID, {"type": "custom"}).answer(ROOT_ID, "resp_9")
    native = rows.read(tmp_path)
    assert native.context_probes[-1].item == NotificationItem((f"ended: {RESULT}",), "resp_9")
    assert native.relations[-1].delivery is not None
    assert native.relations[-1].delivery.bound_id == f"{V1}:active-wake"


@pytest.mark.parametrize(
    ("payload", "relations", "status", "lifecycle", "gaps"),
    [
        ({}, _DONE, "completed", "complete", set()),
        ({"delivery": {"status": "pending"}}, _DONE[:3], "completed", "pending", set()),
        ({"delivery": {"status": "suspended"}}, _DONE[:3], "completed", "pending", set()),
        ({"delivery": {"status": "failed"}}, _DONE[:3], "completed", "pending", set()),
        ({"delivery": None}, _DONE[:3], "completed", "pending", set()),
        ({"delivery": None, "expectsCompletionMessage": False}, _DONE[:3], "completed", "complete", set()),
        ({"execution": {"status": "running"}, "delivery": {}}, _DONE[:2], "interrupted", "pending", set()),
        ({"execution": {"status": "a new word"}, "delivery": {}}, _DONE[:2], "interrupted", "pending", set()),
        (
            {"execution": {"status": "terminal", "outcome": {"status": "error"}}},
            ["spawn", "launch_acknowledged", "child_failed", "result_delivered"],
            "failed",
            "complete",
            set(),
        ),
        (
            {"endedReason": "subagent-killed", "delivery": {}},
            _DONE[:2],
            "interrupted",
            "pending",
            set(),
        ),
        (
            {"execution": {"status": "terminal", "outcome": {"status": "?"}}, "delivery": {}},
            _DONE[:2],
            "unknown",
            "unknown",
            {"native_relation_unproven"},
        ),
        (
            {"execution": {"status": "terminal", "outcome": {"status": "timeout"}}},
            ["spawn", "launch_acknowledged", "child_failed", "result_delivered"],
            "failed",
            "complete",
            set(),
        ),
    ],
)
def test_the_registry_says_how_a_child_ended(
    tmp_path: Path, payload: dict[str, Any], relations: list[str], status: str, lifecycle: str, gaps: set[str]
) -> None:
    """Ended and told: complete. Ended and not told, not ended, or cut by the end of the root or gateway: pending. Ended
    in a way that is not known: unknown."""
    rows = one_child()
    rows.registry.pop()
    native = rows.run(payload).read(tmp_path)
    child = next(item for item in native.participants if item.key == CHILD)
    assert relation_types(native) == relations
    assert (child.execution_status, child.lifecycle) == (ExecutionStatus(status), LifecycleStatus(lifecycle))
    assert gap_codes(native) == gaps


@pytest.mark.parametrize(
    ("task", "details", "lifecycle"),
    [
        ({}, {}, "complete"),
        ({}, {"cancelled": False}, "pending"),
        ({}, {"taskId": "another"}, "pending"),
        ({"task_id": "another"}, {}, "pending"),
        ({"run_id": "another"}, {}, "pending"),
        ({"child_session_key": "another"}, {}, "pending"),
    ],
)
def test_a_child_that_its_parent_stopped_is_settled_without_delivery(
    tmp_path: Path, task: dict[str, Any], details: dict[str, Any], lifecycle: str
) -> None:
    """The parent's tool result names the task, the task the run: only both together show who stopped it."""
    rows = one_child("")
    rows.registry.pop()
    rows.run({"endedReason": "subagent-killed", "delivery": {"status": "pending"}}).task(CHILD_RUN, "cancelled")
    rows.registry[-1] |= {"task_id": "task-1", **task}
    rows.result(ROOT_ID, "call_stop", "subagents", {"taskId": "task-1", "cancelled": True, **details}, isError=True)
    child = next(item for item in rows.read(tmp_path).participants if item.key == CHILD)
    assert (child.execution_status.value, child.lifecycle.value) == ("interrupted", lifecycle)


@pytest.mark.parametrize(
    ("member", "column"),
    [
        ("runId", "run_id"),
        ("childSessionKey", "child_session_key"),
        ("requesterSessionKey", "requester_session_key"),
    ],
)
def test_a_row_that_its_own_payload_contradicts_leaves_the_child_unknown(
    tmp_path: Path, member: str, column: str
) -> None:
    """Of the two neither wins."""
    rows = one_child()
    row = rows.registry.pop()
    native = rows.run({member: "agent:main:another"}, **{column: row[column]}).read(tmp_path)
    assert gap_codes(native) == {"native_id_not_unique"}
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN


def test_a_delivery_that_the_requesters_log_lacks_is_not_known_to_have_come(tmp_path: Path) -> None:
    """The registry's word alone does not make it one."""
    native = one_child("").read(tmp_path)
    assert relation_types(native) == _DONE[:3]
    assert gap_codes(native) == {"native_relation_unproven"}
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("tool", ["sessions_spawn", "sessions_send"])
def test_a_tool_result_that_a_log_has_lost_may_be_any_childs(tmp_path: Path, tool: str) -> None:
    """A transcript that goes on must have it."""
    rows = one_child().answer(ROOT_ID, "resp_5", SETTLE, ("call_5", tool)).answer(ROOT_ID, "resp_6", SETTLE)
    native = rows.read(tmp_path)
    assert relation_types(native) == _DONE
    assert gap_codes(native) == {"native_relation_unproven"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_completed_needs_a_good_end_in_the_childs_own_log(tmp_path: Path) -> None:
    """The registry's word alone proves no completion when the log ends in an error."""
    rows = one_child().answer(CHILD_ID, None, CHILD_RUN, stopReason="error")
    native = rows.read(tmp_path)
    assert "child_completed" not in relation_types(native)
    assert gap_codes(native) == {"native_relation_unproven"}
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN


def test_what_a_child_said_last_is_not_judged(tmp_path: Path) -> None:
    """A child can end well by its records and say only what it is about to do: that is its result all the same."""
    rows = one_child()
    rows.registry.pop()
    native = rows.run({"completion": {"resultText": "I will look at it now."}}).read(tmp_path)
    assert relation_types(native) == _DONE
    assert (native.gaps, lifecycle_of(native)) == ((), LifecycleStatus.COMPLETE)


def test_a_run_entered_anew_is_found_by_the_id_of_its_spawn(tmp_path: Path) -> None:
    """A child that yielded and was woken has another run id in the registry; announcements name that one."""
    own = f"announce:requester-settle:main:{CHILD}:71111111-0000-4000-8000-000000000001:yield-1"
    outer = f"announce:requester-settle:main:{ROOT}:{own}:yield-1"
    rows = one_child(outer)
    rows.registry.pop()
    native = rows.run({"runId": own}).read(tmp_path, run_ids=frozenset({outer}))
    assert native.gaps == ()
    assert relation_types(native) == _DONE
    assert native.relations[-1].delivery is not None
    assert native.relations[-1].delivery.bound_id == outer


def test_a_tool_id_that_each_session_counts_anew_is_each_sessions_own(tmp_path: Path) -> None:
    """Some models number their tool calls: a root and its child can both have spawned by `sessions_spawn:0`."""
    counted, grand = "sessions_spawn:0", "agent:main:subagent:grand"
    grand_id, grand_run = "61111111-0000-4000-8000-000000000001", "71111111-0000-4000-8000-000000000001"
    rows = HomeRows().session(ROOT, ROOT_ID).session(CHILD, CHILD_ID, ROOT).session(grand, grand_id, CHILD)
    rows.answer(ROOT_ID, "resp_1", ROOT_RUN, (counted, "sessions_spawn"))
    rows.result(ROOT_ID, counted, "sessions_spawn", accepted())
    rows.answer(CHILD_ID, "resp_2", CHILD_RUN, (counted, "sessions_spawn"))
    rows.result(CHILD_ID, counted, "sessions_spawn", accepted(childSessionKey=grand, runId=grand_run))
    rows.answer(grand_id, "resp_3", grand_run).tool_ids("resp_1", "sessionsspawn0")
    rows.tool_ids("resp_2", "sessionsspawn0", session_id=CHILD_ID).run()
    keys = {"runId": grand_run, "taskRunId": grand_run, "childSessionKey": grand, "requesterSessionKey": CHILD}
    rows.run(keys, child_session_key=grand, requester_session_key=CHILD)
    native = rows.read(tmp_path, sessions=frozenset({ROOT_ID, CHILD_ID, grand_id}))
    spawns = [one for one in native.relations if one.type is RelationType.SPAWN]
    assert [(one.parent_key, one.child_key, one.parent_output_id) for one in spawns] == [
        (ROOT, CHILD, "resp_1"),
        (CHILD, grand, "resp_2"),
    ]
    assert {one.tool_call_id for one in spawns} == {counted}


def test_an_id_that_another_session_sent_is_not_this_ones(tmp_path: Path) -> None:
    """Providers may give two sessions one response id; what stood for a tool call is known of each session alone."""
    rows = one_child().tool_ids("resp_1", "exec1", session_id=CHILD_ID)
    items = [probe.item for probe in rows.read(tmp_path).context_probes]
    assert [item for item in items if isinstance(item, ToolResultItem)] == [ToolResultItem(WIRE_ID)]


def test_two_tool_calls_that_lose_their_difference_when_they_are_sent_are_not_told_apart(tmp_path: Path) -> None:
    """Requests have tool ids without their punctuation, so that two ids can become one."""
    native = one_child().tool_ids("resp_2", WIRE_ID).read(tmp_path)
    assert not any(isinstance(probe.item, ToolResultItem) for probe in native.context_probes)
    assert gap_codes(native) == {"native_id_not_unique"}


@pytest.mark.parametrize("announcement", [V1.replace(CHILD_RUN, _SEND_RUN), "announce:of-another-form"])
def test_an_announcement_of_a_run_that_nobody_knows_is_named(tmp_path: Path, announcement: str) -> None:
    """It brought something to its requester, though there is another one that can be told."""
    rows = one_child().user(ROOT_ID, f"{announcement}:user", "It has ended.").answer(ROOT_ID, "resp_5", announcement)
    native = rows.read(tmp_path)
    assert relation_types(native) == _DONE
    assert gap_codes(native) == {"native_relation_unproven"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_an_announcement_that_only_a_request_tells_of_is_named(tmp_path: Path) -> None:
    """A child may be announced twice; that one of both is told does not make up for the other."""
    native = one_child().read(tmp_path, run_ids=frozenset({SETTLE, V1, f"{SETTLE}:compaction:1", ROOT_RUN}))
    assert relation_types(native) == _DONE
    assert gap_codes(native) == {"native_relation_unproven"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert one_child().read(tmp_path / "whole", run_ids=frozenset({SETTLE, f"{SETTLE}:compaction:1"})).gaps == ()


def test_without_a_registry_row_nothing_is_known_of_the_end(tmp_path: Path) -> None:
    """The spawn stands, proven by the tool result and the child's own row."""
    rows = one_child()
    rows.registry.pop()
    native = rows.read(tmp_path)
    child = next(item for item in native.participants if item.key == CHILD)
    assert relation_types(native) == _DONE[:2]
    assert (child.execution_status, child.lifecycle) == (ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)


def _sent(rows: HomeRows, status: str = "ok", task: str | None = "succeeded", run_id: str = _SEND_RUN) -> HomeRows:
    """A message to the child, its answer in the child's log, and the root's tool result of the given status."""
    tool_id = f"call_send_{run_id[:1]}"
    rows.answer(ROOT_ID, f"resp_send_{run_id[:1]}", SETTLE, (tool_id, "sessions_send"))
    details: dict[str, Any] = {"status": status, "runId": run_id, "sessionKey": CHILD}
    owed = "pending" if status in ("accepted", "timeout") else "skipped"
    details |= {"sentBeforeError": True} if status == "error" else {"delivery": {"status": owed, "mode": "announce"}}
    rows.result(ROOT_ID, tool_id, "sessions_send", details, isError=status == "error")
    rows.user(CHILD_ID, f"{run_id}:user", source=("sessions_send", ROOT)).answer(
        CHILD_ID, f"resp_re_{run_id[:1]}", run_id
    )
    if task is not None:
        rows.task(run_id, task)
    return rows.tool_ids(f"resp_send_{run_id[:1]}", f"callsend{run_id[:1]}")


def _told(rows: HomeRows, run_id: str = _TOLD_RUN, source: str = CHILD, tool: str = "subagent_announce") -> HomeRows:
    """The child's answer to a message, put to the root in a run of its own, and the root's answer to that."""
    text = f"[Inter-session message] sourceSession={source} sourceTool={tool} isUser=false\n(words)\nIt is 42."
    return rows.user(ROOT_ID, f"{run_id}:user", text, (tool, source)).answer(ROOT_ID, f"resp_{run_id[:4]}", run_id)


def test_a_message_to_a_child_is_a_second_delegation_judged_by_its_own_id(tmp_path: Path) -> None:
    """Its tool result holds the answer, so there is no acknowledgement."""
    native = _sent(one_child()).read(tmp_path)
    second = [item for item in native.relations if item.delegation == 2]
    assert native.gaps == ()
    assert [item.type.value for item in second] == ["spawn", "child_completed", "result_delivered"]
    assert {item.tool_call_id for item in second} == {"call_send_6"}
    assert ToolResultItem("callsend6") in [item.item for item in native.context_probes]


def test_a_spawn_is_judged_by_its_own_runs(tmp_path: Path) -> None:
    """A message that was sent to the child later, and failed, does not speak of the end of its first task."""
    rows = _sent(one_child(), task="failed")
    rows.answer(CHILD_ID, None, _SEND_RUN, stopReason="error", errorMessage="x")
    native = rows.read(tmp_path)
    [end] = [item for item in native.relations if item.type is RelationType.CHILD_COMPLETED]
    assert end.delegation == 1
    assert end.evidence[-1].locator.endswith("response:resp_3")
    assert native.gaps == ()


_ACK = ["spawn", "launch_acknowledged"]


@pytest.mark.parametrize(
    ("status", "task", "types", "lifecycle"),
    [
        ("ok", "failed", ["spawn", "child_failed", "result_delivered"], "complete"),
        ("ok", "timed_out", ["spawn", "child_failed", "result_delivered"], "complete"),
        ("ok", "running", ["spawn"], "unknown"),
        ("error", "failed", ["spawn", "child_failed", "result_delivered"], "complete"),
        ("accepted", "running", _ACK, "pending"),
        ("timeout", "running", _ACK, "pending"),
        ("accepted", "succeeded", [*_ACK, "child_completed"], "pending"),
        ("timeout", "succeeded", [*_ACK, "child_completed"], "pending"),
        ("accepted", "timed_out", [*_ACK, "child_failed"], "pending"),
        ("accepted", "lost", _ACK, "pending"),
        ("accepted", "a new word", _ACK, "unknown"),
        ("accepted", None, _ACK, "unknown"),
        ("no_reply", "succeeded", [], "unknown"),
    ],
)
def test_each_message_is_judged_by_its_own_task(
    tmp_path: Path, status: str, task: str | None, types: list[str], lifecycle: str
) -> None:
    """Sent and not waited for, or waited for in vain, is an acknowledgement, and nothing was told until it is."""
    native = _sent(one_child(), status, task).read(tmp_path)
    assert [item.type.value for item in native.relations if item.delegation == 2] == types
    assert lifecycle_of(native).value == lifecycle
    assert gap_codes(native) == ({"native_relation_unproven"} if lifecycle == "unknown" else set())


def test_a_refused_message_is_none(tmp_path: Path) -> None:
    """Its result names a session and a run, and says nowhere that the message was sent."""
    rows = one_child().answer(ROOT_ID, "resp_5", SETTLE, ("call_send", "sessions_send"))
    details = {"status": "error", "runId": _SEND_RUN, "sessionKey": CHILD}
    native = rows.result(ROOT_ID, "call_send", "sessions_send", details, isError=True).read(tmp_path)
    assert relation_types(native) == _DONE
    assert (native.gaps, lifecycle_of(native)) == ((), LifecycleStatus.COMPLETE)


def test_an_earlier_message_counts_beside_a_later_one(tmp_path: Path) -> None:
    """That a second message was answered says nothing of the first."""
    native = _sent(_sent(one_child(), "accepted", "running"), run_id=_OTHER_RUN).read(tmp_path)
    assert [item.type.value for item in native.relations if item.delegation == 3][-1] == "result_delivered"
    assert lifecycle_of(native) is LifecycleStatus.PENDING


def test_a_message_that_was_not_waited_for_is_answered_in_a_run_of_its_own(tmp_path: Path) -> None:
    """The message names the child; the first request of the run has its text without the harness's head, which later
    ones have before it."""
    native = _told(_sent(one_child(), "accepted")).read(tmp_path, run_ids=frozenset({SETTLE, _TOLD_RUN}))
    second = [item for item in native.relations if item.delegation == 2]
    assert [item.type.value for item in second] == [*_ACK, "child_completed", "result_delivered"]
    delivery = second[-1].delivery
    assert delivery is not None
    assert (delivery.kind, delivery.bound_by) == (DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID)
    assert delivery.bound_id == _TOLD_RUN
    later = (f"[Inter-session message] sourceSession={CHILD} ", "It is 42.")
    assert native.context_probes[-1].item == NotificationItem(
        ("It is 42.",), _TOLD_RUN, "header:x-roller-run-id", later_texts=later
    )
    assert (native.gaps, lifecycle_of(native)) == ((), LifecycleStatus.COMPLETE)


def test_without_the_header_it_is_bound_to_the_runs_first_answer(tmp_path: Path) -> None:
    """As other announcements are."""
    native = _told(_sent(one_child(), "accepted")).read(tmp_path, run_ids=frozenset({SETTLE}))
    item = native.context_probes[-1].item
    assert isinstance(item, NotificationItem)
    assert (item.field, item.value) == ("response_id", "resp_8111")


@pytest.mark.parametrize("strange", [{"tool": "sessions_send"}, {"source": "agent:main:subagent:other"}])
def test_a_message_of_another_kind_or_session_answers_nothing(tmp_path: Path, strange: dict[str, str]) -> None:
    """Nor is it named: any session can be sent messages."""
    native = _told(_sent(one_child(), "accepted"), **strange).read(tmp_path)
    assert (native.gaps, lifecycle_of(native)) == ((), LifecycleStatus.PENDING)


def test_messages_one_after_the_other_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """Each time a single one was owed its answer."""
    rows = _told(_sent(one_child(), "accepted"))
    native = _told(_sent(rows, "timeout", "failed", _OTHER_RUN), _LAST_RUN).read(tmp_path)
    bound = [item.delivery.bound_id for item in native.relations if item.delivery is not None]
    assert [one for one in bound if one in (_TOLD_RUN, _LAST_RUN)] == [_TOLD_RUN, _LAST_RUN]
    assert (native.gaps, lifecycle_of(native)) == ((), LifecycleStatus.COMPLETE)


def _two_at_once(rows: HomeRows) -> HomeRows:
    return _told(_told(_sent(_sent(rows, "accepted"), "accepted", run_id=_OTHER_RUN)), _LAST_RUN)


def _never_sent(rows: HomeRows) -> HomeRows:
    return _told(rows)


def _answered_twice(rows: HomeRows) -> HomeRows:
    return _told(_told(_sent(rows, "accepted")), _LAST_RUN)


def _in_another_transcript(rows: HomeRows) -> HomeRows:
    second = "a1111111-0000-4000-8000-000000000001"
    rows = _sent(rows, "accepted").session(ROOT, second)
    return rows.user(second, f"{_TOLD_RUN}:user", "It is 42.", ("subagent_announce", CHILD))


@pytest.mark.parametrize("shape", [_two_at_once, _never_sent, _answered_twice, _in_another_transcript])
def test_an_answer_that_could_be_anothers_is_nobodys(tmp_path: Path, shape: Callable[[HomeRows], HomeRows]) -> None:
    """Nothing in it names what it answers; texts and times decide nothing."""
    native = shape(one_child()).read(tmp_path)
    assert gap_codes(native) == {"native_relation_unproven"}
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN
    bound = {item.delivery.bound_id for item in native.relations if item.delivery is not None}
    assert _LAST_RUN not in bound


@pytest.mark.parametrize("status", ["accepted", "queued"])
def test_an_answer_may_be_to_a_message_that_is_not_proven(tmp_path: Path, status: str) -> None:
    """One that was put into a running turn begins no run of its own, and one of an unknown word may have been sent: so
    the message behind it is not the only one that an answer can be to."""
    rows = one_child().answer(ROOT_ID, "resp_5", SETTLE, ("call_other", "sessions_send"))
    delivery = {"status": "pending", "mode": "announce"}
    details = {"status": status, "runId": _LAST_RUN, "sessionKey": CHILD, "delivery": delivery}
    rows = rows.result(ROOT_ID, "call_other", "sessions_send", details).tool_ids("resp_5", "callother")
    native = _told(_sent(rows, "accepted", run_id=_OTHER_RUN)).read(tmp_path, run_ids=frozenset({SETTLE, _TOLD_RUN}))
    delivered = [one for one in native.relations if one.type is RelationType.RESULT_DELIVERED and one.delegation == 2]
    assert delivered == []
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("spawner", [ROOT, "agent:main:other"])
def test_a_message_that_nobodys_tool_result_sent_is_named(tmp_path: Path, spawner: str) -> None:
    """If it came from the child's parent; others may send what they like."""
    rows = one_child().user(CHILD_ID, f"{_SEND_RUN}:user", source=("sessions_send", spawner))
    native = rows.answer(CHILD_ID, "resp_6", _SEND_RUN).read(tmp_path)
    expected = LifecycleStatus.UNKNOWN if spawner == ROOT else LifecycleStatus.COMPLETE
    assert lifecycle_of(native) is expected
    assert gap_codes(native) == ({"native_relation_unproven"} if spawner == ROOT else set())


def _break(rows: HomeRows, how: str) -> None:
    spawned = next(row for row in rows.agent if row["table"] == "session_nodes" and row["session_key"] == CHILD)
    if how == "the child's row names another spawner":
        spawned["spawned_by"] = spawned["parent_session_key"] = "agent:main:other"
    elif how == "two rows name two spawners":
        spawned["parent_session_key"] = "agent:main:other"
    elif how == "the registry names another requester":
        rows.registry.pop()
        rows.run({"requesterSessionKey": "agent:main:other"}, requester_session_key="agent:main:other")
    elif how == "the registry knows another run only":
        rows.registry.pop()
        rows.run({"taskRunId": "another"})
    elif how == "two rows of one run":
        rows.run()
    elif how == "the tool id stands twice":
        rows.answer(ROOT_ID, "resp_7", ROOT_RUN, (SPAWN_CALL, "sessions_spawn"))
    elif how == "two results of one call":
        rows.result(ROOT_ID, SPAWN_CALL, "sessions_spawn", accepted())
    elif how == "another tool made the call":
        for row in rows.agent:
            row.update(event_json=str(row.get("event_json")).replace('"name": "sessions_spawn"', '"name": "exec"'))
    elif how == "no call":
        rows.agent = [row for row in rows.agent if '"resp_1"' not in str(row.get("event_json"))]


@pytest.mark.parametrize(
    "how",
    [
        "the child's row names another spawner",
        "two rows name two spawners",
        "the registry names another requester",
        "the registry knows another run only",
        "two rows of one run",
        "the tool id stands twice",
        "two results of one call",
        "another tool made the call",
        "no call",
    ],
)
def test_records_that_contradict_each_other_prove_no_spawn(tmp_path: Path, how: str) -> None:
    """No piece of evidence wins over another: no relation, and a gap. The calls keep their owners."""
    rows = one_child()
    _break(rows, how)
    native = rows.read(tmp_path)
    assert relation_types(native) == []
    assert "native_relation_unproven" in gap_codes(native)
    assert lifecycle_of(native) is LifecycleStatus.UNKNOWN
    assert {claim.participant_key for claim in native.identity_claims} == {ROOT, CHILD}


@pytest.mark.parametrize(
    "details",
    [
        accepted(status="error"),
        accepted(status="forbidden"),
        accepted(status=None),
    ],
)
def test_a_refused_spawn_is_none(tmp_path: Path, details: dict[str, Any]) -> None:
    """Also a refusal holds a session key and a run id (measured)."""
    rows = HomeRows().session(ROOT, ROOT_ID)
    rows.answer(ROOT_ID, "resp_1", ROOT_RUN, (SPAWN_CALL, "sessions_spawn"))
    native = rows.result(ROOT_ID, SPAWN_CALL, "sessions_spawn", details).read(tmp_path, sessions=frozenset({ROOT_ID}))
    assert (native.relations, native.gaps) == ((), ())


@pytest.mark.parametrize("details", [accepted(runId=None), accepted(childSessionKey=7), {}])
def test_a_spawn_that_does_not_say_what_it_started_is_named(tmp_path: Path, details: Any) -> None:
    """It was not refused, so there may be a child."""
    rows = HomeRows().session(ROOT, ROOT_ID)
    rows.answer(ROOT_ID, "resp_1", ROOT_RUN, (SPAWN_CALL, "sessions_spawn"))
    native = rows.result(ROOT_ID, SPAWN_CALL, "sessions_spawn", details).read(tmp_path, sessions=frozenset({ROOT_ID}))
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}
