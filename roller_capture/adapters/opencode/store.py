"""Where OpenCode keeps its sessions, and how the wanted ones are taken out.

One SQLite database, `opencode.db` in its data folder (measured with 1.18.33: write-ahead log, not checkpointed at
exit). The database also holds accounts and credentials, so only the columns below of the wanted sessions and their
descendants ever leave it.
"""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_sqlite import Database, Selection, Table, open_database
from roller_capture.adapters.native_values import as_id

EXTRACT: Final = "opencode.jsonl"
"""The name under which a launcher puts an extract beside other native files."""

DATABASES: Final = tuple(
    PurePosixPath(place)
    for place in (
        ".local/share/opencode/opencode.db",
        "share/opencode/opencode.db",
        "data/opencode/opencode.db",
        "opencode/opencode.db",
        "opencode.db",
    )
)
"""Below a HOME, a data folder, and the harness's own folder in one."""

_SESSION: Final = Table(
    "session",
    columns=("id", "parent_id", "version", "agent", "time_created", "time_updated"),
    needed=("id", "parent_id"),
    order=("time_created", "id"),
)
_MESSAGE: Final = Table(
    "message",
    columns=("id", "session_id", "time_created", "data"),
    needed=("id", "session_id", "data"),
    order=("time_created", "id"),
)
_PART: Final = Table(
    "part",
    columns=("id", "message_id", "session_id", "time_created", "data"),
    needed=("id", "message_id", "session_id", "data"),
    order=("id",),
)


def databases(tree: NativeTree) -> list[PurePosixPath]:
    """The databases that are there. What is no regular file in the place of one is told as refused."""
    found = []
    for path in DATABASES:
        kind = tree.kind(path)
        if kind is PathKind.FILE:
            found.append(path)
        elif kind is PathKind.REFUSED:
            tree.refuse(path)
    return found


def extract(
    tree: NativeTree, path: PurePosixPath, wanted: Iterable[str], target: Path, scratch: Path, gaps: GapLog
) -> bool:
    """Writes the wanted sessions of one database, and their descendants, to the new file `target`.

    `scratch` is a folder for the time of the call. Returns false where the database cannot be opened. Raises `OSError`
    when `target` cannot be written.
    """
    with open_database(tree, path, scratch, gaps) as database:
        if database is None:
            return False
        ids = _with_descendants(database, frozenset(wanted))
        database.extract(
            target,
            Selection(_SESSION, "id", ids),
            Selection(_MESSAGE, "session_id", ids),
            Selection(_PART, "session_id", ids),
        )
        return True


def extract_to(
    tree: NativeTree, wanted: frozenset[str], target: Path, scratch: Path, gaps: GapLog
) -> list[PurePosixPath]:
    """Writes one extract for each database that is there into the folder `target`; returns those databases.

    The first is called `opencode.jsonl`, as adapters look for it; a second one is told apart by its number.
    """
    read: list[PurePosixPath] = []
    for path in databases(tree):
        name = EXTRACT if not read else f"opencode-{len(read) + 1}.jsonl"
        (target / name).unlink(missing_ok=True)
        if extract(tree, path, wanted, target / name, scratch, gaps):
            read.append(path)
    return read


def extracts(tree: NativeTree) -> list[PurePosixPath]:
    """Extracts that a launcher has put there."""
    return [PurePosixPath(name) for name in tree.names(PurePosixPath()) if _is_extract(name)]


def _is_extract(name: str) -> bool:
    stem, dot, extension = name.partition(".")
    return dot + extension == ".jsonl" and (stem == "opencode" or stem.removeprefix("opencode-").isdecimal())


def _with_descendants(database: Database, wanted: frozenset[str]) -> frozenset[str]:
    found = set(wanted)
    parents = frozenset(wanted)
    while parents:
        rows = database.rows(Selection(_SESSION, "parent_id", parents))
        parents = frozenset(child for row in rows if (child := as_id(row["id"])) is not None and child not in found)
        found |= parents
    return frozenset(found)
