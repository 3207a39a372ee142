"""Tests of the whole answer: versions, roots, fields, missing logs."""

from pathlib import Path

import pytest

from roller_capture.adapters.claude_code import read
from roller_capture.capture_protocol import AdapterInput
from roller_capture.vocabulary import CoverageStrength, ExecutionStatus, LifecycleStatus, Role, SubtaskSupport
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
    SessionLogs,
    api_error,
    assistant,
    foreground_run,
    gap_codes,
    prompt,
    tool_use,
)


@pytest.mark.parametrize("root", [None, "missing", "file"])
def test_without_a_folder_nothing_is_known_and_nothing_is_claimed(tmp_path: Path, root: str | None) -> None:
    """No native log read is `unknown`, never `complete`."""
    (tmp_path / "file").write_text("x")
    native = read(AdapterInput(tmp_path / root if root else None, {"x-claude-code-session-id": frozenset({SESSION})}))
    assert native.coverage.outputs is None
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert (native.participants, native.identity_claims) == ((), ())
    assert (native.harness_version, native.version_tested) == (None, False)
    assert gap_codes(native) == {"native_logs_missing"}


@pytest.mark.parametrize(
    ("versions", "reported", "tested"),
    [
        (["2.1.332"], "2.1.332", True),
        (["2.1.197", "2.1.332", "2.1.332"], "2.1.332", True),
        (["2.1.332", "9.9.9"], "2.1.332", False),
        (["9.9.9"], "9.9.9", False),
        ([None, 5, "", "x" * 99], None, False),
    ],
)
def test_the_version_is_that_of_most_records_and_tested_only_if_all_are(
    tmp_path: Path, versions: list[object], reported: str | None, tested: bool
) -> None:
    """A session that was resumed by another version holds both. An untested version is no gap."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant(f"r{n}", None, f"msg_{n}", version=version) for n, version in enumerate(versions)])
    native = logs.read()
    assert (native.harness_version, native.version_tested) == (reported, tested)
    assert native.gaps == ()


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ([prompt("r1"), assistant("r2", "r1", "msg_1")], ExecutionStatus.COMPLETED),
        ([assistant("r2", None, "msg_1", stop_reason=None)], ExecutionStatus.UNKNOWN),
        ([assistant("r2", None, "msg_1", tool_use("toolu_1", "Bash"))], ExecutionStatus.INTERRUPTED),
        ([prompt("r1"), api_error("r2", "r1", 401)], ExecutionStatus.FAILED),
        ([prompt("r1")], ExecutionStatus.INTERRUPTED),
        ([{"type": "mode"}], ExecutionStatus.UNKNOWN),
    ],
)
def test_the_roots_end_is_told_by_its_own_log(tmp_path: Path, records: list[Record], status: ExecutionStatus) -> None:
    """An answer without a stop reason says nothing of a root, since nobody reports its end."""
    logs = SessionLogs(tmp_path)
    logs.write_root(records)
    assert [item.execution_status for item in logs.read().participants] == [status]


def test_compaction_does_not_reopen_an_ended_root(tmp_path: Path) -> None:
    """The summary and the command's own records are no prompts."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_1"),
            prompt("r3", "This session is being continued.", isCompactSummary=True, isVisibleInTranscriptOnly=True),
            prompt("r4", "<command-name>/compact</command-name>"),
            prompt("r5", "<local-command-stdout>Compacted</local-command-stdout>"),
        ]
    )
    assert logs.read().participants[0].execution_status is ExecutionStatus.COMPLETED


def test_what_is_published_of_ids_headers_and_coverage(tmp_path: Path) -> None:
    """The agent id names one participant; the session id is shared; coverage is per message id."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    native = logs.read(agents=[AGENT])
    root, child = native.participants
    assert (root.role, root.native_ids) == (Role.ROOT, {"session_id": (SESSION,)})
    assert (child.role, child.native_ids) == (Role.CHILD, {"session_id": (SESSION,), "agent_id": (AGENT,)})
    assert {(item.published_as, item.exclusive) for item in native.identity_fields} == {
        ("session_id", False),
        ("agent_id", True),
        ("parent_agent_id", False),
    }
    (absent,) = native.absent_header_claims
    assert (absent.header, absent.required, absent.participant_key) == (
        "x-claude-code-agent-id",
        (("x-claude-code-session-id", SESSION),),
        root.key,
    )
    assert (native.coverage.field, native.coverage.strength) == ("response_id", CoverageStrength.PER_ID)
    assert (native.coverage.protocol_count_name, native.coverage.protocol_count) == (
        "message_ids",
        {root.key: 2, child.key: 1},
    )
    assert native.subtasks is SubtaskSupport.SUPPORTED
    assert native.lifecycle is None


def test_an_agent_that_only_requests_name_leaves_the_lifecycle_unknown(tmp_path: Path) -> None:
    """It made calls, and no log tells of it."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    native = logs.read(agents=[AGENT, "aunknown"])
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert gap_codes(native) == {"participant_log_missing"}


@pytest.mark.parametrize(
    ("folder", "sessions", "said"),
    [
        ("work/native", 0, "the run's own logs hold none"),
        ("work/native", 2, "the run's own logs hold 2"),
        ("home", 1, "the logs are not the run's own copy"),
    ],
)
def test_a_run_that_names_no_session_says_what_there_is(tmp_path: Path, folder: str, sessions: int, said: str) -> None:
    """One that was stopped before its first request has no log at all."""
    root = tmp_path / folder
    root.mkdir(parents=True)
    for number in range(sessions):
        SessionLogs(root, f"{number}{SESSION[1:]}").write_root([prompt("r1")])
    native = read(AdapterInput(root, {}))
    assert [gap.message for gap in native.gaps] == [f"no request and no launcher names the session, and {said}"]


def test_children_of_a_session_without_a_root_log_are_read(tmp_path: Path) -> None:
    """Coverage stays unknown, since the root's outputs are not known."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    (logs.folder / f"{SESSION}.jsonl").unlink()
    native = logs.read()
    assert [item.key for item in native.participants] == [f"agent:{AGENT}"]
    assert native.coverage.outputs is None
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert gap_codes(native) == {"native_logs_missing", "native_relation_unproven"}
