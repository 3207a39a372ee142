"""What each record of a delegation proves, and what it does not."""

from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NotificationItem, ToolResultItem, WireCall
from roller_capture.vocabulary import ExecutionStatus, LifecycleStatus
from tests.adapters.opencode.session_rows import CHILD, ROOT, Rows, codes, kinds, launch, one_child, task, wrapped

FAILED: dict[str, Any] = {"finish": None, "error": {"name": "APIError", "data": {}}}
ABORTED = {"finish": None, "error": {"name": "MessageAbortedError", "data": {}}}
RUNNING = {"finish": None, "time": {"created": 1}}


@pytest.mark.parametrize(
    ("part", "child_answer", "relations", "status", "lifecycle"),
    [
        pytest.param(task(), None, "spawn result_delivered child_completed", "completed", "complete", id="completed"),
        pytest.param(
            task(status="error", error="Subagent failed"),
            FAILED,
            "spawn result_delivered child_failed",
            "failed",
            "complete",
            id="failed",
        ),
        pytest.param(task(status="running"), RUNNING, "spawn", "interrupted", "pending", id="killed"),
        pytest.param(
            task(status="running"), None, "spawn child_completed", "completed", "pending", id="killed-after-its-end"
        ),
        pytest.param(
            task(status="error", metadata={"interrupted": True}),
            ABORTED,
            "spawn",
            "interrupted",
            "pending",
            id="aborted",
        ),
        pytest.param(launch(), RUNNING, "spawn launch_acknowledged", "interrupted", "pending", id="launched"),
        pytest.param(
            launch(),
            None,
            "spawn launch_acknowledged child_completed",
            "completed",
            "pending",
            id="ended-but-not-delivered",
        ),
        pytest.param(launch(), {}, "spawn launch_acknowledged", "interrupted", "pending", id="launched-and-silent"),
    ],
)
def test_a_delegation_gives_what_both_sides_prove(
    tmp_path: Path,
    part: dict[str, Any],
    child_answer: dict[str, Any] | None,
    relations: str,
    status: str,
    lifecycle: str,
) -> None:
    """Its relations, the child's end, and whether its result has reached the parent."""
    capture = one_child(part, child_answer=child_answer).read(tmp_path)
    child = capture.participants[1]
    assert (kinds(capture), codes(capture)) == (relations.split(), [])
    assert (child.execution_status, child.lifecycle, child.parent_key) == (status, lifecycle, ROOT)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        pytest.param(task(parent="ses_other"), "native_relation_unproven", id="record-names-another-parent"),
        pytest.param(task(output=wrapped("ses_x", "completed")), "native_relation_unproven", id="text-of-another"),
        pytest.param(task(output=wrapped(CHILD, "running")), "native_relation_unproven", id="text-of-another-state"),
        pytest.param(task(metadata={"background": True, "jobId": "ses_x"}), "native_relation_unproven", id="other-job"),
        pytest.param(task("ses_lost"), "participant_log_missing", id="no-session-of-the-child"),
        pytest.param(task(None), "native_shape_unknown", id="finished-without-a-child"),
        pytest.param(task(status="elsewhere"), "native_relation_unproven", id="unknown-state"),
    ],
)
def test_records_that_do_not_fit_prove_no_result(tmp_path: Path, part: dict[str, Any], code: str) -> None:
    """A named gap, no delivered result, and a lifecycle that is not called complete."""
    capture = one_child(part).read(tmp_path)
    assert code in codes(capture)
    assert not {"result_delivered", "launch_acknowledged"} & set(kinds(capture))
    assert capture.lifecycle is LifecycleStatus.UNKNOWN or capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_child_whose_row_names_another_parent_was_not_launched_here(tmp_path: Path) -> None:
    """One side alone proves no launch: not even where the record names no parent."""
    part = task()
    del part["state"]["metadata"]["parentSessionId"]
    rows = one_child(part).session("ses_other")
    rows.rows[1]["parent_id"] = "ses_other"
    capture = rows.read(tmp_path)
    assert kinds(capture) == []
    assert "native_relation_unproven" in codes(capture)


