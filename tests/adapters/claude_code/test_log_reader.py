"""Tests of reading one log: which executor a record belongs to, which outputs it holds, which shapes are named."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import ExecutionStatus, LifecycleStatus
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
    owners,
    prompt,
    relation_rows,
    text,
    tool_result,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"


def _progress(agent_id: str, tool_id: str | None, inner: Record) -> Record:
    data = {"type": "agent_progress", "agentId": agent_id, "message": inner, "prompt": "Do it."}
    return {"type": "progress", "uuid": f"p-{inner['uuid']}", "parentToolUseID": tool_id, "data": data}


def _delegating_root(*between: Record, detail: Record | None = None) -> list[Record]:
    return [
        prompt("r1"),
        assistant("r2", "r1", "msg_r1", tool_use("toolu_1", "Task")),
        *between,
        tool_result("r3", "r2", "toolu_1", detail=completed() if detail is None else detail),
        assistant("r4", "r3", "msg_r2"),
    ]


def test_one_message_id_over_several_lines_is_one_output(tmp_path: Path) -> None:
    """Every content block has a record of its own; they repeat id and usage."""
    logs = SessionLogs(tmp_path)
    blocks = [{"type": "thinking", "thinking": "Hm."}, text("I will look."), tool_use("toolu_1", "Bash")]
    logs.write_root([assistant(f"r{n}", None, "msg_1", block) for n, block in enumerate(blocks)])
    native = logs.read()
    assert [item.output_id for item in native.coverage.outputs or ()] == ["msg_1"]
    assert native.coverage.protocol_count == {ROOT: 1}


def test_several_blocks_in_one_record_are_all_read(tmp_path: Path) -> None:
    """Some versions write a whole answer into one record."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", text("Both."), tool_use("toolu_9", "Bash"), tool_use("toolu_1")),
            tool_result("r3", "r1", "toolu_1", detail=completed()),
        ]
    )
    assert ("spawn", ROOT, CHILD, 1, None) in relation_rows(logs.read())


def test_what_the_harness_wrote_itself_is_no_output(tmp_path: Path) -> None:
    """Synthetic assistant records have an id and were never a call."""
    logs = SessionLogs(tmp_path)
    remark = assistant("r3", None, "uuid-remark")
    remark["message"]["model"] = "<synthetic>"
    logs.write_root([assistant("r1", None, "msg_1"), api_error("r2", "r1"), remark])
    assert set(owners(logs.read())) == {"msg_1"}


def test_records_of_other_types_are_passed_over(tmp_path: Path) -> None:
    """Dozens of record types say nothing about calls; they may lack uuid and session id."""
    logs = SessionLogs(tmp_path)
    others = [
        {"type": "summary", "leafUuid": "x", "summary": "s"},
        {"type": "file-history-snapshot", "snapshot": {}},
        {"type": "system", "subtype": "turn_duration", "uuid": "s1"},
        {"type": "system", "subtype": "compact_boundary", "uuid": "s2", "parentUuid": None, "logicalParentUuid": "r1"},
        {"type": "progress", "data": {"type": "hook_progress"}, "uuid": "p1"},
        {"type": "progress", "data": {"type": "bash_progress", "agentId": "ax"}, "uuid": "p2"},
        {"type": "attachment", "attachment": {"type": "nested_memory"}, "uuid": "a1"},
        {"type": "api-request-blob", "message": {"role": "assistant", "content": []}},
        {"type": "custom-title", "customTitle": "t"},
    ]
    logs.write_root([assistant("r1", None, "msg_1"), *others])
    native = logs.read()
    assert set(owners(native)) == {"msg_1"}
    assert len(native.participants) == 1
    assert native.gaps == ()


