"""Tests of notifications that a compaction came upon: what is written twice, and what the new chain goes on from."""

from pathlib import Path

import pytest

from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
    SessionLogs,
    assistant,
    gap_codes,
    launched,
    notification,
    notification_text,
    prompt,
    relation_rows,
    tool_result,
    tool_use,
)

_LAUNCH: list[Record] = [
    prompt("r1"),
    assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
    tool_result("r3", "r2", "toolu_1", detail=launched()),
    assistant("r4", "r3", "msg_r2", tool_use("toolu_2", "Bash")),
    tool_result("r5", "r4", "toolu_2"),
]
_NOTIFIED: Record = {
    "type": "attachment",
    "uuid": "r6",
    "parentUuid": "r5",
    "attachment": {
        "type": "queued_command",
        "commandMode": "task-notification",
        "prompt": notification_text(AGENT, "toolu_1"),
    },
}
_AFTER = [prompt("s1", "Summed up.", parentUuid="b1", isCompactSummary=True), assistant("s2", "s1", "msg_r3")]


def _boundary(**more: object) -> Record:
    return {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None} | more


def _read(tmp_path: Path, *records: Record) -> tuple[bool, str, set[str]]:
    """Whether the result was delivered, the child's lifecycle, and the gaps."""
    logs = SessionLogs(tmp_path)
    logs.write_root([*_LAUNCH, *records])
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    delivered = ("result_delivered", f"session:{SESSION}", f"agent:{AGENT}", 1, "completed") in relation_rows(native)
    return delivered, native.participants[1].lifecycle.value, gap_codes(native)


def test_the_chain_goes_on_over_a_compaction(tmp_path: Path) -> None:
    """The boundary has no parent and names the last record before it."""
    assert _read(tmp_path, _NOTIFIED, _boundary(logicalParentUuid="r6"), *_AFTER) == (True, "complete", set())


def test_records_that_a_compaction_writes_once_more_count_once(tmp_path: Path) -> None:
    """2.1.197 writes those that it keeps again, under their own uuids."""
    again = [_LAUNCH[-1] | {"slug": "a-name"}, _NOTIFIED | {"slug": "a-name"}]
    found = _read(tmp_path, _NOTIFIED, *again, _boundary(logicalParentUuid="r6"), *_AFTER)
    assert found == (True, "complete", set())


@pytest.mark.parametrize(
    "again",
    [
        notification("r6", "r5", AGENT, "toolu_9"),
        notification("r6", "r5", "aother", "toolu_1"),
        notification("r6", "r5", AGENT, "toolu_1", "failed"),
        _NOTIFIED | {"parentUuid": "r1"},
        prompt("r6", parentUuid="r5"),
    ],
    ids=["tool id", "agent", "status", "parent", "no notification"],
)
def test_a_uuid_that_says_something_else_the_second_time_proves_nothing(tmp_path: Path, again: Record) -> None:
    """Neither record is believed."""
    found = _read(tmp_path, _NOTIFIED, again, assistant("r7", "r6", "msg_r3"))
    assert found == (False, "pending", {"native_id_not_unique"})


@pytest.mark.parametrize(
    "boundary",
    [
        _boundary(),
        _boundary(logicalParentUuid="r4"),
        _boundary(logicalParentUuid="s2"),
        _boundary(logicalParentUuid="b1"),
        _boundary(logicalParentUuid=["r6"]),
        _boundary(logicalParentUuid="r6", parentUuid="r4"),
        _boundary(logicalParentUuid="r6", subtype="informational"),
        _boundary(logicalParentUuid="r6", type="progress"),
    ],
    ids=["none", "before", "later", "itself", "odd", "another parent", "another subtype", "another type"],
)
def test_a_boundary_that_does_not_stand_on_the_notification_proves_nothing(tmp_path: Path, boundary: Record) -> None:
    """Records are followed in file order, and only a compaction's own mark replaces the parent."""
    assert _read(tmp_path, _NOTIFIED, boundary, *_AFTER) == (False, "pending", {"native_relation_unproven"})


def test_copies_of_a_notification_in_two_sessions_must_say_the_same(tmp_path: Path) -> None:
    """A session that goes on with another one's records holds them under the same uuids."""
    other = "99999999-2222-4333-8444-555555555555"
    logs = SessionLogs(tmp_path)
    records = [*_LAUNCH, _NOTIFIED, assistant("r7", "r6", "msg_r3")]
    forged = [*_LAUNCH, notification("r6", "r5", AGENT, "toolu_1", "failed"), *records[-1:]]
    for session_id, held in ((SESSION, records), (other, [*forged, prompt("x1"), assistant("x2", "x1", "msg_x")])):
        logs.write_root(held, session_id)
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], meta={"toolUseId": "toolu_1"})
    native = logs.read(SESSION, other)
    assert "result_delivered" not in {row[0] for row in relation_rows(native)}
    assert "native_id_not_unique" in gap_codes(native)