@pytest.mark.parametrize("error", ["Subagent depth limit reached (1).", "Background subagents require a switch"])
def test_a_refused_delegation_makes_up_no_child(tmp_path: Path, error: str) -> None:
    """The record names no session: no participant, no relation, and no gap either."""
    rows = Rows().session()
    rows.prompt()
    rows.answer(ROOT, task(None, status="error", error=error), finish="tool-calls")
    capture = rows.read(tmp_path)
    assert [item.key for item in capture.participants] == [ROOT]
    assert (capture.relations, capture.gaps) == ((), ())


def test_a_child_whose_end_the_two_sides_tell_differently_has_none(tmp_path: Path) -> None:
    """The parent says completed, the child's own session failed: neither is believed."""
    capture = one_child(task(), child_answer=FAILED).read(tmp_path)
    assert kinds(capture) == ["spawn", "result_delivered"]
    assert codes(capture) == ["native_relation_unproven"]
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("last", [ABORTED, {"finish": "tool-calls"}, RUNNING], ids=["aborted", "at work", "open"])
@pytest.mark.parametrize("part", [task(), launch()], ids=["waited for", "in the background"])
def test_a_child_that_just_stops_has_not_completed(tmp_path: Path, part: dict[str, Any], last: dict[str, Any]) -> None:
    """Whatever its parent was told: the child's own last message is no end."""
    rows = one_child(part, child_answer=last)
    if part == launch():
        rows.notice()
    rows.answer()
    capture = rows.read(tmp_path)
    assert "child_completed" not in kinds(capture)
    assert codes(capture) == ["native_relation_unproven"]
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize(("told", "relations"), [(ROOT, True), ("ses_other", False)])
def test_a_request_that_names_another_parent_leaves_none(tmp_path: Path, told: str, relations: object) -> None:
    """Agents can write into the database, and not into the headers that OpenCode sends."""
    native = one_child(task()).write(tmp_path)
    call = WireCall({"x-session-id": (CHILD,), "x-parent-session-id": (told,)}, 7)
    capture = read(AdapterInput(native, {"x-session-id": frozenset({ROOT, CHILD})}, wire_calls=(call,)))
    parents = {item.key: item.parent_key for item in capture.participants}
    assert (bool(capture.relations), parents[CHILD] == ROOT, not capture.gaps) == (relations, relations, relations)


def test_an_automatic_message_delivers_by_its_own_id(tmp_path: Path) -> None:
    """The result is bound to the message, and looked for in the first call that our hook says answers it."""
    rows = one_child(launch())
    told = rows.notice()
    rows.answer()
    capture = rows.read(tmp_path)
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_completed"]
    assert capture.participants[1].lifecycle is LifecycleStatus.COMPLETE
    delivery = capture.relations[2].delivery
    assert delivery is not None
    assert (delivery.kind, delivery.bound_by, delivery.bound_id) == ("notification", "message_id", told)
    assert [probe.item for probe in capture.context_probes] == [
        ToolResultItem("call_1"),
        NotificationItem((wrapped(CHILD, "completed"),), told, "header:x-roller-user-message-id"),
    ]


def test_a_second_message_of_one_call_is_looked_for_where_the_hook_put_it(tmp_path: Path) -> None:
    """Of two automatic messages that one call answers, the older one's id stands in a header of its own."""
    rows = one_child(launch())
    told = rows.notice()
    rows.answer()
    capture = rows.read(tmp_path, **{"x-roller-user-message-id-2": told})
    assert [probe.item.field for probe in capture.context_probes if isinstance(probe.item, NotificationItem)] == [
        "header:x-roller-user-message-id-2"
    ]


def test_a_failed_child_in_the_background_has_failed(tmp_path: Path) -> None:
    """The message says `error`, and the child's own session agrees."""
    rows = one_child(launch(), child_answer=FAILED)
    rows.notice(state="error")
    rows.answer()
    capture = rows.read(tmp_path)
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_failed"]
    assert capture.relations[-1].outcome == "APIError"
    assert capture.participants[1].execution_status is ExecutionStatus.FAILED


