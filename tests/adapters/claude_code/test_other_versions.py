"""Shapes of other versions and setups than those that were measured: read, or passed over, never a false gap."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
    SessionLogs,
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

_WHOLE = ["spawn", "result_delivered", "child_completed"]


def test_answers_without_a_stop_reason_ended_where_the_end_is_said(tmp_path: Path) -> None:
    """Up to about 2.1.4x nearly every record has `stop_reason: null`; the result of the delegation says the end."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1", "Task"), stop_reason=None),
            tool_result("r3", "r2", "toolu_1", detail=completed(), sourceToolAssistantUUID="r2"),
            assistant("r4", "r3", "msg_r2", stop_reason=None),
        ]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1", stop_reason=None)], meta={"agentType": "x"})
    native = logs.read()
    assert sorted(kind for kind, *_ in relation_rows(native)) == sorted(_WHOLE)
    assert {item.key: item.execution_status.value for item in native.participants} == {
        f"session:{SESSION}": "unknown",
        f"agent:{AGENT}": "completed",
    }
    assert native.gaps == ()


def test_records_of_one_id_that_differ_are_one_output(tmp_path: Path) -> None:
    """Null first, then `tool_use`; usage that grows; no `requestId` through somebody else's endpoint."""
    logs = SessionLogs(tmp_path)
    first = assistant("r2", "r1", "msg_r1", text("I ask."), stop_reason=None)
    last = assistant("r3", "r2", "msg_r1", tool_use("toolu_1"), stop_reason="tool_use")
    first["message"]["usage"] = {"output_tokens": 1}
    last["message"]["usage"] = {"output_tokens": 90}
    logs.write_root([prompt("r1"), first, last])
    native = logs.read()
    assert [output.output_id for output in native.coverage.outputs or ()] == ["msg_r1"]
    assert owners(native) == {"msg_r1": {f"session:{SESSION}"}}
    assert "native_id_not_unique" not in gap_codes(native)


_NO_OUTPUTS: list[Record] = [
    {"type": "summary", "leafUuid": "x", "summary": "s"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
    {"type": "queue-operation", "operation": "enqueue", "content": "typed", "timestamp": "t"},
    *({"type": name} for name in ("last-prompt", "custom-title", "ai-title", "mode", "permission-mode")),
    *({"type": name, "sessionId": SESSION} for name in ("pr-link", "frame-link")),
    *(
        {"type": "system", "subtype": subtype, "uuid": subtype, "parentUuid": "r1", "content": "c"}
        for subtype in (
            "stop_hook_summary", "turn_duration", "away_summary", "local_command", "microcompact_boundary",
            "model_refusal_fallback", "compact_boundary", "api_error", "informational",
        )
    ),
    *(
        {"type": "attachment", "uuid": kind, "parentUuid": "r1", "attachment": {"type": kind, "content": [7]}}
        for kind in (
            "deferred_tools_delta", "agent_listing_delta", "mcp_instructions_delta", "nested_memory", "task_reminder",
            "hook_success", "edited_text_file", "compact_file_reference", "auto_mode", "command_permissions",
        )
    ),
    *(
        {"type": "progress", "uuid": kind, "parentToolUseID": "toolu_9", "data": {"type": kind, "message": "m"}}
        for kind in (
            "hook_progress", "bash_progress", "mcp_progress", "waiting_for_task", "query_update",
            "search_results_received",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", _NO_OUTPUTS, ids=lambda record: json.dumps(record)[:60])
def test_records_that_hold_no_output_cost_nothing(tmp_path: Path, record: Record) -> None:
    """Many have neither a uuid nor a session id."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    path = logs.folder / f"{SESSION}.jsonl"
    path.write_bytes(json.dumps(record).encode() + b"\n" + path.read_bytes() + json.dumps(record).encode() + b"\n")
    native = logs.read()
    assert sorted(kind for kind, *_ in relation_rows(native)) == sorted(_WHOLE)
    assert set(owners(native)) == {"msg_r1", "msg_r2", "msg_c1"}
    assert native.gaps == ()


@pytest.mark.parametrize(
    "more",
    [
        {"canReadOutputFile": True, "resolvedModel": "m", "toolStats": {}},
        {"worktreePath": "/w", "worktreeBranch": "b"},
        {"totalTokens": "many", "usage": None, "content": "no list"},
    ],
)
def test_further_members_of_a_delegations_result_change_nothing(tmp_path: Path, more: Record) -> None:
    """They vary with the version."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, detail=completed() | more)
    native = logs.read()
    assert sorted(kind for kind, *_ in relation_rows(native)) == sorted(_WHOLE)
    assert native.gaps == ()


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"type": None, "message": {"role": "assistant"}},
        {"type": "user", "message": {"role": "user", "content": None}},
        {"type": "user", "message": {"role": "user", "content": ["x"]}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}},
        {"type": "assistant", "message": {"id": "msg_9", "content": [{"type": "tool_use", "name": "Agent"}]}},
        {"type": "attachment"},
        {"type": "attachment", "attachment": {"type": "queued_command", "commandMode": "task-notification"}},
    ],
    ids=lambda record: json.dumps(record)[:70],
)
def test_a_record_without_what_each_of_its_kind_has_is_named(tmp_path: Path, record: Record) -> None:
    """It may have held a result, a launch or an answer; the others are read."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    with (logs.folder / f"{SESSION}.jsonl").open("ab") as stream:
        stream.write(json.dumps(record).encode() + b"\n")
    native = logs.read()
    assert "native_shape_unknown" in gap_codes(native)
    assert {"msg_r1", "msg_r2", "msg_c1"} <= set(owners(native))


def test_a_log_that_goes_on_without_a_delegations_result_is_told(tmp_path: Path) -> None:
    """The next request must have held it. A log that ends there was cut, which is no gap."""
    for more, codes in (([], set()), ([assistant("r4", "r2", "msg_r2")], {"native_relation_unproven"})):
        logs = SessionLogs(tmp_path / str(len(more)))
        records: list[Any] = [prompt("r1"), assistant("r2", "r1", "msg_r1", tool_use("toolu_1")), *more]
        logs.write_root(records)
        logs.write_agent([prompt("c1")], meta={"toolUseId": "toolu_1"})
        assert gap_codes(logs.read()) == codes
