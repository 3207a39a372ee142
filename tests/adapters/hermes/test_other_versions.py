"""Homes of Hermes versions that were never tested: read as far as they go, and never guessed at.

Schema 6 lacks columns and tables of the tested one (20 has more); a server gives its sessions other sources and no end.
"""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.adapters.hermes.extracts import CHILD, OTHER, ROOT, Extracts, gap_codes, read_folder, relation_types

SECRET = "sk-of-another-version"
SESSIONS_6 = "id TEXT PRIMARY KEY, source TEXT, parent_session_id TEXT, model_config TEXT, end_reason TEXT"
MESSAGES_6 = (
    "id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT, tool_calls TEXT, "
    "tool_name TEXT, finish_reason TEXT, timestamp REAL"
)
SCHEMA_6 = (f"CREATE TABLE sessions ({SESSIONS_6})", f"CREATE TABLE messages ({MESSAGES_6})")
SESSIONS_20 = f"{SESSIONS_6}, cwd TEXT, session_key TEXT, chat_id TEXT, origin_json TEXT, handoff_state TEXT"
MESSAGES_20 = f"{MESSAGES_6}, active INTEGER, compacted INTEGER, observed INTEGER, effect_disposition TEXT"
SCHEMA_20 = (
    f"CREATE TABLE sessions ({SESSIONS_20})",
    f"CREATE TABLE messages ({MESSAGES_20})",
    "CREATE TABLE session_model_usage (session_id TEXT, model TEXT, task TEXT, api_call_count INTEGER)",
)


def _home(folder: Path, schema: Iterable[str], rows: Extracts) -> Path:
    """A home whose database has this schema, with the rows that it can hold; strange columns hold a secret."""
    home = folder / ".hermes"
    (home / "roller_capture").mkdir(parents=True)
    connection = sqlite3.connect(home / "state.db")
    for statement in schema:
        connection.execute(statement)
    for row in rows.state:
        table = row["table"]
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        strange = dict.fromkeys(("session_key", "chat_id", "origin_json", "handoff_state", "cwd"), SECRET)
        values = {name: {**strange, **row}.get(name) for name in columns}
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(values.values()))
    connection.commit()
    connection.close()
    log = "".join(json.dumps(line) + "\n" for line in rows.plugin)
    (home / "roller_capture" / "events.jsonl").write_text(log)
    return folder


@pytest.mark.parametrize("schema", [SCHEMA_6, SCHEMA_20], ids=["6", "20"])
@pytest.mark.parametrize("source", ["cli", "api_server", "cron"])
def test_a_database_of_another_schema_proves_the_same(tmp_path: Path, schema: tuple[str, ...], source: str) -> None:
    """Wherever the session came from, and though it was never ended; of unknown columns nothing is taken."""
    rows = Extracts()
    rows.state[0].update(source=source, end_reason=None)
    home = _home(tmp_path / "home", schema, rows)
    (tmp_path / "scratch").mkdir()
    native = read_folder(home, ROOT, CHILD, scratch=tmp_path / "scratch")
    assert gap_codes(native) == set()
    assert {item.key: item.role.value for item in native.participants} == {ROOT: "root", CHILD: "child"}
    assert relation_types(native) == ["child_completed", "result_delivered", "spawn"]
    assert all(SECRET not in item.path.read_text() for item in native.sources)


def test_a_home_from_before_the_database_is_named(tmp_path: Path) -> None:
    """Its logs are not read: the folder has credentials of requests, too. Saved conversations name no session."""
    sessions = tmp_path / "home" / ".hermes" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / f"{OTHER}.jsonl").write_text('{"role": "session_meta"}\n')
    (sessions / f"session_{OTHER}.json").write_text(json.dumps({"session_id": OTHER, "messages": []}))
    (sessions / "request_dump_1.json").write_text(json.dumps({"headers": {"authorization": SECRET}}))
    said = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "completed": True}
    (sessions.parent / "trajectory_samples.jsonl").write_text(json.dumps(said) + "\n")
    (tmp_path / "scratch").mkdir()
    native = read_folder(tmp_path / "home", OTHER, scratch=tmp_path / "scratch")
    assert gap_codes(native) == {"native_logs_missing", "participant_log_missing"}
    assert (native.participants, native.sources) == ((), ())
