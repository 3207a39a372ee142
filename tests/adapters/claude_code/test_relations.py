"""Tests of how a child ended: what its own log says, held against what the harness said of it."""

from pathlib import Path

import pytest

from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
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
    tool_result,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"
_LAUNCHED = "Async agent launched successfully."
_RUNNING = [prompt("c1"), assistant("c2", "c1", "msg_c1", tool_use("toolu_c", "Bash"))]


def _outcome(logs: SessionLogs) -> tuple[list[tuple[str, str | None]], str, str]:
    native = logs.read()
    ends = [(row[0], row[4]) for row in relation_rows(native) if row[0].startswith("child_")]
    return ends, native.participants[1].execution_status.value, native.participants[1].lifecycle.value


@pytest.mark.parametrize(
    ("child", "ends", "execution"),
    [
        ([prompt("c1"), assistant("c2", "c1", "msg_c1")], [("child_completed", "completed")], "completed"),
        ([assistant("c2", None, "m", stop_reason=None)], [("child_completed", "completed")], "completed"),
        ([assistant("c2", None, "m", stop_reason="max_tokens")], [("child_completed", "max_tokens")], "completed"),
        ([*_RUNNING, api_error("c3", "c2")], [("child_failed", "api_error_500")], "failed"),
        ([*_RUNNING, api_error("c3", "c2", "500")], [("child_failed", "api_error")], "failed"),
        (_RUNNING, [], "interrupted"),
        ([prompt("c1")], [], "interrupted"),
    ],
    ids=["ended", "no stop reason", "max tokens", "api error", "odd status", "running", "no output"],
)
def test_completed_is_believed_only_where_the_childs_own_log_ends_so(
    tmp_path: Path, child: list[Record], ends: list[tuple[str, str]], execution: str
) -> None:
    """`status: completed` is also said of children that ended in an API error."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=child)
    assert _outcome(logs)[:2] == (ends, execution)


def test_an_end_that_goes_on_is_no_end(tmp_path: Path) -> None:
    """An API error in the middle, and a text before a tool call in one answer without stop reason."""
    logs = SessionLogs(tmp_path)
    child = [
        *_RUNNING,
        api_error("c3", "c2"),
        assistant("c4", "c3", "msg_c2", stop_reason=None),
        assistant("c5", "c4", "msg_c2", tool_use("toolu_d", "Bash"), stop_reason=None),
        assistant("c6", "c5", "msg_c2", stop_reason=None),
    ]
    foreground_run(logs, child=child)
    assert _outcome(logs)[:2] == ([], "interrupted")


@pytest.mark.parametrize(
    ("child", "ends", "gap"),
    [
        (_RUNNING, [("child_failed", "failed")], False),
        ([*_RUNNING, api_error("c3", "c2", 400)], [("child_failed", "api_error_400")], False),
        ([assistant("c2", None, "msg_c1")], [], True),
    ],
    ids=["cut", "api error", "ended well"],
)
def test_an_error_result_is_a_failure_unless_the_childs_log_ends_well(
    tmp_path: Path, child: list[Record], ends: list[tuple[str, str]], gap: bool
) -> None:
    """Two records that disagree give no relation but a gap."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=child)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", "Agent terminated", is_error=True, detail="Error: Agent terminated"),
            assistant("r4", "r3", "msg_r2"),
        ]
    )
    found, _, lifecycle = _outcome(logs)
    assert (found, lifecycle) == (ends, "complete")
    assert bool(gap_codes(logs.read())) is gap
    assert ("result_delivered", ROOT, CHILD, 1, "error") in relation_rows(logs.read())


def test_a_delegation_that_was_cut_with_the_run_stays_pending(tmp_path: Path) -> None:
    """2.1.197, told to stop, writes an error result for the open tool call: nothing was delivered, nobody failed."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=_RUNNING)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", "[Request interrupted by user for tool use]", is_error=True),
        ]
    )
    assert [row[0] for row in relation_rows(logs.read())] == ["spawn"]
    assert _outcome(logs) == ([], "interrupted", "pending")


def test_a_rejected_delegation_failed_nobody(tmp_path: Path) -> None:
    """A tool call that was interrupted from outside settles the child, which did not fail by itself."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=_RUNNING)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", "Rejected", is_error=True, detail="User rejected tool use"),
        ]
    )
    assert _outcome(logs) == ([], "interrupted", "complete")


