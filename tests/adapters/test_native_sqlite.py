"""Databases as harnesses leave them, and as somebody could forge them: read, or a named gap."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import pytest

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_sqlite import LARGEST_VALUE, Database, Selection, Table, open_database
from roller_capture.vocabulary import AttemptErrorCode

NOTES = Table("note", columns=("id", "owner", "text"), needed=("id",), order=("id",))
OPTIONAL = replace(NOTES, optional=True)
DATABASE = PurePosixPath("store.db")
SECRET = "sk-never-to-be-seen-0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty folder in which the database stands."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """An empty folder for copies."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def make(home: Path, *statements: str, rows: list[tuple[object, ...]] | None = None) -> sqlite3.Connection:
    """A database in the home, still open, with the table `note` unless `statements` make something else of it."""
    connection = sqlite3.connect(home / DATABASE, isolation_level=None)
    for statement in statements or ("CREATE TABLE note (id TEXT, owner TEXT, text TEXT)",):
        connection.execute(statement)
    if rows is not None:
        connection.executemany("INSERT INTO note VALUES (?, ?, ?)", rows)
    return connection


def read(
    home: Path, scratch: Path, selection: Selection | None = None
) -> tuple[list[dict[str, object]] | None, GapLog]:
    """The rows of the selection (default: all notes), or `None` where there is no database; and the gaps."""
    gaps = GapLog()
    with open_database(NativeTree(home, gaps), DATABASE, scratch, gaps) as database:
        rows = None if database is None else [dict(row) for row in database.rows(selection or Selection(NOTES))]
    assert list(scratch.iterdir()) == []
    return rows, gaps


def codes(gaps: GapLog) -> list[str]:
    """The codes of all gaps, in order."""
    return [gap.code.value for gap in gaps.gaps()]


def test_rows_come_in_the_order_asked_for(home: Path, scratch: Path) -> None:
    """Only the allowed columns, whatever else the table has."""
    make(
        home, "CREATE TABLE note (id TEXT, key TEXT, text TEXT)", rows=[("b", SECRET, "2"), ("a", SECRET, "1")]
    ).close()
    assert read(home, scratch)[0] == [{"id": "a", "text": "1"}, {"id": "b", "text": "2"}]


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("how", ["checkpoint", "closed", "plain"])
def test_a_database_that_is_written_to_while_it_is_copied_is_copied_again(
    home: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, times: int, how: str
) -> None:
    """A checkpoint between the two files would take the rows that stand in the log out of both copies. After three
    times SQLite is asked for a backup, unless the database was closed: then it is copied once more."""
    writer = make(home, rows=[("a", "o", "1")])
    if how != "plain":
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("INSERT INTO note VALUES ('b', 'o', '2')")
    copying, left = shutil.copyfileobj, times

    def copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
        nonlocal left
        copying(source, target, length)
        if left and target.name == str(scratch / "copy-0" / "db"):
            left -= 1
            writer.execute(f"INSERT INTO note VALUES ('n{left}', 'o', '3')")
            if how == "checkpoint":
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            elif how == "closed" and not left:
                writer.close()

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    rows, gaps = read(home, scratch)
    assert {row["id"] for row in rows or ()} == {
        "a",
        "b",
        *(f"n{times - 1 - number}" for number in range(min(times, 3))),
    }
    assert codes(gaps) == []
    writer.close()


def test_rows_without_an_order_come_as_they_were_inserted(home: Path, scratch: Path) -> None:
    """By their row ids."""
    make(home, rows=[("b", "o", "x"), ("a", "o", "x")]).close()
    rows, _ = read(home, scratch, Selection(Table("note", columns=("id",))))
    assert rows == [{"id": "b"}, {"id": "a"}]


def test_rows_that_are_still_in_the_log_are_read(home: Path, scratch: Path) -> None:
    """A writer that ended without a checkpoint leaves all of its rows in the write-ahead log."""
    with closing(
        make(home, "PRAGMA journal_mode = WAL", "CREATE TABLE note (id TEXT, owner TEXT, text TEXT)")
    ) as writer:
        writer.execute("INSERT INTO note VALUES ('a', 'o', 'x')")
        assert (home / "store.db-wal").stat().st_size > 0
        assert read(home, scratch)[0] == [{"id": "a", "owner": "o", "text": "x"}]