def test_an_answer_in_a_record_of_an_unknown_type_is_a_named_gap(tmp_path: Path) -> None:
    """A new way of writing outputs must not go unnoticed."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_1"), assistant("r2", "r1", "msg_2") | {"type": "assistant-v2"}])
    assert gap_codes(logs.read()) == {"native_shape_unknown"}


def test_progress_records_are_the_childs_and_never_the_roots(tmp_path: Path) -> None:
    """Without a log of its own they are the only copy of the child, and they name its tool call."""
    logs = SessionLogs(tmp_path)
    inner = [
        prompt("c1"),
        assistant("c2", "c1", "msg_c1", tool_use("toolu_c", "Bash")),
        tool_result("c3", "c2", "toolu_c"),
        assistant("c4", "c3", "msg_c2"),
    ]
    logs.write_root(_delegating_root(*(_progress(AGENT, "toolu_1", item) for item in inner)))
    native = logs.read()
    assert owners(native) == {"msg_r1": {ROOT}, "msg_r2": {ROOT}, "msg_c1": {CHILD}, "msg_c2": {CHILD}}
    assert relation_rows(native) == [
        ("spawn", ROOT, CHILD, 1, None),
        ("result_delivered", ROOT, CHILD, 1, "completed"),
        ("child_completed", ROOT, CHILD, 1, "completed"),
    ]
    assert native.gaps == ()


def test_progress_and_the_childs_own_log_count_an_output_once(tmp_path: Path) -> None:
    """The own log tells the child's turns, progress adds what it lacks."""
    logs = SessionLogs(tmp_path)
    copy = assistant("c2", "c1", "msg_c1", tool_use("toolu_c", "Bash"))
    logs.write_root(_delegating_root(_progress(AGENT, "toolu_1", copy)))
    logs.write_agent([prompt("c1"), copy, tool_result("c3", "c2", "toolu_c"), assistant("c4", "c3", "msg_c2")])
    native = logs.read()
    assert sorted(item.output_id or "" for item in native.coverage.outputs or ()) == [
        "msg_c1",
        "msg_c2",
        "msg_r1",
        "msg_r2",
    ]
    assert native.participants[1].execution_status is ExecutionStatus.COMPLETED


def test_a_progress_message_without_an_outer_record_is_read_too(tmp_path: Path) -> None:
    """Some versions put the provider's message itself there."""
    logs = SessionLogs(tmp_path)
    message = assistant("c2", None, "msg_c1")["message"] | {"uuid": "c2"}
    logs.write_root(_delegating_root(_progress(AGENT, "toolu_1", message)))
    assert owners(logs.read())["msg_c1"] == {CHILD}


def test_an_inline_sidechain_is_a_child_of_its_own_with_an_unproven_parent(tmp_path: Path) -> None:
    """Versions 1.0.x write children without an agent id into the root's file; the chain of uuids holds one together."""
    logs = SessionLogs(tmp_path)
    side = [
        prompt("s1", isSidechain=True),
        assistant("s2", "s1", "msg_s1", isSidechain=True),
        prompt("t1", isSidechain=True),
        assistant("t2", "t1", "msg_t1", isSidechain=True),
        assistant("s3", "s2", "msg_s2", isSidechain=True),
    ]
    logs.write_root(_delegating_root(*side, detail={"content": []}))
    native = logs.read()
    assert owners(native) == {
        "msg_r1": {ROOT},
        "msg_r2": {ROOT},
        "msg_s1": {"sidechain:s1"},
        "msg_s2": {"sidechain:s1"},
        "msg_t1": {"sidechain:t1"},
    }
    assert {item.parent_key for item in native.participants[1:]} == {None}
    assert {item.lifecycle for item in native.participants[1:]} == {LifecycleStatus.UNKNOWN}
    assert "native_relation_unproven" in gap_codes(native)


@pytest.mark.parametrize("form", ["progress", "agent id", "sidechain"])
@pytest.mark.parametrize("launched", [True, False])
def test_what_only_the_roots_file_tells_of_a_child_needs_a_delegation(
    tmp_path: Path, form: str, launched: bool
) -> None:
    """Without one it may be a root's record under a false name: the output has no owner, and is still expected."""
    logs = SessionLogs(tmp_path)
    told = {
        "progress": _progress(AGENT, "toolu_1", assistant("c1", None, "msg_c1")),
        "agent id": assistant("c1", None, "msg_c1", agentId=AGENT),
        "sidechain": assistant("c1", None, "msg_c1", isSidechain=True),
    }[form]
    root = _delegating_root(told) if launched else [assistant("r1", None, "msg_r1", tool_use("toolu_1", "Bash")), told]
    logs.write_root(root)
    native = logs.read()
    assert ("msg_c1" in owners(native)) is launched
    assert "msg_c1" in {item.output_id for item in native.coverage.outputs or ()}
    assert launched or "native_relation_unproven" in gap_codes(native)


