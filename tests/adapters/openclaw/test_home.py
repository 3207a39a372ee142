"""Tests of what is taken out of a home: by allow-list, for the sessions that are wanted, and nothing else."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from roller_capture.adapters.openclaw.compressed import LARGEST_EVENT, event_text
from roller_capture.adapters.openclaw.home import copy_records
from roller_capture.vocabulary import LifecycleStatus
from tests.adapters.openclaw.home_rows import (
    CHILD,
    CHILD_ID,
    ROOT,
    ROOT_ID,
    HomeRows,
    gap_codes,
    one_child,
    read_native,
    relation_types,
)

SECRET = "sk-live-secret-canary"
STRANGER = "agent:main:main"
STRANGER_ID = "91111111-0000-4000-8000-000000000001"

_AGENT_SCHEMA = """
CREATE TABLE schema_meta (meta_key TEXT PRIMARY KEY, role TEXT, schema_version INTEGER, app_version TEXT);
CREATE TABLE auth_profile_store (store_key TEXT, store_json TEXT);
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, parent_session_key TEXT, spawned_by TEXT);
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT, status TEXT,
  created_via TEXT, parent_session_key TEXT, spawned_by TEXT, fork_source_session_key TEXT);
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB,
  navigation_json TEXT CHECK (navigation_json IS NULL OR json_valid(navigation_json)), PRIMARY KEY (session_id, seq));
"""
_STATE_SCHEMA = """
CREATE TABLE schema_meta (meta_key TEXT PRIMARY KEY, app_version TEXT);
CREATE TABLE secret_store_entries (name TEXT, value TEXT);
CREATE TABLE subagent_runs (run_id TEXT PRIMARY KEY, child_session_key TEXT, controller_session_key TEXT,
  requester_session_key TEXT, created_at INTEGER, payload_json TEXT);
CREATE TABLE task_runs (run_id TEXT, runtime TEXT, task TEXT, status TEXT, child_session_key TEXT, created_at INTEGER);
"""


def fill(database: Path, schema: str, rows: list[dict[str, Any]], secret_table: str) -> None:
    """Makes a database of these rows, with a secret beside them and another one in a column that nobody asks for."""
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(schema)
        connection.execute(f"INSERT INTO {secret_table} VALUES ('key', '{SECRET}')")
        for row in rows:
            known = {item[1] for item in connection.execute(f"PRAGMA table_info({row['table']})")}
            values = {name: value for name, value in row.items() if name in known}
            extra = {"entry_json": SECRET, "task": SECRET}
            values |= {name: value for name, value in extra.items() if name in known}
            marks = ", ".join("?" * len(values))
            columns = ", ".join(values)
            connection.execute(f"INSERT INTO {row['table']} ({columns}) VALUES ({marks})", tuple(values.values()))


def lay_down(home: Path, rows: HomeRows) -> Path:
    """A home as OpenClaw leaves it, with a session beside that nobody asked for."""
    rows.session(STRANGER, STRANGER_ID).user(STRANGER_ID, "x:user", SECRET)
    rows.hook.append({"event": "stream", "session_id": STRANGER_ID})
    rows.task("stranger-run", key=STRANGER).run(
        {"runId": "stranger-run", "childSessionKey": STRANGER}, child_session_key=STRANGER, requester_session_key="x"
    )
    state = home / ".openclaw"
    fill(state / "agents/main/agent/openclaw-agent.sqlite", _AGENT_SCHEMA, rows.agent, "auth_profile_store")
    fill(state / "state/openclaw.sqlite", _STATE_SCHEMA, rows.registry, "secret_store_entries")
    (state / "roller-hook.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.hook))
    (state / "openclaw.json").write_text(SECRET)
    return home


def everything_below(folder: Path) -> bytes:
    """All that is in a folder's files."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_only_allowed_tables_columns_and_sessions_are_copied(tmp_path: Path) -> None:
    """No credential, no other session, no other file; the child is found through its parent."""
    home = lay_down(tmp_path / "home", one_child())
    before = everything_below(home)
    gaps = copy_records(home, tmp_path / "target", frozenset({ROOT_ID}))
    assert gaps == []
    copied = everything_below(tmp_path / "target")
    assert SECRET.encode() not in copied
    assert STRANGER_ID.encode() not in copied
    assert b"stranger-run" not in copied
    assert CHILD_ID.encode() in copied
    names = {path.relative_to(tmp_path / "target").as_posix() for path in (tmp_path / "target").rglob("*.*")}
    assert names == {"agents/main/openclaw-agent.jsonl", "state/openclaw.jsonl", "roller-hook.jsonl"}
    assert everything_below(home) == before
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "target").rglob("*.jsonl")} == {0o600}