def test_nothing_in_the_home_changes(home: Path, scratch: Path) -> None:
    """Neither the database nor its log is written to, and no file is added beside them."""
    with closing(make(home, "PRAGMA journal_mode = WAL", "CREATE TABLE note (id TEXT, owner TEXT, text TEXT)")):
        before = {path.name: path.read_bytes() for path in home.iterdir() if path.suffix != ".db-shm"}
        read(home, scratch)
        assert {path.name: path.read_bytes() for path in home.iterdir() if path.suffix != ".db-shm"} == before


def test_no_database_is_no_gap_of_the_reader(home: Path, scratch: Path) -> None:
    """Whether one had to be there is for the adapter to say."""
    rows, gaps = read(home, scratch)
    assert (rows, codes(gaps)) == (None, [])


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1500])


def _half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _other_file(path: Path) -> None:
    path.write_bytes(b"no database at all " * 300)


def _overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_truncated, _half, _other_file, _overwritten])
def test_a_damaged_database_is_a_named_gap(home: Path, scratch: Path, damage: Callable[[Path], None]) -> None:
    """What could be read before the damage may be there; that something is missing is said."""
    make(home, rows=[(f"{number:06d}", "o", "text " * 50) for number in range(2000)]).close()
    damage(home / DATABASE)
    rows, gaps = read(home, scratch)
    assert codes(gaps) == ["native_log_unreadable"]
    assert rows is None or len(rows) < 2000


def test_an_empty_file_has_no_tables(home: Path, scratch: Path) -> None:
    """SQLite takes it for an empty database."""
    (home / DATABASE).touch()
    rows, gaps = read(home, scratch)
    assert (rows, codes(gaps)) == ([], ["native_shape_unknown"])


def test_a_lost_log_leaves_what_the_database_holds(home: Path, scratch: Path) -> None:
    """A log that is not there cannot be told from one that was never needed."""
    with closing(
        make(home, "PRAGMA journal_mode = WAL", "CREATE TABLE note (id TEXT, owner TEXT, text TEXT)")
    ) as writer:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        writer.execute("INSERT INTO note VALUES ('late', 'o', 'x')")
        copy = home.parent / "copy"
        copy.mkdir()
        (copy / DATABASE).write_bytes((home / DATABASE).read_bytes())
    rows, gaps = read(copy, scratch)
    assert (rows, codes(gaps)) == ([], [])


def test_a_torn_log_gives_its_whole_transactions(home: Path, scratch: Path) -> None:
    """A log that was copied while it was written to ends in a frame that its checksum tells to be torn."""
    with closing(
        make(home, "PRAGMA journal_mode = WAL", "CREATE TABLE note (id TEXT, owner TEXT, text TEXT)")
    ) as writer:
        writer.execute("INSERT INTO note VALUES ('a', 'o', 'x')")
        whole = (home / "store.db-wal").read_bytes()
        writer.execute("INSERT INTO note VALUES ('b', 'o', 'x')")
        copy = home.parent / "copy"
        copy.mkdir()
        (copy / DATABASE).write_bytes((home / DATABASE).read_bytes())
        (copy / "store.db-wal").write_bytes((home / "store.db-wal").read_bytes()[: len(whole) + 1000])
    assert read(copy, scratch)[0] == [{"id": "a", "owner": "o", "text": "x"}]


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("CREATE TABLE other (id TEXT)",), id="no-such-table"),
        pytest.param((f"CREATE VIEW note AS SELECT '{SECRET}' AS id, 'o' AS owner, 't' AS text",), id="a-view"),
        pytest.param(("CREATE TABLE note (owner TEXT, text TEXT)",), id="no-needed-column"),
        pytest.param(
            (f"CREATE TABLE note (owner TEXT, text TEXT, id TEXT GENERATED ALWAYS AS ('{SECRET}') VIRTUAL)",),
            id="a-computed-column",
        ),
    ],
)
def test_a_table_of_another_shape_is_not_read(home: Path, scratch: Path, statements: tuple[str, ...]) -> None:
    """It is a named gap, and nothing that the database computes comes out."""
    make(home, *statements).close()
    rows, gaps = read(home, scratch)
    assert (rows, codes(gaps)) == ([], ["native_shape_unknown"])


