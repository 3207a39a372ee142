"""Tests of extracts and homes as they should not be: every oddity has a name, and nothing is raised."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roller_capture.vocabulary import Role
from tests.adapters.hermes.extracts import CHILD, OTHER, ROOT, Extracts, gap_codes, read_folder, session

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = ("id", "session_id", "parent_session_id", "model_config", "role", "content", "tool_calls", "tool_call_id")
KEYS = ("event", "session_id", "parent_session_id", "tool_call_id", "subagent_id", "request_id", "turn_id", "origin")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(st.sampled_from(COLUMNS), JSON, max_size=6), max_size=6),
    events=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), max_size=6),
    table=st.sampled_from(["sessions", "messages", "async_delegations"]),
)
def test_any_types_anywhere_raise_nothing(
    tmp_path: Path, rows: list[dict[str, object]], events: list[dict[str, object]], table: str
) -> None:
    """Whatever stands in a column or an event; the run beside it stays whole."""
    extracts = Extracts()
    extracts.state += [{"table": table, **row} for row in rows]
    extracts.plugin += events
    native = extracts.read(tmp_path)
    assert {ROOT, CHILD} <= {item.key for item in native.participants}


@pytest.mark.parametrize("name", ["state.jsonl", "plugin.jsonl"])
@pytest.mark.parametrize(
    "damage", [b'{"table": "mess', b"\0\0\0\n", b"[1]\n", b"\xff\xfe\n", b"[" * 5000 + b"\n", b'"text"\n']
)
def test_a_damaged_line_costs_that_line(tmp_path: Path, name: str, damage: bytes) -> None:
    """Torn, binary, too deep, no object: named, and the rest is as it was."""
    folder = Extracts().write(tmp_path)
    with (folder / name).open("ab") as stream:
        stream.write(damage)
    native = read_folder(folder, ROOT, CHILD)
    assert gap_codes(native) == {"native_line_unreadable"}
    assert len(native.relations) == 3


def test_sessions_that_are_each_others_parents_have_none(tmp_path: Path) -> None:
    """No end, no endless loop; the run beside them is whole."""
    extracts = Extracts()
    others = [f"20261101_13000{number}_dddddd" for number in range(3)]
    extracts.state += [session(one, other) for one, other in zip(others, others[1:] + others[:1], strict=True)]
    native = extracts.read(tmp_path)
    assert {item.parent_key for item in native.participants if item.key in others} == {None}
    assert "native_shape_unknown" in gap_codes(native)
    assert len(native.relations) == 3


def test_sessions_that_continue_each_other_in_a_circle_are_all_there(tmp_path: Path) -> None:
    """A rotation that comes back to its beginning."""
    extracts = Extracts()
    ids = [f"20261101_13000{number}_dddddd" for number in range(2)]
    for one, other in (ids, ids[::-1]):
        extracts.state.append({**session(one, end_reason="compression"), "parent_session_id": other})
    native = extracts.read(tmp_path, launcher={"root_native_id": ROOT})
    assert {one for item in native.participants for one in item.native_ids["session_id"]} == {ROOT, CHILD, *ids}


def test_two_sessions_that_continue_the_same_one_stay_apart(tmp_path: Path) -> None:
    """Which of them is the same executor is not known."""
    extracts = Extracts()
    extracts.state[0]["end_reason"] = "compression"
    for one in ("20261101_130001_dddddd", "20261101_130002_dddddd"):
        extracts.state.append({**session(one), "parent_session_id": ROOT})
    native = extracts.read(tmp_path, launcher={"root_native_id": ROOT})
    assert {item.native_ids["session_id"] for item in native.participants if item.role is Role.ROOT} == {(ROOT,)}
    assert "native_id_not_unique" in gap_codes(native)


def test_a_child_without_its_parent_is_named(tmp_path: Path) -> None:
    """It keeps its calls and has no parent."""
    extracts = Extracts()
    extracts.state.append(session(OTHER, "20250101_000000_eeeeee"))
    native = extracts.read(tmp_path, ROOT, CHILD, OTHER)
    [child] = [item for item in native.participants if item.key == OTHER]
    assert (child.role, child.parent_key) == (Role.CHILD, None)
    assert gap_codes(native) == {"participant_log_missing"}


def test_a_link_in_place_of_an_extract_is_refused(tmp_path: Path) -> None:
    """What it leads to is not read."""
    folder = Extracts().write(tmp_path / "native")
    (folder / "state.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (folder / "state.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    native = read_folder(folder, ROOT, CHILD)
    assert native.participants == ()
    assert {"file_refused", "native_logs_missing"} <= gap_codes(native)


def _database(home: Path) -> sqlite3.Connection:
    home.mkdir(parents=True)
    return sqlite3.connect(home / "state.db")


def _no_database(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "state.db").write_bytes(b"this is no database" * 400)


def _a_link(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "state.db").symlink_to("/etc/passwd")


def _a_pipe(home: Path) -> None:
    home.mkdir(parents=True)
    os.mkfifo(home / "state.db")


def _other_tables(home: Path) -> None:
    with _database(home) as connection:
        connection.execute("CREATE TABLE sessions (name TEXT)")
    connection.close()


def _views(home: Path) -> None:
    with _database(home) as connection:
        connection.execute("CREATE VIEW sessions AS SELECT 1 AS id, 2 AS source, 3 AS parent_session_id")
    connection.close()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_no_database, "native_log_unreadable"),
        (_a_link, "file_refused"),
        (_a_pipe, "file_refused"),
        (_other_tables, "native_shape_unknown"),
        (_views, "native_shape_unknown"),
    ],
)
def test_a_home_without_a_usable_database_is_named(tmp_path: Path, make: Callable[[Path], None], code: str) -> None:
    """Nothing is claimed, and coverage is not complete."""
    make(tmp_path / "home" / ".hermes")
    (tmp_path / "scratch").mkdir()
    native = read_folder(tmp_path / "home", ROOT, scratch=tmp_path / "scratch")
    assert (native.participants, native.coverage.outputs) == ((), None)
    assert code in gap_codes(native)


def test_a_home_without_scratch_is_not_read(tmp_path: Path) -> None:
    """A database is only opened in a copy."""
    _other_tables(tmp_path / ".hermes")
    assert gap_codes(read_folder(tmp_path, ROOT)) == {"native_logs_missing", "participant_log_missing"}


def test_the_lines_are_json(tmp_path: Path) -> None:
    """The extracts by hand are shaped like real ones: one object a line, each with its table or event."""
    folder = Extracts().write(tmp_path)
    assert all("table" in json.loads(line) for line in (folder / "state.jsonl").read_bytes().splitlines())
    assert all("event" in json.loads(line) for line in (folder / "plugin.jsonl").read_bytes().splitlines())