def _background(logs: SessionLogs, child: list[Record], *end: Record) -> None:
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=launched()),
            assistant("r4", "r3", "msg_r2"),
            *end,
        ]
    )
    logs.write_agent(child, meta={"toolUseId": "toolu_1"})


def _stop(result: Record) -> list[Record]:
    return [assistant("r5", "r4", "msg_r3", tool_use("toolu_2", "TaskStop", task_id=AGENT)), result]


@pytest.mark.parametrize(
    ("end", "lifecycle"),
    [
        ([], "pending"),
        (_stop(tool_result("r6", "r5", "toolu_2", detail={"task_id": AGENT})), "complete"),
        (_stop(tool_result("r6", "r5", "toolu_2", is_error=True)), "pending"),
        ([notification("r5", "r4", AGENT, "toolu_1", "killed"), assistant("r6", "r5", "msg_r3")], "pending"),
        ([notification("r5", "r4", AGENT, "toolu_1", "failed"), assistant("r6", "r5", "msg_r3")], "complete"),
    ],
    ids=["cut", "stopped", "stop failed", "killed", "failed"],
)
def test_a_background_child_is_settled_by_delivery_or_by_the_parents_own_stop(
    tmp_path: Path, end: list[Record], lifecycle: str
) -> None:
    """One that was cut by anything else is pending."""
    logs = SessionLogs(tmp_path)
    _background(logs, _RUNNING, *end)
    assert _outcome(logs)[2] == lifecycle


def _resume(number: int, parent: str) -> list[Record]:
    """The root sends the child a message that wakes it (2.1.332)."""
    detail = {"success": True, "resumedAgentId": AGENT, "revivedAgentId": AGENT, "message": "Resuming agent"}
    return [
        assistant(f"m{number}", parent, f"msg_m{number}", tool_use(f"toolu_m{number}", "SendMessage", to=AGENT)),
        tool_result(f"n{number}", f"m{number}", f"toolu_m{number}", detail=detail),
        assistant(f"o{number}", f"n{number}", f"msg_o{number}"),
    ]


def _stop_again(parent: str) -> list[Record]:
    use = tool_use("toolu_s", "TaskStop", task_id=AGENT)
    return [assistant("s1", parent, "msg_s1", use), tool_result("s2", "s1", "toolu_s", detail={"task_id": AGENT})]


_STOPPED = _stop(tool_result("r6", "r5", "toolu_2", detail={"task_id": AGENT}))
_MESSAGE = prompt("c8", "The coordinator sent a message", isMeta=True, origin={"kind": "coordinator"}, parentUuid="c2")
_AT_WORK_AGAIN = [*_RUNNING, _MESSAGE, assistant("c9", "c8", "msg_c9", tool_use("toolu_c9", "Bash"))]
_ANSWERED = [*_RUNNING, _MESSAGE, assistant("c9", "c8", "msg_c9")]


@pytest.mark.parametrize(
    ("end", "child", "lifecycle"),
    [
        ([*_STOPPED, *_resume(1, "r6")], _AT_WORK_AGAIN, "pending"),
        ([*_STOPPED, *_resume(1, "r6")], _ANSWERED, "pending"),
        ([*_STOPPED, *_resume(1, "r6"), *_stop_again("o1")], _AT_WORK_AGAIN, "complete"),
        (
            [
                *_STOPPED,
                *_resume(1, "r6"),
                notification("p1", "o1", AGENT, "toolu_m1"),
                assistant("p2", "p1", "msg_p2"),
            ],
            _ANSWERED,
            "complete",
        ),
        (_STOPPED, _AT_WORK_AGAIN, "pending"),
    ],
    ids=["given more, and cut", "nobody told", "stopped each time", "its result told", "woken by something else"],
)
def test_a_stop_settles_what_was_given_before_it(
    tmp_path: Path, end: list[Record], child: list[Record], lifecycle: str
) -> None:
    """And nothing that is given to the child later."""
    logs = SessionLogs(tmp_path)
    _background(logs, child, *end)
    assert _outcome(logs)[2] == lifecycle