def test_an_optional_table_may_be_missing(home: Path, scratch: Path) -> None:
    """Then it has no rows, and nobody misses them."""
    make(home, "CREATE TABLE other (id TEXT)").close()
    rows, gaps = read(home, scratch, Selection(OPTIONAL))
    assert (rows, codes(gaps)) == ([], [])


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE NOTE (owner TEXT)", f"CREATE VIEW Note AS SELECT '{SECRET}' AS id"],
    ids=["no-needed-column", "a-view"],
)
def test_an_optional_table_of_another_shape_is_a_gap(home: Path, scratch: Path, statement: str) -> None:
    """It is there, in whatever case its name is written, and holds what we do not know how to read."""
    make(home, statement).close()
    rows, gaps = read(home, scratch, Selection(OPTIONAL))
    assert (rows, codes(gaps)) == ([], ["native_shape_unknown"])


def test_a_column_that_is_not_there_is_left_out(home: Path, scratch: Path) -> None:
    """Older versions of a harness lack some; only needed ones are missed."""
    make(home, "CREATE TABLE note (id TEXT)", "INSERT INTO note VALUES ('a')").close()
    rows, gaps = read(home, scratch)
    assert (rows, codes(gaps)) == ([{"id": "a"}], [])


def test_a_quoted_name_is_a_name(home: Path, scratch: Path) -> None:
    """Names are never taken for SQL."""
    make(home, 'CREATE TABLE "no""te; --" ("i""d" TEXT)', """INSERT INTO "no""te; --" VALUES ('a')""").close()
    rows, _ = read(home, scratch, Selection(Table('no"te; --', columns=('i"d',)), 'i"d', ["a"]))
    assert rows == [{'i"d': "a"}]


def test_a_huge_value_costs_its_own_row_only(home: Path, scratch: Path) -> None:
    """It is named; the rows before and behind it are read, in their order."""
    with closing(make(home, rows=[("a", "o", "x")])) as writer:
        writer.execute("INSERT INTO note VALUES ('b', 'o', zeroblob(?))", (LARGEST_VALUE + 1,))
        writer.execute("INSERT INTO note VALUES ('c', 'o', 'x')")
    rows, gaps = read(home, scratch)
    assert rows is not None
    assert [row["id"] for row in rows] == ["a", "c"]
    assert codes(gaps) == ["native_line_unreadable"]


def test_a_column_may_have_the_name_of_the_row_number(home: Path, scratch: Path) -> None:
    """It is a column like any other."""
    make(home, "CREATE TABLE note (id TEXT, rowid TEXT)", "INSERT INTO note VALUES ('a', 'x'), ('b', 'x')").close()
    rows, gaps = read(home, scratch, Selection(Table("note", columns=("id", "rowid"))))
    assert (rows, codes(gaps)) == ([{"id": "a", "rowid": "x"}, {"id": "b", "rowid": "x"}], [])


@pytest.mark.parametrize(
    "columns",
    ["id TEXT PRIMARY KEY) WITHOUT ROWID", "id TEXT, rowid TEXT, _rowid_ TEXT, oid TEXT)"],
    ids=["none", "names-taken"],
)
def test_a_table_without_row_numbers_is_read(home: Path, scratch: Path, columns: str) -> None:
    """In the order asked for."""
    make(home, f"CREATE TABLE note ({columns}", "INSERT INTO note (id) VALUES ('b'), ('a')").close()
    rows, gaps = read(home, scratch, Selection(Table("note", columns=("id",), order=("id",)), "id", ["a", "b"]))
    assert (rows, codes(gaps)) == ([{"id": "a"}, {"id": "b"}], [])


def test_types_survive(home: Path, scratch: Path) -> None:
    """Numbers and nothing as they are, a BLOB as base64, text that is no UTF-8 with a replacement."""
    with closing(make(home, "CREATE TABLE note (id, owner, text)")) as writer:
        writer.execute("INSERT INTO note VALUES (1, NULL, x'00ff')")
        writer.execute("INSERT INTO note VALUES (2, 2.5, CAST(x'61ff62' AS TEXT))")
    assert read(home, scratch)[0] == [
        {"id": 1, "owner": None, "text": {"base64": "AP8="}},
        {"id": 2, "owner": 2.5, "text": "a�b"},
    ]


