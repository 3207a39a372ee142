"""A database that somebody writes to is copied as it was at one moment, or not at all; its home stays as it was."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import IO, BinaryIO, NamedTuple

import pytest

from roller_capture.adapters import native_sqlite_copy
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_sqlite_copy import copy_database

DATABASE = "store.db"
PAGES = 300
MODES = ("wal", "delete")

WRITER = f"""
import sqlite3, sys
database, mode, always = sys.argv[1:]
connection = sqlite3.connect(database, isolation_level=None, timeout=0 if always == "no" else 600)
connection.execute(f"PRAGMA journal_mode = {{mode}}")
if not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
    connection.executescript("BEGIN; CREATE TABLE page (stamp, filler); CREATE TABLE total (stamp);"
                             "INSERT INTO total VALUES (0);")
    connection.executemany("INSERT INTO page VALUES (0, zeroblob(3000))", [()] * {PAGES})
    connection.execute("COMMIT")

def write():
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE page SET stamp = stamp + 1")
    connection.execute("UPDATE total SET stamp = stamp + 1")
    connection.execute("COMMIT")

write()
print("ready", flush=True)
while always == "yes":
    write()
for line in sys.stdin:
    try:
        exec(line)
        print("done", flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
"""
"""Every transaction leaves one stamp in all rows of both tables, which lie on hundreds of pages."""


class Writer(NamedTuple):
    """Another process that has the database open."""

    process: "subprocess.Popen[str]"
    to: IO[str]
    said: IO[str]

    def run(self, statement: str) -> str:
        """Has it run a line of Python, and returns what came of it."""
        print(statement, file=self.to, flush=True)
        return self.said.readline().strip()

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def writing(home: Path, mode: str, *, always: bool = False, name: str = DATABASE) -> Iterator[Writer]:
    """A process that writes when it is told to, or `always`, to a database in the home that has been written."""
    command = [sys.executable, "-c", WRITER, str(home / name), mode, "yes" if always else "no"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer = Writer(process, process.stdin, process.stdout)
        try:
            assert writer.said.readline() == "ready\n"
            yield writer
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty folder in which the database stands."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def only_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if files always changed while they are copied."""
    monkeypatch.setattr(native_sqlite_copy, "_copy_files", _changed)


def _changed(*_: object) -> bool:
    raise native_sqlite_copy._UnsettledError("it is being written to")


def stamps(home: Path, name: str = DATABASE) -> tuple[set[int] | None, list[str]]:
    """The stamps in a copy of the database, `None` where there is none; and what the gaps say."""
    gaps = GapLog()
    folder = home.parent / "scratch"
    folder.mkdir()
    try:
        copy = copy_database(NativeTree(home, gaps), PurePosixPath(name), folder, gaps)
        if copy is None:
            return None, [gap.message for gap in gaps.gaps()]
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) FROM page").fetchone() == (PAGES,)
            found = {stamp for (stamp,) in connection.execute("SELECT stamp FROM page UNION SELECT stamp FROM total")}
        return found, [gap.message for gap in gaps.gaps()]
    finally:
        shutil.rmtree(folder)


def contents(home: Path) -> dict[str, tuple[bytes, int]]:
    """What lies in the home, and when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.iterdir()}


def meanwhile(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Does something after the first page of a backup."""
    limit = native_sqlite_copy._limit
    monkeypatch.setattr(native_sqlite_copy, "_PAGES_AT_ONCE", 1)

    def limited(seconds: float) -> Callable[[int, int, int], None]:
        progress, left = limit(seconds), [what]

        def called(status: int, remaining: int, total: int) -> None:
            if left:
                left.pop()()
            progress(status, remaining, total)

        return called

    monkeypatch.setattr(native_sqlite_copy, "_limit", limited)


