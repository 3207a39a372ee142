"""Tests of whose an output is where it stands in two logs."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import LifecycleStatus, Purpose
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    SessionLogs,
    assistant,
    foreground_run,
    gap_codes,
    owners,
    prompt,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"


def test_an_id_in_two_logs_without_a_mark_of_copying_has_no_owner(tmp_path: Path) -> None:
    """Both claims are handed on, so that the finalizer finds them ambiguous."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=[assistant("c1", None, "msg_r1"), assistant("c2", "c1", "msg_c1")])
    native = logs.read()
    assert owners(native)["msg_r1"] == {ROOT, CHILD}
    assert gap_codes(native) == {"native_id_not_unique"}


def test_one_record_in_the_roots_and_an_agents_log_is_the_roots(tmp_path: Path) -> None:
    """The same record uuid in both: the agent's log begins with a copy of the context it inherited."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=[assistant("r2", None, "msg_r1"), assistant("c2", "r2", "msg_c1")])
    native = logs.read()
    assert owners(native)["msg_r1"] == {ROOT}
    assert native.gaps == ()


def test_no_agent_owns_the_output_that_launched_it(tmp_path: Path) -> None:
    """Also where the root's own record of it is damaged."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=[assistant("c1", None, "msg_r1", tool_use("toolu_1")), assistant("c2", "c1", "msg_c1")])
    path = logs.folder / f"{SESSION}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"damaged\n" + b"".join(lines[2:]))
    assert "msg_r1" not in owners(logs.read())


@pytest.mark.parametrize("root_known", [True, False])
def test_what_stands_before_a_copy_is_a_copy_too(tmp_path: Path, root_known: bool) -> None:
    """A compacting agent's log repeats the context; where its source is missing nothing in it is surely its own."""
    logs = SessionLogs(tmp_path)
    if root_known:
        logs.write_root([assistant("r2", None, "msg_r2")])
    context = [assistant("r1", None, "msg_r1"), assistant("r2", "r1", "msg_r2")]
    logs.write_agent([*context, prompt("c1"), assistant("c2", "c1", "msg_c1")], "acompact-01")
    assert owners(logs.read()) == ({"msg_r2": {ROOT}, "msg_c1": {"agent:acompact-01"}} if root_known else {})


def test_a_compacting_agent_is_marked_by_its_own_id(tmp_path: Path) -> None:
    """Its call is a compaction beside the agents' turns, and no tool call is missed."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent([assistant("r1", None, "msg_r1"), prompt("c1"), assistant("c2", "c1", "msg_c1")], "acompact-01")
    native = logs.read()
    purposes = {item.value: (item.purpose, item.side_call) for item in native.purpose_claims}
    assert purposes == {"msg_r1": (Purpose.AGENT, False), "msg_c1": (Purpose.COMPACTION, True)}
    assert native.participants[1].lifecycle is LifecycleStatus.COMPLETE
    assert native.gaps == ()


def test_one_agent_id_in_two_sessions_is_two_participants(tmp_path: Path) -> None:
    """The id is claimed by both and so proves neither."""
    other = "99999999-2222-4333-8444-555555555555"
    foreground_run(SessionLogs(tmp_path))
    second = SessionLogs(tmp_path, session_id=other)
    second.write_root([assistant("o1", None, "msg_o1")])
    second.write_agent([assistant("o2", None, "msg_o2")])
    native = SessionLogs(tmp_path).read(SESSION, other)
    assert len({item.key for item in native.participants if item.native_ids.get("agent_id") == (AGENT,)}) == 2
    assert "native_id_not_unique" in gap_codes(native)