def test_an_unanswered_message_has_not_been_delivered(tmp_path: Path) -> None:
    """It stands in the session, but no model call of the parent came after it."""
    rows = one_child(launch())
    rows.notice()
    capture = rows.read(tmp_path)
    assert kinds(capture) == ["spawn", "launch_acknowledged", "child_completed"]
    assert capture.participants[1].lifecycle is LifecycleStatus.PENDING


def test_a_typed_text_is_no_automatic_message(tmp_path: Path) -> None:
    """The same text without the harness's mark proves nothing, and is no gap."""
    rows = one_child(launch(), child_answer=RUNNING)
    rows.notice(synthetic=False)
    rows.answer()
    capture = rows.read(tmp_path)
    assert (kinds(capture), codes(capture)) == (["spawn", "launch_acknowledged"], [])


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_message_with_another_state_ends_nothing(tmp_path: Path, state: str) -> None:
    """Only `completed` and `error` are ends; anything else is a named gap."""
    rows = one_child(launch(), child_answer=RUNNING)
    rows.notice(state=state)
    rows.answer()
    capture = rows.read(tmp_path)
    assert (kinds(capture), codes(capture)) == (["spawn", "launch_acknowledged"], ["native_relation_unproven"])
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("states", [("completed", "error"), ("error", "completed"), ("paused", "completed")], ids=str)
def test_of_two_messages_about_one_launch_neither_is_believed(tmp_path: Path, states: tuple[str, str]) -> None:
    """No winner, in whatever order they stand: no result, no end, and a lifecycle that is unknown."""
    rows = one_child(launch())
    for state in states:
        rows.notice(state=state)
        rows.answer()
    capture = rows.read(tmp_path)
    assert kinds(capture) == ["spawn", "launch_acknowledged"]
    assert set(codes(capture)) == {"native_relation_unproven"}
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_message_about_a_child_that_was_waited_for_leaves_its_end_open(tmp_path: Path) -> None:
    """The tool's result was delivered, which its id proves; how the child ended is told in two ways."""
    rows = one_child(task())
    rows.notice(state="error")
    rows.answer()
    capture = rows.read(tmp_path)
    assert (kinds(capture), codes(capture)) == (["spawn", "result_delivered"], ["native_relation_unproven"])
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_message_in_another_session_than_the_launch_is_about_none(tmp_path: Path) -> None:
    """As a copy of the parent's session has it: what the parent's own says stands, and a doubt is told."""
    rows = one_child(launch()).session("ses_copy")
    rows.notice(session="ses_copy")
    rows.notice()
    rows.answer()
    capture = rows.read(tmp_path)
    assert "result_delivered" in kinds(capture)
    assert "native_relation_unproven" in codes(capture)
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_message_too_many_says_nothing_of_a_later_launch(tmp_path: Path) -> None:
    """It stands before that launch, whose own message is its only one."""
    rows = one_child(launch())
    rows.notice()
    rows.notice(state="error")
    rows.answer(ROOT, launch(call_id="call_2"), finish="tool-calls")
    rows.notice()
    rows.answer()
    delivered = [item.tool_call_id for item in rows.read(tmp_path).relations if item.type == "result_delivered"]
    assert delivered == ["call_2"]


def test_a_message_about_a_stranger_is_a_gap(tmp_path: Path) -> None:
    """It names a session that no tool call launched."""
    rows = one_child(task())
    rows.notice("ses_stranger")
    rows.answer()
    assert codes(rows.read(tmp_path)) == ["native_relation_unproven"]


def _launched_twice(*, told_between: bool) -> Rows:
    rows = one_child(launch())
    if told_between:
        rows.notice()
    rows.answer(ROOT, launch(call_id="call_2"), finish="tool-calls")
    rows.prompt(CHILD)
    rows.answer(CHILD)
    if not told_between:
        rows.notice()
    rows.notice()
    rows.answer()
    return rows


