"""Homes whose sessions lie in SQLite databases, damaged as copies and crashes damage them: half a file, a lost or torn
write-ahead log, flipped bytes, other tables, other types. Made from recorded extracts, so that the truth is known."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from roller_capture.capture_protocol import NativeCapture
from tests.adapters.homes import DATABASE_HOMES, build_home
from tests.adapters.mutations import line_mutations, value_mutations
from tests.adapters.recordings import Verdict, typical

Row = Mapping[str, Any]


_EACH_DATABASE = [(harness, path) for harness, home in DATABASE_HOMES.items() for path in home.databases.values()]
each_database = pytest.mark.parametrize(("harness", "path"), _EACH_DATABASE)


def _read(harness: str, root: Path) -> NativeCapture:
    scratch = root.parent / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return typical(harness).read(root, scratch)


def _assert_named(harness: str, root: Path, base: Verdict, *, silent: bool = False) -> None:
    """No call changed hands, no relation is new, and what is lost has a name."""
    verdict = Verdict.of(typical(harness), _read(harness, root))
    assert all(key in (None, known) for key, known in zip(verdict.owners, base.owners, strict=True))
    assert not {relation[1:3] for relation in verdict.relations} - {relation[1:3] for relation in base.relations}
    lost = (verdict.owners, verdict.relations, verdict.outputs) != (base.owners, base.relations, base.outputs)
    assert silent or not lost or verdict.reasons - base.reasons


@pytest.mark.parametrize("harness", DATABASE_HOMES)
def test_a_home_says_what_its_extract_says(harness: str, tmp_path: Path) -> None:
    """The ground that the other tests stand on."""
    recording, root = typical(harness), tmp_path / "home"
    build_home(harness, root)
    (tmp_path / "extract").mkdir()
    recording.write(tmp_path / "extract" / "native")
    there, here = (Verdict.of(recording, _read(harness, one)) for one in (tmp_path / "extract" / "native", root))
    assert (here.owners, here.relations, here.outputs) == (there.owners, there.relations, there.outputs)
    assert None not in here.owners


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _all_but_the_last_page(content: bytes) -> bytes:
    return content[:-4096]


def _header_alone(content: bytes) -> bytes:
    return content[:100]


def _nothing(content: bytes) -> bytes:  # noqa: ARG001
    return b""


def _zeros(content: bytes) -> bytes:
    return bytes(len(content))


def _zeros_behind_the_first_page(content: bytes) -> bytes:
    return content[:4096] + bytes(len(content) - 4096)


def _text(content: bytes) -> bytes:  # noqa: ARG001
    return b"no database at all\n" * 1000


def _more(content: bytes) -> bytes:
    return content + b"\xff" * 10_000


_DAMAGES = (_half, _all_but_the_last_page, _header_alone, _nothing, _zeros, _zeros_behind_the_first_page, _text, _more)


@pytest.mark.parametrize("damage", _DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
@each_database
def test_half_copied_and_overwritten_databases_are_named(
    harness: str, path: str, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """What can be read of them is read."""
    root = tmp_path / "home"
    build_home(harness, root)
    base = Verdict.of(typical(harness), _read(harness, root))
    (root / path).write_bytes(damage((root / path).read_bytes()))
    _assert_named(harness, root, base)


@each_database
def test_flipped_bytes_cost_what_they_hit(harness: str, path: str, tmp_path: Path) -> None:
    """Bytes anywhere, many at a time; text that is another text afterwards is believed."""
    root = tmp_path / "home"
    build_home(harness, root)
    base = Verdict.of(typical(harness), _read(harness, root))
    content = (root / path).read_bytes()
    chance = random.Random(path)
    for _ in range(25):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 4, 64))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        (root / path).write_bytes(damaged)
        _assert_named(harness, root, base, silent=True)


@pytest.mark.parametrize("log", ["lost", "torn", "of another database", "there"])
@each_database
def test_what_stands_in_the_write_ahead_log_alone(harness: str, path: str, log: str, tmp_path: Path) -> None:
    """A harness that was killed leaves all of a short run there. Without it the database is empty, and that is told."""
    root = tmp_path / "home"
    build_home(harness, root)
    base = Verdict.of(typical(harness), _read(harness, root))
    whole, rows = root / path, root / "rows"
    whole.rename(rows)
    with closing(sqlite3.connect(whole)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("ATTACH ? AS rows", (str(rows),))
        for (name,) in database.execute("SELECT name FROM rows.sqlite_master WHERE type = 'table'").fetchall():
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM rows.{name}")
        database.commit()
        copy = tmp_path / "copy"
        shutil.copytree(root, copy)
    beside = copy / f"{path}-wal"
    if log == "lost":
        beside.unlink()
    elif log == "torn":
        beside.write_bytes(_half(beside.read_bytes()))
    elif log == "of another database":
        beside.write_bytes(b"\x37\x7f\x06\x82" + beside.read_bytes()[4:16] + bytes(16) + beside.read_bytes()[32:])
    _assert_named(harness, copy, base)
    if log == "there":
        assert Verdict.of(typical(harness), _read(harness, copy)).owners == base.owners


_STATEMENTS = {
    "dropped": "DROP TABLE {table}",
    "renamed": "ALTER TABLE {table} RENAME TO other",
    "a view": "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT * FROM other",
    "a column renamed": "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "nulls": "UPDATE {table} SET {column} = NULL",
    "numbers": "UPDATE {table} SET {column} = 7.5",
    "huge numbers": "UPDATE {table} SET {column} = 9223372036854775807",
    "blobs": "UPDATE {table} SET {column} = x'ff00fe'",
    "no utf-8": "UPDATE {table} SET {column} = CAST(x'6162ff' AS TEXT)",
    "nul": "UPDATE {table} SET {column} = 'a' || char(0) || 'b'",
    "paths": "UPDATE {table} SET {column} = '../../../../etc/passwd'",
    "one value": "UPDATE {table} SET {column} = 'x'",
    "long": "UPDATE {table} SET {column} = replace(hex(zeroblob(50000)), '0', 'x')",
    "doubled": "INSERT INTO {table} SELECT * FROM {table}",
}


@pytest.mark.parametrize("what", _STATEMENTS)
@each_database
def test_tables_of_another_shape_and_columns_of_other_types(harness: str, path: str, what: str, tmp_path: Path) -> None:
    """Another version, another product of the same file name, or somebody who means ill."""
    root = tmp_path / "home"
    build_home(harness, root)
    recording = typical(harness)
    base = Verdict.of(recording, _read(harness, root))
    content = (root / path).read_bytes()
    with closing(sqlite3.connect(root / path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [(table, row[1]) for table in tables for row in database.execute(f"PRAGMA table_info({table})")]
    of_columns = "{column}" in _STATEMENTS[what]
    for table, column in columns if of_columns else [(table, "") for table in tables]:
        (root / path).write_bytes(content)
        with closing(sqlite3.connect(root / path)) as database:
            database.executescript(_STATEMENTS[what].format(table=table, column=column))
        _assert_named(harness, root, base)


@pytest.mark.parametrize("harness", [harness for harness, home in DATABASE_HOMES.items() if home.files])
def test_the_hooks_log_beside_a_database_may_hold_anything(harness: str, tmp_path: Path) -> None:
    """It is read in the home itself, before anything is taken out."""
    root = tmp_path / "home"
    build_home(harness, root)
    recording, base = typical(harness), Verdict.of(typical(harness), _read(harness, root))
    [(extract, path)] = DATABASE_HOMES[harness].files.items()
    files, chance = {extract: recording.files[extract]}, random.Random(harness)
    odd = [*value_mutations(files, chance), *line_mutations(files, chance)]
    for mutation in chance.sample(odd, 120):
        assert mutation.change is not None
        (root / path).write_bytes(mutation.change(files[extract]))
        _assert_named(harness, root, base, silent=mutation.silent or mutation.foreign or "session_id" in mutation.name)


def test_two_databases_of_one_home_that_hold_the_same_sessions_are_told(tmp_path: Path) -> None:
    """A copy beside the original: which of them is the run's is not known."""
    root = tmp_path / "home"
    build_home("opencode", root)
    base = Verdict.of(typical("opencode"), _read("opencode", root))
    shutil.copy(root / ".local/share/opencode/opencode.db", root / "opencode.db")
    native = _read("opencode", root)
    assert "native_id_not_unique" in {gap.code for gap in native.gaps}
    _assert_named("opencode", root, base)
