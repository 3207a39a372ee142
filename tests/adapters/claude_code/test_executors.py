"""Tests of whose an output is where it stands in two logs."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import LifecycleStatus, Purpose
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
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


_REFERENCE: Record = {"type": "fork-context-ref", "parentSessionId": SESSION, "parentLastUuid": "r1"}
_COPY = assistant("c1", None, "msg_r2")
_OWN = assistant("c2", "c1", "msg_c1")


@pytest.mark.parametrize(
    ("reference", "fork", "is_copy"),
    [("first", True, True), ("first", None, True), ("first", False, False), (None, True, False), (None, False, False),
     ("second", True, False), ("of another agent", True, False)],
)  # fmt: skip
def test_a_copy_is_the_roots_only_where_log_and_metadata_both_begin_a_fork(
    tmp_path: Path, reference: str | None, fork: bool | None, is_copy: bool
) -> None:
    """Either mark alone may be the agent's own work, to have its outputs taken for copies: then nobody owns the id."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    records = [_COPY, _OWN]
    if reference is not None:
        mark = _REFERENCE | ({"agentId": "aother"} if reference == "of another agent" else {})
        records.insert(1 if reference == "second" else 0, mark)
    meta = None if fork is None else {"toolUseId": "toolu_1", "isFork": fork}
    if fork is None:
        (logs.folder / SESSION / "subagents" / f"agent-{AGENT}.meta.json").unlink()
    logs.write_agent(records, meta=meta)
    native = logs.read()
    assert owners(native)["msg_r2"] == ({ROOT} if is_copy else {ROOT, CHILD})
    assert owners(native)["msg_c1"] == {CHILD}
    gaps = set() if is_copy else {"native_id_not_unique"}
    assert gap_codes(native) == gaps | ({"native_shape_unknown"} if not is_copy and (reference or fork) else set())


def test_a_child_cannot_hide_its_outputs_behind_a_copy(tmp_path: Path) -> None:
    """Whatever marks it forges, only what stands in another log too is not expected of it."""
    logs = SessionLogs(tmp_path)
    hidden = assistant("c0", None, "msg_hidden")
    foreground_run(logs)
    for records in ([hidden, _OWN, _COPY], [_REFERENCE, hidden, _OWN, _COPY]):
        logs.write_agent(records, meta={"toolUseId": "toolu_1", "isFork": True})
        expected = {item.output_id for item in logs.read().coverage.outputs or ()}
        assert {"msg_hidden", "msg_c1", "msg_r2"} <= expected


def test_a_reference_in_the_roots_own_file_gives_none_of_its_outputs_away(tmp_path: Path) -> None:
    """Only an agent's log can begin as a fork."""
    logs = SessionLogs(tmp_path)
    logs.write_root([_REFERENCE, assistant("r1", None, "msg_r1")])
    logs.write_agent([assistant("c1", None, "msg_r1"), _OWN])
    native = logs.read()
    assert owners(native)["msg_r1"] == {ROOT, CHILD}
    assert {"native_shape_unknown", "native_id_not_unique"} <= gap_codes(native)


def test_one_record_in_two_logs_names_no_owner_by_its_uuid(tmp_path: Path) -> None:
    """Whoever copies a record copies its uuid too, in either direction."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, child=[assistant("r2", None, "msg_r1"), assistant("c2", "r2", "msg_c1")])
    native = logs.read()
    assert owners(native)["msg_r1"] == {ROOT, CHILD}
    assert gap_codes(native) == {"native_id_not_unique"}


def test_a_sibling_that_copies_a_forks_output_does_not_get_it(tmp_path: Path) -> None:
    """A fork goes on from the context of the root or of its launcher, and from nobody else's."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_agent([_REFERENCE, prompt("c0"), _OWN], meta={"toolUseId": "toolu_1", "isFork": True})
    logs.write_agent([assistant("s1", None, "msg_c1")], "asibling")
    assert owners(logs.read())["msg_c1"] == {CHILD, "agent:asibling"}


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