def test_a_copy_and_the_home_itself_say_the_same(tmp_path: Path) -> None:
    """A launcher's extracts, the HOME of a run by hand, and the harness's own folder in it."""
    home = lay_down(tmp_path / "home", one_child())
    copy_records(home, tmp_path / "target", frozenset({ROOT_ID}))
    answers = [read_native(place, tmp_path) for place in (tmp_path / "target", home, home / ".openclaw")]
    assert len({answer.relations for answer in answers}) == 1
    assert len(relation_types(answers[0])) == 4
    assert [answer.gaps for answer in answers] == [(), (), ()]
    assert {tuple(item.source for item in answer.sources) for answer in answers} == {
        ("agents/main/openclaw-agent.jsonl", "roller-hook.jsonl", "state/openclaw.jsonl")
    }


def test_a_second_copy_replaces_the_first(tmp_path: Path) -> None:
    """The watchdog may copy what had been copied before."""
    home = lay_down(tmp_path / "home", one_child())
    for _ in range(2):
        assert copy_records(home, tmp_path / "target", frozenset({ROOT_ID})) == []
    assert relation_types(read_native(tmp_path / "target", tmp_path)).count("spawn") == 1


def test_rows_that_are_still_in_the_write_ahead_log_are_read(tmp_path: Path) -> None:
    """A gateway that was killed leaves the newest rows there."""
    home = lay_down(tmp_path / "home", one_child())
    database = home / ".openclaw/state/openclaw.sqlite"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE subagent_runs SET payload_json = replace(payload_json, 'delivered', 'pending')")
        assert copy_records(home, tmp_path / "target", frozenset({ROOT_ID})) == []
    native = read_native(tmp_path / "target", tmp_path)
    assert "result_delivered" not in relation_types(native)


def test_a_compressed_event_is_read_like_any_other(tmp_path: Path) -> None:
    """A row is either text or one zstd frame."""
    rows = one_child()
    for row in rows.agent:
        if row["table"] == "transcript_events":
            frame = zstandard.ZstdCompressor().compress(row["event_json"].encode())
            row |= {"event_json": None, "event_zstd": frame}
    native = read_native(lay_down(tmp_path / "home", rows), tmp_path)
    assert len(relation_types(native)) == 4
    assert native.gaps == ()


_WHOLE = zstandard.ZstdCompressor().compress(b'{"a": 1}' * 1000)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (_WHOLE, '{"a": 1}' * 1000),
        (_WHOLE + b"rest", '{"a": 1}' * 1000),
        (_WHOLE[:-1], {"unreadable": "is torn"}),
        (_WHOLE[:8], {"unreadable": "is torn"}),
        (b"", {"unreadable": "is torn"}),
        (b"no frame at all", {"unreadable": "is no zstd frame"}),
        (zstandard.ZstdCompressor().compress(b"\xff\xfe"), {"unreadable": "is no text"}),
        (zstandard.ZstdCompressor().compress(b"0" * (LARGEST_EVENT + 1)), {"unreadable": "is too large"}),
        (zstandard.ZstdCompressor().compress(b"0" * (1 << 30)), {"unreadable": "is too large"}),
    ],
    ids=["whole", "with a rest", "torn", "only a head", "empty", "no frame", "no text", "too large", "a bomb"],
)
def test_a_frame_is_a_text_or_says_why_not(frame: bytes, expected: object) -> None:
    """Its output is bounded, whatever it promises."""
    assert event_text(frame) == expected


def test_a_damaged_frame_is_a_gap_and_the_rest_is_read(tmp_path: Path) -> None:
    """The event is lost, with its place; its neighbours are not."""
    rows = one_child()
    row = next(row for row in rows.agent if '"resp_2"' in str(row.get("event_json")))
    row |= {"event_json": None, "event_zstd": b"(\xb5/\xfd"}
    native = read_native(lay_down(tmp_path / "home", rows), tmp_path)
    assert [(gap.code.value, gap.message) for gap in native.gaps] == [("native_line_unreadable", "an event is torn")]
    assert {claim.value for claim in native.identity_claims if claim.field == "response_id"} == {
        "resp_1",
        "resp_3",
        "resp_4",
    }


