"""Homes of harnesses that keep their sessions in SQLite databases, made from recorded extracts."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.recordings import typical


@dataclass(frozen=True)
class DatabaseHome:
    """Where a harness keeps what its extracts hold: extract → database, and files that are taken over as they are."""

    databases: Mapping[str, str]
    files: Mapping[str, str]


DATABASE_HOMES = {
    "opencode": DatabaseHome({"opencode.jsonl": ".local/share/opencode/opencode.db"}, {}),
    "hermes": DatabaseHome(
        {"state.jsonl": ".hermes/state.db"},
        {"plugin.jsonl": ".hermes/roller_capture/events.jsonl"},
    ),
    "openclaw": DatabaseHome(
        {
            "agents/main/openclaw-agent.jsonl": ".openclaw/agents/main/agent/openclaw-agent.sqlite",
            "state/openclaw.jsonl": ".openclaw/state/openclaw.sqlite",
        },
        {"roller-hook.jsonl": ".openclaw/roller-hook.jsonl"},
    ),
}


def build_home(harness: str, root: Path) -> None:
    """Puts the home of the harness's typical run below `root`."""
    recording, home = typical(harness), DATABASE_HOMES[harness]
    for extract, path in home.databases.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        _write_database(root / path, map(json.loads, recording.files[extract].splitlines()))
    for extract, path in home.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(recording.files[extract])
    (root / "launcher.json").write_bytes(recording.files["launcher.json"])


def _write_database(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """A table for each kind of row. Text that was compressed stands uncompressed in its other column."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        packed = row.pop("event_zstd", None)
        tables.setdefault(row.pop("table"), []).append(row | ({"event_json": packed} if packed else {}))
    with closing(sqlite3.connect(path)) as database:
        for table, found in tables.items():
            columns = list(dict.fromkeys(name for row in found for name in row))
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            database.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                [[row.get(name) for name in columns] for row in found],
            )
        database.commit()