def test_a_stop_in_another_log_settles_only_the_launch(tmp_path: Path) -> None:
    """The order of what stands in two logs is not known, and a launch comes before any stop of its agent."""
    logs = SessionLogs(tmp_path)
    launch = [
        assistant("a1", None, "msg_a1", tool_use("toolu_g")),
        tool_result("a2", "a1", "toolu_g", f"{_LAUNCHED}\nagentId: agrand", sourceToolAssistantUUID="a1"),
    ]
    resume = [
        assistant("a3", "a2", "msg_a3", tool_use("toolu_r", "SendMessage", to="agrand")),
        tool_result("a4", "a3", "toolu_r", '{"success":true,"resumedAgentId":"agrand"}', sourceToolAssistantUUID="a3"),
    ]
    stop = [
        *[assistant(f"x{number}", None, f"msg_x{number}") for number in range(9)],
        assistant("r5", "r4", "msg_r3", tool_use("toolu_2", "TaskStop", task_id="agrand")),
        tool_result("r6", "r5", "toolu_2", detail={"task_id": "agrand"}),
    ]
    for more, lifecycle in (([], "complete"), (resume, "pending")):
        _background(logs, [prompt("c1"), *launch, *more], *stop)
        logs.write_agent([*_RUNNING, *([_MESSAGE] if more else [])], "agrand", {"toolUseId": "toolu_g"})
        found = {item.key: item.lifecycle.value for item in logs.read(agents=[AGENT, "agrand"]).participants}
        assert found["agent:agrand"] == lifecycle


def test_a_stop_by_another_child_does_not_settle_a_child(tmp_path: Path) -> None:
    """Only the parent's own stop is an end that needs no delivery."""
    logs = SessionLogs(tmp_path)
    _background(logs, _RUNNING)
    stop = _stop(tool_result("r6", "r5", "toolu_2", detail={"task_id": AGENT}))
    logs.write_agent(stop, "asibling", {"toolUseId": "toolu_other"})
    assert _outcome(logs)[2] == "pending"


def test_a_child_with_metadata_and_no_log_is_unknown(tmp_path: Path) -> None:
    """It was launched and answered, and nothing tells how it ended."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    (logs.folder / SESSION / "subagents" / f"agent-{AGENT}.jsonl").unlink()
    assert _outcome(logs) == ([], "unknown", "unknown")
    assert gap_codes(logs.read()) == {"participant_log_missing"}


def test_a_child_that_only_a_result_names_is_unknown_but_a_participant(tmp_path: Path) -> None:
    """The harness's own record spells its id, so its calls can be told by their header."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed()),
        ]
    )
    native = logs.read(agents=[AGENT])
    assert [(item.key, item.lifecycle.value) for item in native.participants[1:]] == [(CHILD, "unknown")]
    assert AGENT in {item.value for item in native.identity_claims}
    assert gap_codes(native) == {"participant_log_missing"}


def test_a_launch_without_any_trace_of_its_agent_is_named(tmp_path: Path) -> None:
    """A tool call that went well proves that there was a child."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r2", None, "msg_r1", tool_use("toolu_1")), tool_result("r3", "r2", "toolu_1")])
    assert gap_codes(logs.read()) == {"participant_log_missing"}


def test_a_refused_launch_is_no_hidden_child(tmp_path: Path) -> None:
    """An error result of a call that launched nothing is no gap."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [assistant("r2", None, "msg_r1", tool_use("toolu_1")), tool_result("r3", "r2", "toolu_1", is_error=True)]
    )
    native = logs.read()
    assert (len(native.participants), native.gaps) == (1, ())


def test_a_child_that_waits_for_its_own_background_child_has_one_turn(tmp_path: Path) -> None:
    """A notification wakes it within the same delegation, so its last end counts."""
    logs = SessionLogs(tmp_path)
    child = [
        prompt("c1"),
        assistant("c2", "c1", "msg_c1"),
        notification("c3", "c2", "agrand", "toolu_g"),
        assistant("c4", "c3", "msg_c2", tool_use("toolu_c", "Bash")),
        api_error("c5", "c4"),
    ]
    foreground_run(logs, child=child)
    assert _outcome(logs)[:2] == ([("child_failed", "api_error_500")], "failed")