def _damage(home: Path, how: str) -> None:
    database = home / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    registry = home / ".openclaw/state/openclaw.sqlite"
    if how == "no registry":
        registry.unlink()
    elif how == "no agent database":
        database.unlink()
    elif how == "cut agent database":
        os.truncate(database, 5000)
    elif how == "agent database of zeros":
        database.write_bytes(bytes(10_000))
    elif how == "agent database is a link":
        database.rename(home / "elsewhere")
        database.symlink_to(home / "elsewhere")
    elif how == "a table is a view":
        with closing(sqlite3.connect(registry)) as connection, connection:
            connection.execute("ALTER TABLE subagent_runs RENAME TO other")
            connection.execute("CREATE VIEW subagent_runs AS SELECT * FROM other")
    elif how == "a table is missing":
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("DROP TABLE transcript_events")
    elif how == "session files of an older version":
        database.unlink()
        (home / ".openclaw/agents/main/sessions").mkdir()
    elif how == "a home of files alone":
        shutil.rmtree(home / ".openclaw")
        names = ["a.jsonl", "b.jsonl.reset.1", "c.jsonl.deleted.1", "d.jsonl.bak-7-8", "e.checkpoint.f.jsonl", "a.lock"]
        names += ["g-topic-1.jsonl", "a.trajectory.jsonl", "a.trajectory-path.json", "sessions.json"]
        files = [f"agents/main/sessions/{name}" for name in names] + ["subagents/runs.json", "tasks/runs.sqlite"]
        for path in (home / ".openclaw" / file for file in files):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('{"type": "message", "id": 7}\n')


@pytest.mark.parametrize(
    ("how", "codes"),
    [
        ("no registry", {"native_logs_missing"}),
        ("no agent database", {"native_logs_missing", "participant_log_missing"}),
        ("cut agent database", {"native_log_unreadable"}),
        ("agent database of zeros", {"native_log_unreadable"}),
        ("agent database is a link", {"file_refused", "native_logs_missing"}),
        ("a table is a view", {"native_shape_unknown"}),
        ("a table is missing", {"native_shape_unknown", "participant_log_missing"}),
        ("session files of an older version", {"native_shape_unknown", "native_logs_missing"}),
        ("a home of files alone", {"native_shape_unknown", "native_logs_missing"}),
    ],
)
def test_what_cannot_be_read_has_a_name(tmp_path: Path, how: str, codes: set[str]) -> None:
    """Never a traceback, never a silent loss; the lifecycle is not said to be complete."""
    home = lay_down(tmp_path / "home", one_child())
    _damage(home, how)
    native = read_native(home, tmp_path)
    assert codes <= gap_codes(native)
    assert native.lifecycle is not None or any(item.lifecycle.value != "complete" for item in native.participants)


@pytest.mark.parametrize("name", ["a.jsonl", "c.jsonl.deleted.1", "a.trajectory-path.json"])
def test_session_files_are_named_by_their_agent_and_older_registries_singly(tmp_path: Path, name: str) -> None:
    """No such file is read, with a header or without, so that it does not matter which of them there are: a child may
    be there as deleted only."""
    files = [f"agents/main/sessions/{name}", "subagents/runs.json", "tasks/runs.sqlite"]
    for path in (tmp_path / "home/.openclaw" / file for file in files):
        path.parent.mkdir(parents=True)
        path.write_text('{"type": "message", "id": 7}\n')
    native = read_native(tmp_path / "home", tmp_path)
    assert {(gap.source, gap.message) for gap in native.gaps if gap.code.value == "native_shape_unknown"} == {
        ("main", "has session files of an older version"),
        ("subagents/runs.json", "is a registry of an older version"),
        ("tasks/runs.sqlite", "is a registry of an older version"),
    }
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_a_home_that_is_gone_is_said(tmp_path: Path) -> None:
    """The launcher's copy has a gap and no exception."""
    assert [gap.code.value for gap in copy_records(tmp_path / "gone", tmp_path / "t", frozenset())] == [
        "native_logs_missing"
    ]


def test_spawned_sessions_in_a_circle_end(tmp_path: Path) -> None:
    """Rows can name each other as parents."""
    rows = one_child()
    for row in rows.agent:
        if row.get("session_key") == ROOT:
            row["spawned_by"] = CHILD
    copy_records(lay_down(tmp_path / "home", rows), tmp_path / "target", frozenset({ROOT_ID}))
    native = read_native(tmp_path / "target", tmp_path)
    assert {item.key for item in native.participants} == {ROOT, CHILD}
