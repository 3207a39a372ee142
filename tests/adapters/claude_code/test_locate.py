"""Tests of where logs are looked for."""

import json
from pathlib import Path

import pytest

from roller_capture.adapters.claude_code import read
from roller_capture.capture_protocol import AdapterInput
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    SessionLogs,
    assistant,
    completed,
    foreground_run,
    gap_codes,
    owners,
    prompt,
    tool_result,
    tool_use,
    write_lines,
)


@pytest.mark.parametrize(
    "folder",
    [".claude/projects/-w", ".config/claude/projects/-w", "projects/-w", ".claude/projects", "projects", "-w", "."],
)
def test_the_session_is_found_below_a_home_the_harness_folder_and_flat_copies(tmp_path: Path, folder: str) -> None:
    """The native root may be any of the folders that a user would name."""
    logs = SessionLogs(tmp_path, folder=folder)
    foreground_run(logs)
    native = logs.read()
    assert set(owners(native)) == {"msg_r1", "msg_r2", "msg_c1"}
    assert native.gaps == ()


def test_only_sessions_seen_on_the_wire_are_read(tmp_path: Path) -> None:
    """Another session of the same user is no source, not even by its agents."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    other = SessionLogs(tmp_path, session_id="99999999-2222-4333-8444-555555555555")
    foreground_run(other)
    write_lines(logs.folder / "agent-beefbeef.jsonl", [prompt("x", sessionId=other.session_id)])
    assert not any("99999999" in source.source or "beefbeef" in source.source for source in logs.read().sources)


def test_a_child_beside_the_root_is_tied_by_its_session_id(tmp_path: Path) -> None:
    """Layout of 2.0.2x: `agent-<8 hex>.jsonl` beside the root's file, without metadata."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1", "Task")),
            tool_result("r2", "r1", "toolu_1", detail=completed("1a2b3c4d")),
        ]
    )
    child = assistant("c1", None, "msg_c1", sessionId=SESSION, agentId="1a2b3c4d", isSidechain=True)
    write_lines(logs.folder / "agent-1a2b3c4d.jsonl", [child])
    native = logs.read()
    assert owners(native)["msg_c1"] == {"agent:1a2b3c4d"}
    assert native.participants[1].parent_key == f"session:{SESSION}"
    assert native.gaps == ()


def test_a_workflow_agent_one_level_deeper_is_read(tmp_path: Path) -> None:
    """`subagents/workflows/<run>/agent-<id>.jsonl` is a child whose parent is unproven."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent([assistant("c1", None, "msg_c1")], below="subagents/workflows/wf_01")
    native = logs.read()
    assert owners(native)["msg_c1"] == {f"agent:{AGENT}"}
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize("session_id", ["../secret", "a/b", "", ".", "x" * 300, "nul\0", "\ud800"])
def test_a_session_id_that_is_no_file_name_is_refused(tmp_path: Path, session_id: str) -> None:
    """Ids come from request headers, so from anyone."""
    write_lines(tmp_path / "secret.jsonl", [assistant("r1", None, "msg_r1")])
    (tmp_path / "home" / "projects").mkdir(parents=True)
    source = AdapterInput(tmp_path / "home", {"x-claude-code-session-id": frozenset({session_id})})
    native = read(source)
    assert native.sources == ()
    assert native.coverage.outputs is None


def test_linked_logs_and_folders_are_refused_by_name(tmp_path: Path) -> None:
    """A link may lead anywhere."""
    elsewhere = SessionLogs(tmp_path / "elsewhere", folder="-w")
    foreground_run(elsewhere)
    (tmp_path / "home" / ".claude" / "projects").mkdir(parents=True)
    (tmp_path / "home" / ".claude" / "projects" / "-w").symlink_to(tmp_path / "elsewhere" / "-w")
    native = SessionLogs(tmp_path / "home").read()
    assert gap_codes(native) == {"file_refused", "native_logs_missing"}
    assert native.sources == ()


def test_a_linked_agent_log_is_refused_and_its_siblings_are_read(tmp_path: Path) -> None:
    """One refused file never spoils those beside it."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    target = write_lines(tmp_path / "target.jsonl", [assistant("x", None, "msg_x")])
    (logs.folder / SESSION / "subagents" / "agent-abad.jsonl").symlink_to(target)
    native = logs.read()
    assert "file_refused" in gap_codes(native)
    assert set(owners(native)) == {"msg_r1", "msg_r2", "msg_c1"}


def test_without_a_session_header_the_launcher_names_the_session(tmp_path: Path) -> None:
    """Versions that send no session id are read by the launcher's note."""
    foreground_run(SessionLogs(tmp_path))
    native = read(AdapterInput(tmp_path, {}, {"root_native_id": SESSION}))
    assert set(owners(native)) == {"msg_r1", "msg_r2", "msg_c1"}
    assert native.absent_header_claims == ()


@pytest.mark.parametrize("sessions", [1, 2])
def test_without_any_name_a_single_session_of_the_runs_own_copy_is_the_one(tmp_path: Path, sessions: int) -> None:
    """Two would be a guess."""
    root = tmp_path / "work" / "native"
    foreground_run(SessionLogs(root))
    if sessions == 2:
        foreground_run(SessionLogs(root, session_id="99999999-2222-4333-8444-555555555555"))
    (root / "stdout.jsonl").write_text(json.dumps({"type": "system"}) + "\n")
    native = read(AdapterInput(root, {}))
    assert (native.coverage.outputs is not None) == (sessions == 1)
    assert gap_codes(native) == (set() if sessions == 1 else {"native_logs_missing"})


def test_a_users_home_is_not_searched_without_a_name(tmp_path: Path) -> None:
    """One session in a home is still somebody else's until an id says otherwise."""
    foreground_run(SessionLogs(tmp_path))
    native = read(AdapterInput(tmp_path, {}))
    assert native.sources == ()
    assert gap_codes(native) == {"native_logs_missing"}
