"""Tests of what is taken out of a home: the sessions asked for with their descendants, and allowed columns."""

import json
import sqlite3
from pathlib import Path

import pytest

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.store import extract_home
from roller_capture.adapters.native_files import NativeTree
from tests.adapters.hermes.extracts import CHILD, OTHER, ROOT, gap_codes, read_folder

GRANDCHILD = "20261101_120003_dddddd"
SECRET = "sk-not-to-be-copied"


def _home(folder: Path) -> Path:
    home = folder / ".hermes"
    (home / "roller_capture").mkdir(parents=True)
    (home / "sessions").mkdir()
    (home / "sessions" / "request_dump_1.json").write_text(SECRET)
    connection = sqlite3.connect(home / "state.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE sessions (id TEXT, source TEXT, parent_session_id TEXT, system_prompt TEXT, model_config TEXT, "
        "end_reason TEXT, billing_base_url TEXT, started_at REAL)"
    )
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, reasoning TEXT)"
    )
    connection.execute("CREATE TABLE auth (token TEXT)")
    connection.execute("INSERT INTO auth VALUES (?)", (SECRET,))
    rows = [(ROOT, None), (CHILD, ROOT), (GRANDCHILD, CHILD), (OTHER, None)]
    for number, (session_id, parent) in enumerate(rows):
        source = "subagent" if parent else "cli"
        mark = json.dumps({"_delegate_from": parent}) if parent else "{}"
        values = (session_id, source, parent, SECRET, mark, "agent_close", SECRET, number)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        connection.execute(
            "INSERT INTO messages (session_id, role, content, reasoning) VALUES (?, 'user', 'x', ?)",
            (session_id, SECRET),
        )
    connection.commit()
    events = [
        {"event": "hook", "harness_version": "0.0.1"},
        {"event": "turn", "session_id": OTHER, "turn_id": "t"},
        {"event": "hook", "harness_version": "0.19.0"},
        {"event": "turn", "session_id": ROOT, "turn_id": "t", "origin": "turn", "prompt": SECRET},
        {"event": "turn", "session_id": GRANDCHILD, "turn_id": "t2", "origin": "turn"},
    ]
    log = "".join(json.dumps(line) + "\n" for line in events)
    (home / "roller_capture" / "events.jsonl").write_text(log)
    # Left open: the rows are in the write-ahead log alone.
    _OPEN.append(connection)
    return folder


_OPEN: list[sqlite3.Connection] = []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two runs, secrets, and a write-ahead log."""
    return _home(tmp_path / "home")


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("inner", [".", ".hermes"])
def test_the_sessions_asked_for_and_their_descendants(home: Path, tmp_path: Path, inner: str) -> None:
    """Another run's session in the same home stays there, and so do the columns that are not allowed."""
    (tmp_path / "scratch").mkdir()
    gaps = GapLog()
    found = extract_home(
        NativeTree(home / inner, gaps), frozenset({ROOT}), tmp_path / "scratch", tmp_path / "target", gaps
    )
    assert found.state is not None
    assert found.events is not None
    state, events = _lines(found.state), _lines(found.events)
    assert {row["id"] for row in state if row["table"] == "sessions"} == {ROOT, CHILD, GRANDCHILD}
    assert {row["session_id"] for row in state if row["table"] == "messages"} == {ROOT, CHILD, GRANDCHILD}
    assert [line.get("session_id", line.get("harness_version")) for line in events] == ["0.19.0", ROOT, GRANDCHILD]
    assert SECRET not in found.state.read_text() + found.events.read_text()
    assert {path.stat().st_mode & 0o777 for path in (found.state, found.events)} == {0o600}
    assert gaps.gaps() == ()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_extracting_again_replaces_what_was_there(home: Path, tmp_path: Path) -> None:
    """A second call of a launcher gives the same files, not twice the lines."""
    (tmp_path / "scratch").mkdir()
    sizes = []
    for _ in range(2):
        gaps = GapLog()
        extract_home(NativeTree(home, gaps), frozenset({ROOT}), tmp_path / "scratch", tmp_path / "target", gaps)
        sizes.append([path.stat().st_size for path in sorted((tmp_path / "target").iterdir())])
    assert sizes[0] == sizes[1]


def test_a_users_home_is_read_in_a_copy_and_left_as_it_was(home: Path, tmp_path: Path) -> None:
    """The evidence lies in scratch; no file of the home changes."""
    (tmp_path / "scratch").mkdir()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    native = read_folder(home, ROOT, CHILD, GRANDCHILD, scratch=tmp_path / "scratch")
    assert {item.key for item in native.participants} == {ROOT, CHILD, GRANDCHILD}
    assert {item.source for item in native.sources} == {"state.jsonl", "plugin.jsonl"}
    assert all(item.path.is_relative_to(tmp_path / "scratch") for item in native.sources)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert gap_codes(native) == {"native_relation_unproven"}