def test_a_table_says_how_its_blobs_are_read(home: Path, scratch: Path) -> None:
    """By column; text in the same column stays text."""
    with closing(make(home)) as writer:
        writer.execute("INSERT INTO note VALUES ('a', 'o', x'6869')")
        writer.execute("INSERT INTO note VALUES ('b', 'o', 'text')")
    table = Table("note", columns=("id", "text"), order=("id",), blobs={"text": len})
    assert read(home, scratch, Selection(table))[0] == [{"id": "a", "text": 2}, {"id": "b", "text": "text"}]


def test_more_values_than_one_query_takes(home: Path, scratch: Path) -> None:
    """All rows of 1,200 owners, and of nobody else."""
    make(home, rows=[(f"{number:05d}", f"o{number}", "x") for number in range(1500)]).close()
    rows, _ = read(home, scratch, Selection(NOTES, "owner", [f"o{number}" for number in range(1200)]))
    assert rows is not None
    assert {row["id"] for row in rows} == {f"{number:05d}" for number in range(1200)}
    assert len(rows) == 1200


def test_no_value_selects_nothing(home: Path, scratch: Path) -> None:
    """An empty list of wanted sessions is not "all of them"."""
    make(home, rows=[("a", "o", "x")]).close()
    assert read(home, scratch, Selection(NOTES, "owner", []))[0] == []


def test_a_value_that_no_text_can_be_selects_nothing(home: Path, scratch: Path) -> None:
    """Ids come from headers and logs: half a surrogate pair must not end the reading."""
    make(home, rows=[("a", "o", "x")]).close()
    rows, gaps = read(home, scratch, Selection(NOTES, "owner", ["\ud800", "o"]))
    assert (rows, codes(gaps)) == ([{"id": "a", "owner": "o", "text": "x"}], [])


def test_a_column_to_select_by_must_be_there(home: Path, scratch: Path) -> None:
    """Without it the wanted rows cannot be told from the others, so none is read."""
    make(home, "CREATE TABLE note (id TEXT, text TEXT)", f"INSERT INTO note VALUES ('a', '{SECRET}')").close()
    rows, gaps = read(home, scratch, Selection(NOTES, "owner", ["o"]))
    assert (rows, codes(gaps)) == ([], ["native_shape_unknown"])


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-journal"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_regular_file_is_refused(home: Path, scratch: Path, tmp_path: Path, name: str, kind: str) -> None:
    """Neither the database nor its log may lead out of the home, or be waited for; without its log, what a database
    holds need not be of one moment."""
    outside = tmp_path / "outside.db"
    sqlite3.connect(outside).close()
    if name != "store.db":
        make(home, rows=[("a", "o", "x")]).close()
    if kind == "link":
        (home / name).symlink_to(outside)
    else:
        os.mkfifo(home / name)
    rows, gaps = read(home, scratch)
    assert codes(gaps) == [AttemptErrorCode.FILE_REFUSED]
    assert rows is None


def test_an_extract_is_private_json_lines(home: Path, scratch: Path) -> None:
    """A line for each row, in the order of the selections, in a new file that others cannot read."""
    make(home, rows=[("a", "o", "x"), ("b", "p", "line\nbreak")]).close()
    target = scratch.parent / "kept" / "notes.jsonl"
    with _opened(home, scratch) as database:
        database.extract(target, Selection(NOTES, "owner", ["p"]), Selection(NOTES, "owner", ["o"]))
    lines = target.read_bytes().split(b"\n")
    assert [json.loads(line)["id"] for line in lines[:-1]] == ["b", "a"]
    assert json.loads(lines[0]) == {"table": "note", "id": "b", "owner": "p", "text": "line\nbreak"}
    assert target.stat().st_mode & 0o777 == 0o600


def test_an_extract_replaces_nothing(home: Path, scratch: Path) -> None:
    """A file that is there already is not ours to overwrite."""
    make(home, rows=[]).close()
    target = scratch.parent / "notes.jsonl"
    target.write_text("mine")
    with _opened(home, scratch) as database, pytest.raises(FileExistsError):
        database.extract(target, Selection(NOTES))
    assert target.read_text() == "mine"


@contextmanager
def _opened(home: Path, scratch: Path) -> Iterator[Database]:
    gaps = GapLog()
    with open_database(NativeTree(home, gaps), DATABASE, scratch, gaps) as database:
        assert database is not None
        yield database