@pytest.mark.parametrize("mode", MODES)
def test_a_database_that_is_written_to_all_the_time_is_read_as_of_one_moment(home: Path, mode: str) -> None:
    """And nothing is added to its home."""
    with writing(home, mode, always=True):
        for _ in range(3):
            found, gaps = stamps(home)
            assert found is not None, gaps
            assert (len(found), gaps) == (1, [])
        usual = {"wal": ("-wal", "-shm"), "delete": ("-journal",)}[mode]
        assert {path.name for path in home.iterdir()} <= {DATABASE, *(f"{DATABASE}{suffix}" for suffix in usual)}


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("mode", MODES)
def test_a_backup_is_of_one_moment(home: Path, mode: str) -> None:
    """Whatever is written meanwhile."""
    with writing(home, mode, always=True):
        for _ in range(3):
            found, gaps = stamps(home)
            assert found is not None, gaps
            assert (len(found), gaps) == (1, [])


@pytest.mark.usefixtures("only_backup")
def test_nobody_waits_for_a_backup_beside_a_write_ahead_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written during it comes to be, and is not in it; a checkpoint neither."""
    with writing(home, "wal") as writer:
        told: list[str] = []
        meanwhile(
            monkeypatch,
            lambda: told.extend(map(writer.run, ("write()", 'connection.execute("PRAGMA wal_checkpoint")', "write()"))),
        )
        assert stamps(home) == ({1}, [])
        assert told == ["done", "done", "done"]
        assert stamps(home) == ({3}, [])


@pytest.mark.usefixtures("only_backup")
def test_a_backup_of_a_database_with_a_rollback_journal_lets_nobody_write(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even after this process has closed another descriptor of it, which takes all POSIX locks from it."""
    with writing(home, "delete") as writer:
        told: list[str] = []

        def what() -> None:
            (home / DATABASE).read_bytes()
            told.append(writer.run("write()"))

        meanwhile(monkeypatch, what)
        assert stamps(home) == ({1}, [])
        assert told == ["database is locked"]
        assert writer.run('connection.execute("COMMIT")') == "done"


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize(
    ("mode", "statement", "comes"),
    [("delete", "write()", "database is locked"), ("wal", "write()", "done"), ("wal", "connection.close()", "done")],
)
def test_a_database_can_be_opened_that_a_look_has_found_open(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: str, statement: str, comes: str
) -> None:
    """Whatever its writer does in between: it cannot wait for us, with SQLite's lock waiting for it, nor take the log
    away as it closes, with SQLite making a new one."""
    told: list[str] = []
    connected = native_sqlite_copy._connected
    with writing(home, mode) as writer:
        names = {path.name for path in home.iterdir()}

        def late(place: Path, database: BinaryIO) -> sqlite3.Connection:
            told.append(writer.run(statement))
            return connected(place, database)

        monkeypatch.setattr(native_sqlite_copy, "_connected", late)
        assert stamps(home) == ({2 if (mode, statement) == ("wal", "write()") else 1}, [])
        assert told == [comes]
        assert {path.name.removesuffix("-journal") for path in home.iterdir()} == names