def test_versions_that_send_agent_ids_write_no_sidechains_into_the_roots_file(tmp_path: Path) -> None:
    """There a sidechain record is a contradiction, and its output has no owner."""
    logs = SessionLogs(tmp_path)
    logs.write_root(_delegating_root(assistant("s1", None, "msg_s1", isSidechain=True)))
    logs.write_agent([assistant("c1", None, "msg_c1")])
    assert "msg_s1" not in owners(logs.read(agents=[AGENT]))
    assert "msg_s1" in owners(logs.read())


def test_a_sidechains_own_delegation_does_not_prove_the_sidechain(tmp_path: Path) -> None:
    """Somebody else must have delegated."""
    logs = SessionLogs(tmp_path)
    side = assistant("s1", None, "msg_s1", tool_use("toolu_1", "Task"), isSidechain=True)
    logs.write_root([assistant("r1", None, "msg_r1"), side])
    assert set(owners(logs.read())) == {"msg_r1"}


def test_a_sidechain_record_whose_chain_is_broken_belongs_to_nobody(tmp_path: Path) -> None:
    """No participant is made up for it, and it is not the root's."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1"), assistant("s2", "lost", "msg_s1", isSidechain=True)])
    native = logs.read()
    assert set(owners(native)) == {"msg_r1"}
    assert gap_codes(native) == {"native_relation_unproven"}


def test_a_record_of_another_agent_in_an_agents_file_belongs_to_nobody(tmp_path: Path) -> None:
    """The file name and every record in it name the same agent."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=[assistant("c1", None, "msg_c1"), assistant("c2", "c1", "msg_c2", agentId="aother")])
    native = logs.read()
    assert "msg_c2" not in owners(native)
    assert "native_shape_unknown" in gap_codes(native)


def test_an_output_without_a_message_id_is_expected_but_comparable_with_nothing(tmp_path: Path) -> None:
    """Some providers send no id: the records are counted by request and named as a gap."""
    logs = SessionLogs(tmp_path)
    nameless = [assistant(f"r{n}", None, None, requestId=f"req_{n // 2}") for n in range(4)]
    for record in nameless:
        del record["message"]["id"]
    logs.write_root([assistant("r9", None, "msg_1"), *nameless])
    native = logs.read()
    assert [item.output_id for item in native.coverage.outputs or ()] == ["msg_1", None, None]
    assert gap_codes(native) == {"native_shape_unknown"}


def test_one_message_id_for_two_requests_is_not_unique(tmp_path: Path) -> None:
    """A provider that reuses ids proves nothing by them."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant(f"r{n}", None, "msg_1", requestId=f"req_{n}") for n in range(2)])
    assert gap_codes(logs.read()) == {"native_id_not_unique"}


@pytest.mark.parametrize(
    "damage", [b'{"type":"assis\n', b"\0\0\0\n", b"[]\n", b'"text"\n', b'{"type":"user","x":\xff}\n']
)
def test_a_broken_line_in_the_middle_is_a_gap_and_the_rest_is_read(tmp_path: Path, damage: bytes) -> None:
    """It happened in real logs."""
    logs = SessionLogs(tmp_path)
    path = logs.write_root([assistant("r1", None, "msg_1"), assistant("r2", "r1", "msg_2")])
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + second)
    native = logs.read()
    assert set(owners(native)) == {"msg_1", "msg_2"}
    assert [(gap.code.value, gap.locator) for gap in native.gaps] == [("native_line_unreadable", "line:2")]


def test_a_torn_tail_is_named(tmp_path: Path) -> None:
    """A killed process leaves half a line."""
    logs = SessionLogs(tmp_path)
    path = logs.write_root([assistant("r1", None, "msg_1"), assistant("r2", "r1", "msg_2")])
    path.write_bytes(path.read_bytes()[:-30])
    native = logs.read()
    assert set(owners(native)) == {"msg_1"}
    assert [gap.message for gap in native.gaps] == ["a line is torn off at the end of the file"]


def test_an_unmarked_text_that_looks_like_a_notification_is_named_and_proves_nothing(tmp_path: Path) -> None:
    """Anybody can type the same text; only the harness's own mark counts."""
    logs = SessionLogs(tmp_path)
    typed = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>"
    logs.write_root([prompt("r1", typed), assistant("r2", "r1", "msg_1")])
    native = logs.read()
    assert native.relations == ()
    assert gap_codes(native) == {"native_shape_unknown"}