def test_each_message_is_tied_to_the_only_launch_that_was_open(tmp_path: Path) -> None:
    """A child that was launched again after its first end: two launches, two results, each with its own message."""
    capture = _launched_twice(told_between=True).read(tmp_path)
    delivered = {item.delegation: item.tool_call_id for item in capture.relations if item.type == "result_delivered"}
    assert (delivered, codes(capture)) == ({1: "call_1", 2: "call_2"}, [])


def test_two_open_launches_of_one_child_leave_a_message_untied(tmp_path: Path) -> None:
    """Order alone proves nothing: which launch the first message is about is unknown."""
    capture = _launched_twice(told_between=False).read(tmp_path)
    assert "result_delivered" not in kinds(capture)
    assert set(codes(capture)) == {"native_relation_unproven"}
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_resumed_child_is_judged_by_each_tool_call(tmp_path: Path) -> None:
    """The second delegation of a child has its own tool id, number and end."""
    rows = one_child(task())
    rows.answer(ROOT, task(call_id="call_2", status="error", error="failed"), finish="tool-calls")
    rows.prompt(CHILD)
    rows.answer(CHILD, **FAILED)
    rows.answer()
    ends = [
        (item.delegation, item.tool_call_id, item.type.value)
        for item in rows.read(tmp_path).relations
        if item.type.value.startswith("child_")
    ]
    assert ends == [(1, "call_1", "child_completed"), (2, "call_2", "child_failed")]


def test_a_tool_id_that_stands_for_two_calls_is_looked_for_nowhere(tmp_path: Path) -> None:
    """Some models count their tool calls anew: a result under such an id may be another call's."""
    rows = one_child(task())
    rows.answer(ROOT, {"type": "tool", "tool": "bash", "callID": "call_1", "state": {"status": "completed"}})
    capture = rows.read(tmp_path)
    assert (capture.context_probes, codes(capture)) == ((), ["native_id_not_unique"])


def test_a_result_that_was_cleared_later_is_looked_for_nowhere(tmp_path: Path) -> None:
    """Requests then hold its tool id with another text."""
    capture = one_child(task(time={"start": 1, "end": 2, "compacted": 3})).read(tmp_path)
    assert (capture.context_probes, codes(capture)) == ((), ["native_relation_unproven"])


def test_a_child_that_no_tool_call_launched_is_named(tmp_path: Path) -> None:
    """Its row alone tells its parent; nothing tells what it was for."""
    capture = one_child().read(tmp_path)
    assert (kinds(capture), codes(capture)) == ([], ["native_relation_unproven"])
    assert capture.participants[1].parent_key == ROOT
    assert capture.participants[1].lifecycle is LifecycleStatus.UNKNOWN


def test_a_grandchild_belongs_to_the_child(tmp_path: Path) -> None:
    """Each launch is proven by the session that made it."""
    rows = Rows().session().session(CHILD, ROOT).session("ses_grand", CHILD)
    rows.prompt()
    rows.answer(ROOT, task(), finish="tool-calls")
    rows.answer(CHILD, task("ses_grand", "call_2", parent=CHILD), finish="tool-calls")
    rows.answer("ses_grand")
    rows.answer(CHILD)
    rows.answer()
    spawns = [item for item in rows.read(tmp_path).relations if item.type == "spawn"]
    assert [(item.parent_key, item.child_key) for item in spawns] == [(ROOT, CHILD), (CHILD, "ses_grand")]


def test_old_results_are_read_too(tmp_path: Path) -> None:
    """1.2.x: no parent in the metadata, another beginning of the result, and a version with a `v`."""
    part = task(output=f"task_id: {CHILD} (for resuming)\n<task_result>x</task_result>")
    del part["state"]["metadata"]["parentSessionId"]
    rows = one_child(part)
    rows.rows[0]["version"] = rows.rows[1]["version"] = "v1.2.27"
    capture = rows.read(tmp_path)
    assert kinds(capture) == ["spawn", "result_delivered", "child_completed"]
    assert (capture.harness_version, capture.version_tested) == ("1.2.27", False)
    assert codes(capture) == ["native_version_untested"]