@pytest.mark.parametrize("ends", [True, False])
def test_nothing_is_mixed_with_a_copy_that_was_made_before(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """Above all no log, whose pages SQLite would put in the place of newer ones."""
    copying = shutil.copyfileobj
    with writing(home, "wal") as writer:

        def copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
            copying(source, target, length)
            if Path(target.name).name == "db-wal":
                assert writer.run("write()") == "done"
                assert not ends or writer.run("connection.close()") == "done"

        monkeypatch.setattr(shutil, "copyfileobj", copy)
        assert stamps(home) == ({2 if ends else 4}, [])


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("end", [Writer.kill, None], ids=["killed", "alive"])
def test_a_backup_changes_nothing_in_the_home(home: Path, end: Callable[[Writer], None] | None) -> None:
    """Neither a byte nor a time of any file, the shared memory of a database that somebody left included."""
    with writing(home, "wal") as writer:
        if end is not None:
            end(writer)
        before = contents(home)
        assert set(before) == {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"}
        assert stamps(home) == ({1}, [])
        assert contents(home) == before


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("without", [("-shm",), ("-wal",), ("-wal", "-shm")], ids="".join)
def test_a_database_that_nobody_has_open_is_not_opened(home: Path, without: tuple[str, ...]) -> None:
    """SQLite would make what is missing."""
    with writing(home, "wal") as writer:
        writer.kill()
    for suffix in without:
        (home / f"{DATABASE}{suffix}").unlink()
    before = contents(home)
    found, [gap] = stamps(home)
    assert (found, contents(home)) == (None, before)
    assert gap.startswith("no copy of one moment can be made: ")
    assert gap.endswith("; nobody has it open any more")


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("left", [b"", b"SQLite format 3\x00", b"no database at all " * 300], ids=len)
def test_what_is_no_database_is_not_opened(home: Path, left: bytes) -> None:
    """Beside one without a byte SQLite would remove a log."""
    with writing(home, "wal") as writer:
        writer.kill()
    (home / DATABASE).write_bytes(left)
    before = contents(home)
    found, [gap] = stamps(home)
    assert (found, contents(home)) == (None, before)
    assert gap.endswith("; it has no header of a database")


@pytest.mark.usefixtures("only_backup")
def test_a_damaged_database_is_a_named_gap(home: Path) -> None:
    """Whatever SQLite says of it."""
    with writing(home, "delete") as writer:
        writer.kill()
    data = (home / DATABASE).read_bytes()
    (home / DATABASE).write_bytes(data[:16] + b"\x00\x07" + data[18:])  # a size that no page has
    found, [gap] = stamps(home)
    assert found is None
    assert gap.endswith("; SQLite cannot back it up (SQLITE_NOTADB)")


@pytest.mark.usefixtures("only_backup")
def test_a_transaction_that_was_not_ended_is_not_undone_in_the_home(home: Path) -> None:
    """Only a copy with its journal may be mended."""
    before = _killed_in_a_transaction(home)
    found, [gap] = stamps(home)
    assert (found, contents(home)) == (None, before)
    assert gap.endswith("; SQLite cannot back it up (SQLITE_READONLY_ROLLBACK)")


def _killed_in_a_transaction(home: Path) -> dict[str, tuple[bytes, int]]:
    """A database in which half of a transaction stands, with its journal; what lies in the home then."""
    with writing(home, "delete") as writer:
        writer.run('connection.execute("PRAGMA cache_size = 5")')
        writer.run('connection.execute("BEGIN")')
        assert writer.run('connection.execute("UPDATE page SET stamp = 77")') == "done"
        writer.kill()
    assert (home / f"{DATABASE}-journal").stat().st_size > 100_000
    return contents(home)


def test_a_transaction_that_was_not_ended_is_undone_in_a_copy(home: Path) -> None:
    """By its journal, as SQLite would when it opens the database itself; the home keeps both as they are."""
    before = _killed_in_a_transaction(home)
    assert stamps(home) == ({1}, [])
    assert contents(home) == before
    (home / f"{DATABASE}-journal").unlink()
    with closing(sqlite3.connect(home / DATABASE)) as torn:
        assert len(torn.execute("SELECT DISTINCT stamp FROM page").fetchall()) == 2


def test_a_journal_that_names_a_further_file_is_not_followed(home: Path, tmp_path: Path) -> None:
    """SQLite removes a file of that name once it thinks that nobody needs it."""
    before = _killed_in_a_transaction(home)
    name = os.fsencode(tmp_path / "precious")
    (tmp_path / "precious").write_bytes(b"")
    tail = [len(name).to_bytes(4, "big"), sum(name).to_bytes(4, "big"), bytes.fromhex("d9d505f920a163d7")]
    with (home / f"{DATABASE}-journal").open("ab") as journal:
        journal.write(b"".join([(0x40000000 // 4096 + 1).to_bytes(4, "big"), name, *tail]))
    before = contents(home)
    found, [gap] = stamps(home)
    assert (found, contents(home)) == (None, before)
    assert "its rollback journal names a further file" in gap
    assert (tmp_path / "precious").exists()


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("mode", MODES)
def test_a_writer_that_lets_nobody_in_is_a_named_gap(home: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while; the writer does not notice."""
    monkeypatch.setattr(native_sqlite_copy, "_PATIENCE", 0.05)
    with writing(home, mode) as writer:
        writer.run('connection.execute("PRAGMA locking_mode = EXCLUSIVE")')
        writer.run('connection.execute("PRAGMA journal_mode = DELETE")')
        assert writer.run("write()") == "done"
        found, [gap] = stamps(home)
        assert found is None
        assert gap.endswith("; it is locked by who writes to it")
        assert writer.run("write()") == "done"


@pytest.mark.usefixtures("only_backup")
def test_a_database_that_is_being_closed_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer versions of SQLite than the one here take these bytes at once, and not the one before them first."""
    monkeypatch.setattr(native_sqlite_copy, "_PATIENCE", 0.05)
    with writing(home, "wal") as writer:
        writer.run("import fcntl; stream = open(database, 'rb+')")
        assert writer.run("fcntl.lockf(stream, fcntl.LOCK_EX, 510, 0x40000002)") == "done"
        found, [gap] = stamps(home)
        assert found is None
        assert gap.endswith("; it is locked by who writes to it")


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("mode", MODES)
def test_a_backup_that_takes_too_long_is_a_named_gap(home: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards nobody waits any more."""
    monkeypatch.setattr(native_sqlite_copy, "_PAGES_AT_ONCE", 1)
    monkeypatch.setattr(native_sqlite_copy, "_LONGEST_READ", {True: -1.0, False: -1.0})
    with writing(home, mode) as writer:
        found, [gap] = stamps(home)
        assert found is None
        assert gap.endswith("; reading it takes longer than its writers should wait")
        assert writer.run("write()") == "done"


@pytest.mark.parametrize("way", ["_copy_files", "_back_up"])
def test_no_room_is_a_named_gap(home: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out before the first byte is copied: a file can say that it is far longer than it is."""
    if way == "_back_up":
        monkeypatch.setattr(native_sqlite_copy, "_copy_files", _changed)
    with writing(home, "wal"):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9))
        assert stamps(home) == (None, [f"cannot be copied: {os.strerror(errno.ENOSPC)}"])


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [b"a?mode=rwc#%41&.db", b"\xff \xe4.db", b"'\";--.db", b"-.db"])
def test_any_name_is_a_name(home: Path, name: bytes, mode: str) -> None:
    """It stands in an address, but says nothing there."""
    with writing(home, mode, name=os.fsdecode(name)):
        before = sorted(path.name for path in home.iterdir())
        assert stamps(home, os.fsdecode(name)) == ({1}, [])
        assert sorted(path.name for path in home.iterdir()) == before


@pytest.mark.usefixtures("only_backup")
def test_another_file_that_comes_in_the_place_of_a_database_is_not_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder on the way becomes a link after it was looked at: SQLite would follow it."""
    (home / "inner").mkdir()
    (tmp_path / "outside").mkdir()
    with writing(home / "inner", "wal"), writing(tmp_path / "outside", "wal") as other:
        other.kill()
        (tmp_path / "outside" / f"{DATABASE}-shm").unlink()
        before = contents(tmp_path / "outside")
        place = NativeTree.place

        def swapped(tree: NativeTree, path: PurePosixPath) -> Path:
            if not (home / "inner").is_symlink():
                (home / "inner").rename(home / "moved")
                (home / "inner").symlink_to(tmp_path / "outside")
            return place(tree, path)

        monkeypatch.setattr(NativeTree, "place", swapped)
        found, [gap] = stamps(home, f"inner/{DATABASE}")
        assert found is None
        assert gap.endswith("; another file has come in its place")
        assert contents(tmp_path / "outside") == before


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("there", [True, False], ids=["another", "gone"])
def test_other_files_that_come_beside_a_database_are_not_read(
    home: Path, suffix: str, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    """Between the look at them and the end of opening."""
    begin = native_sqlite_copy._begin

    def swapped(source: sqlite3.Connection, beside: list[Path]) -> None:
        source.execute("PRAGMA schema_version").fetchall()
        place = home / f"{DATABASE}{suffix}"
        place.rename(home / "old")
        if there:
            shutil.copyfile(home / "old", place)
        begin(source, beside)

    monkeypatch.setattr(native_sqlite_copy, "_begin", swapped)
    with writing(home, "wal"):
        found, [gap] = stamps(home)
        assert found is None
        assert gap.endswith("; another file has come in the place of one beside it" if there else "beside it is gone")


@pytest.mark.usefixtures("only_backup")
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_lies_beside_is_a_regular_file_or_is_not_opened(home: Path, suffix: str, kind: str) -> None:
    """A pipe would be waited for."""
    with writing(home, "wal") as writer:
        writer.kill()
    place = home / f"{DATABASE}{suffix}"
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to(home / DATABASE)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    found, [gap] = stamps(home)
    assert found is None
    assert gap.endswith("; what lies beside it is no regular file")


@pytest.mark.usefixtures("only_backup")
def test_a_linked_database_is_refused(home: Path, tmp_path: Path) -> None:
    """By the tree, before SQLite sees it."""
    (tmp_path / "outside").mkdir()
    with writing(tmp_path / "outside", "wal"):
        (home / DATABASE).symlink_to(tmp_path / "outside" / DATABASE)
        gaps, folder = GapLog(), tmp_path / "folder"
        folder.mkdir()
        assert not native_sqlite_copy._back_up(NativeTree(home, gaps), PurePosixPath(DATABASE), folder)
        assert list(folder.iterdir()) == []
    assert [gap.code for gap in gaps.gaps()] == ["file_refused"]


def test_a_look_at_files_is_older_than_a_tick_of_the_clock_when_they_are_copied(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes within one tick leave one time."""
    events: list[str] = []
    copying, state = shutil.copyfileobj, native_sqlite_copy._state
    monkeypatch.setattr(time, "sleep", lambda seconds: events.append("wait" if seconds >= 0.02 else "short"))

    def copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
        events.append("copy")
        copying(source, target, length)

    def look(stream: BinaryIO) -> tuple[int, ...]:
        events.append("look")
        return state(stream)

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    monkeypatch.setattr(native_sqlite_copy, "_state", look)
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        connection.executescript("CREATE TABLE page (stamp); CREATE TABLE total (stamp)")
        connection.executemany("INSERT INTO page VALUES (1)", [()] * PAGES)
        connection.commit()
    assert stamps(home) == ({1}, [])
    assert events == ["look", "wait", "copy", "look"]


def test_a_database_that_is_removed_while_it_is_copied_is_a_named_gap(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there, after all; without one to begin with, whether there should be is for others to say."""
    copying = shutil.copyfileobj
    with writing(home, "wal") as writer:
        writer.kill()

    def copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
        copying(source, target, length)
        (home / DATABASE).unlink(missing_ok=True)

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    told = "no copy of one moment can be made: it is being written to; it can be opened no more"
    assert stamps(home) == (None, [told])
    assert stamps(home) == (None, [])


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_file_that_comes_beside_a_database_while_it_is_copied_is_copied_too(
    home: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the database itself stays as it is from the first look on."""
    with writing(home, "wal" if suffix == "-wal" else "delete") as writer:
        if suffix == "-journal":
            writer.kill()
            _killed_in_a_transaction(home)
    place = home / f"{DATABASE}{suffix}"
    place.rename(home / "away")
    copying = shutil.copyfileobj

    def copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
        copying(source, target, length)
        if (home / "away").exists():
            (home / "away").rename(place)

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    assert stamps(home) == ({2} if suffix == "-journal" else {1}, [])
