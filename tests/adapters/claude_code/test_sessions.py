"""Tests of sessions that continue one another."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import Role
from tests.adapters.claude_code.session_logs import (
    SESSION,
    Record,
    SessionLogs,
    assistant,
    foreground_run,
    gap_codes,
    owners,
    prompt,
)

SECOND = "22222222-2222-4333-8444-555555555555"
THIRD = "33333333-2222-4333-8444-555555555555"
_HISTORY: list[Record] = [prompt("r1"), assistant("r2", "r1", "msg_1"), prompt("r3"), assistant("r4", "r3", "msg_2")]


def test_a_session_that_holds_all_of_another_continues_it(tmp_path: Path) -> None:
    """A rotated session is one participant with two native ids, oldest first."""
    logs = SessionLogs(tmp_path)
    logs.write_root([*_HISTORY, prompt("s1"), assistant("s2", "s1", "msg_3")], SESSION)
    logs.write_root(_HISTORY, SECOND)
    native = logs.read(SESSION, SECOND)
    assert [item.native_ids["session_id"] for item in native.participants] == [(SECOND, SESSION)]
    assert owners(native) == {f"msg_{n}": {f"session:{SECOND}"} for n in (1, 2, 3)}
    assert {claim.required[0][1] for claim in native.absent_header_claims} == {SESSION, SECOND}
    assert native.gaps == ()


def test_sessions_that_went_different_ways_are_two_roots_and_share_no_owner(tmp_path: Path) -> None:
    """The common part belongs to one of them, and nothing says which."""
    logs = SessionLogs(tmp_path)
    logs.write_root([*_HISTORY, assistant("s2", "r4", "msg_3")], SESSION)
    logs.write_root([*_HISTORY, assistant("t2", "r4", "msg_4")], SECOND)
    native = logs.read(SESSION, SECOND)
    found = owners(native)
    assert found["msg_1"] == {f"session:{SESSION}", f"session:{SECOND}"}
    assert (found["msg_3"], found["msg_4"]) == ({f"session:{SESSION}"}, {f"session:{SECOND}"})
    assert gap_codes(native) == {"native_id_not_unique", "root_ambiguous"}


def test_equal_ids_in_different_records_continue_nothing(tmp_path: Path) -> None:
    """A provider that counts its ids makes no history."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_1")], SESSION)
    logs.write_root([assistant("s1", None, "msg_1"), assistant("s2", "s1", "msg_2")], SECOND)
    native = logs.read(SESSION, SECOND)
    assert len(native.participants) == 2
    assert "native_id_not_unique" in gap_codes(native)


def test_a_chain_of_three_sessions_is_one_participant(tmp_path: Path) -> None:
    """Every step of the chain contains the one before."""
    logs = SessionLogs(tmp_path)
    steps = [_HISTORY[:2], _HISTORY, [*_HISTORY, assistant("t1", "r4", "msg_3")]]
    for session_id, records in zip((THIRD, SESSION, SECOND), steps, strict=True):
        logs.write_root(records, session_id)
    native = logs.read(SESSION, SECOND, THIRD)
    assert [item.native_ids["session_id"] for item in native.participants] == [(THIRD, SESSION, SECOND)]


@pytest.mark.parametrize(
    ("named", "roles", "gaps"),
    [
        (None, {SESSION: Role.ROOT, SECOND: Role.ROOT}, {"root_ambiguous"}),
        (SESSION, {SESSION: Role.ROOT, SECOND: Role.CHILD}, {"native_relation_unproven"}),
        (THIRD, {SESSION: Role.ROOT, SECOND: Role.ROOT}, {"root_ambiguous"}),
    ],
)
def test_the_launcher_names_the_root_of_two_unrelated_sessions(
    tmp_path: Path, named: str | None, roles: dict[str, Role], gaps: set[str]
) -> None:
    """Without it both are roots, which is a gap; the other one is a child that nothing ties."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_1")], SESSION)
    logs.write_root([assistant("s1", None, "msg_2")], SECOND)
    native = logs.read(SESSION, SECOND, launcher={"root_native_id": named})
    assert {item.native_ids["session_id"][0]: item.role for item in native.participants} == roles
    assert gap_codes(native) == gaps


def test_a_session_without_a_log_is_named_and_the_other_is_read(tmp_path: Path) -> None:
    """The children of the first have no root, those of the second do."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    native = logs.read(SESSION, SECOND)
    assert set(owners(native)) == {"msg_r1", "msg_r2", "msg_c1"}
    assert gap_codes(native) == {"native_logs_missing"}
    assert native.lifecycle is not None


@pytest.mark.parametrize(
    "meta", [b"", b"{", b"[]", b"null", b'{"toolUseId": 1, "parentAgentId": []}', b"x" * (2 << 20)]
)
def test_damaged_metadata_is_named_or_ignored_and_the_log_still_counts(tmp_path: Path, meta: bytes) -> None:
    """The result's own agent id ties the child then."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    (path,) = logs.folder.glob("*/subagents/*.meta.json")
    path.write_bytes(meta)
    native = logs.read()
    assert {item.type.value for item in native.relations} == {"spawn", "result_delivered", "child_completed"}
    assert gap_codes(native) == (set() if meta.startswith(b'{"tool') else {"native_log_unreadable"})
