"""What leaves a database of OpenCode: the wanted sessions, their descendants, the allowed columns, and nothing else."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.opencode import read
from roller_capture.adapters.opencode.store import DATABASES, extract_to
from roller_capture.capture_protocol import AdapterInput
from tests.adapters.opencode.session_rows import CHILD, ROOT, codes, kinds, one_child, task

SECRET = "sk-a-credential-in-the-database"
PLACES = [str(place) for place in DATABASES]


def make_database(path: Path, *, sessions: int = 0) -> sqlite3.Connection:
    """One root with a child, a stranger's session, further `sessions` below the child, and accounts; left open, so
    that everything may still stand in the write-ahead log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE session (id TEXT, parent_id TEXT, version TEXT, title TEXT, time_created INTEGER)")
    database.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    database.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    database.execute("CREATE TABLE account (id TEXT, access_token TEXT)")
    database.execute("INSERT INTO account VALUES ('a', ?)", (SECRET,))
    rows = one_child(task())
    rows.session("ses_stranger")
    rows.message("ses_stranger", {"role": "user", "text": SECRET}, "msg_stranger")
    for number in range(sessions):
        rows.session(f"ses_{number:05d}", CHILD)
    for row in rows.rows:
        values = {"time_created": 1, **row} | ({"title": SECRET} if row["table"] == "session" else {})
        table = values.pop("table")
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
    return database


@pytest.fixture
def native(tmp_path: Path) -> Iterator[Path]:
    """A home whose database is still in use."""
    database = make_database(tmp_path / "home" / DATABASES[0])
    yield tmp_path / "home"
    database.close()


def test_only_the_wanted_sessions_and_their_descendants_leave(native: Path, tmp_path: Path) -> None:
    """No other session, no title, no account, though all of them stand in the same file."""
    (tmp_path / "scratch").mkdir()
    gaps = GapLog()
    read_from = extract_to(NativeTree(native, gaps), frozenset({ROOT}), tmp_path / "kept", tmp_path / "scratch", gaps)
    text = (tmp_path / "kept" / "opencode.jsonl").read_text()
    assert (read_from, gaps.gaps()) == ([DATABASES[0]], ())
    assert {json.loads(line).get("session_id", json.loads(line)["id"]) for line in text.splitlines()} == {ROOT, CHILD}
    assert SECRET not in text
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["opencode.jsonl"]


def test_a_second_extract_replaces_the_first(native: Path, tmp_path: Path) -> None:
    """`collect` copies once more when it had to be stopped."""
    (tmp_path / "scratch").mkdir()
    for _ in range(2):
        gaps = GapLog()
        extract_to(NativeTree(native, gaps), frozenset({ROOT}), tmp_path / "kept", tmp_path / "scratch", gaps)
    assert len((tmp_path / "kept" / "opencode.jsonl").read_text().splitlines()) == len(one_child(task()).rows)


@pytest.mark.parametrize("place", PLACES)
def test_the_database_is_found_below_whatever_is_named(tmp_path: Path, place: str) -> None:
    """A home, a data folder, or the harness's own folder; the evidence is the extract, under the database's name."""
    database = make_database(tmp_path / "root" / place)
    (tmp_path / "scratch").mkdir()
    seen = {"x-session-id": frozenset({ROOT})}
    capture = read(AdapterInput(tmp_path / "root", seen, scratch=tmp_path / "scratch"))
    assert (kinds(capture), codes(capture)) == (["spawn", "result_delivered", "child_completed"], [])
    [source] = capture.sources
    assert source.source == str(PurePosixPath(place).with_suffix(".jsonl"))
    assert SECRET not in source.path.read_text()
    database.close()


def test_more_sessions_than_one_query_takes(tmp_path: Path) -> None:
    """All 1,200 children below a child come with it."""
    database = make_database(tmp_path / "root" / DATABASES[0], sessions=1200)
    (tmp_path / "scratch").mkdir()
    seen = {"x-session-id": frozenset({ROOT})}
    capture = read(AdapterInput(tmp_path / "root", seen, scratch=tmp_path / "scratch"))
    assert len(capture.participants) == 1202
    database.close()


def test_another_product_s_database_of_the_same_name_is_a_gap(tmp_path: Path) -> None:
    """It has none of the tables."""
    database = sqlite3.connect(tmp_path / "opencode.db")
    database.execute("CREATE TABLE sessions (id TEXT)")
    database.close()
    (tmp_path / "scratch").mkdir()
    capture = read(AdapterInput(tmp_path, {"x-session-id": frozenset({ROOT})}, scratch=tmp_path / "scratch"))
    assert "native_shape_unknown" in codes(capture)
    assert capture.participants == ()


def test_a_link_in_the_database_s_place_is_refused(tmp_path: Path) -> None:
    """It may lead to a user's own database."""
    make_database(tmp_path / "elsewhere.db").close()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "opencode.db").symlink_to(tmp_path / "elsewhere.db")
    (tmp_path / "scratch").mkdir()
    capture = read(AdapterInput(tmp_path / "root", {}, scratch=tmp_path / "scratch"))
    assert codes(capture) == ["file_refused", "native_logs_missing"]


def test_without_scratch_nothing_is_taken_out(native: Path) -> None:
    """The database itself is never evidence."""
    capture = read(AdapterInput(native, {"x-session-id": frozenset({ROOT})}))
    assert codes(capture)[0] == "native_log_unreadable"
    assert capture.sources == ()
