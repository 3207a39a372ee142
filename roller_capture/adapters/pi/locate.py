"""Finds the logs of given sessions: `<folder>/<time>_<session>.jsonl` (measured with Pi 1.6.0).

A name is only a hint, since a session's id may hold underscores: the log says in its first line whose it is. Of other
sessions nothing else is read.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id

_BASES: Final = tuple(PurePosixPath(base) for base in (".pi/agent/sessions", "agent/sessions", "sessions", "."))
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_LONGEST_HEADER: Final = 1024 * 1024


def is_file_name(session_id: str) -> bool:
    """Whether a session id can stand in the name of a file; ids come from request headers."""
    return _FILE_NAME.fullmatch(session_id) is not None


def find_logs(tree: NativeTree, session_ids: Iterable[str]) -> dict[str, list[PurePosixPath]]:
    """The logs of each session, by id, also of those of which there is none. More than one is a copy or a forgery."""
    wanted = sorted(session_ids)
    candidates = list(_candidates(tree))
    return {
        session_id: [
            path
            for path in candidates
            if _may_be_of(path.name, session_id)
            and (tree.kind(path) is PathKind.REFUSED or session_of(tree, path) == session_id)
        ]
        for session_id in wanted
    }


def own_sessions(tree: NativeTree) -> list[str]:
    """The ids of all sessions that have a log below the root, as the logs themselves say."""
    return sorted({found for path in _candidates(tree) if (found := session_of(tree, path)) is not None})


def session_of(tree: NativeTree, path: PurePosixPath) -> str | None:
    """The id in a log's header, its first line; `None` for a file that has none."""
    if tree.kind(path) is not PathKind.FILE:
        return None
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            return None
        try:
            first = next(read_lines(stream, _LONGEST_HEADER), None)
        except OSError:
            return None
    if first is None or first.number != 1 or first.record.get("type") != "session":
        return None
    return as_id(first.record.get("id"))


def _may_be_of(name: str, session_id: str) -> bool:
    return name == f"{session_id}.jsonl" or name.endswith(f"_{session_id}.jsonl")


def _candidates(tree: NativeTree) -> Iterator[PurePosixPath]:
    """Every JSON Lines file of the first base that holds any: in it, or in one of its folders (one for each `cwd`)."""
    for base in _BASES:
        found = list(_json_lines(tree, base))
        for name in tree.names(base):
            if tree.kind(base / name) is PathKind.FOLDER:
                found += _json_lines(tree, base / name)
        if found:
            yield from found
            return


def _json_lines(tree: NativeTree, folder: PurePosixPath) -> Iterator[PurePosixPath]:
    for name in tree.names(folder):
        if name.endswith(".jsonl") and tree.kind(folder / name) in (PathKind.FILE, PathKind.REFUSED):
            yield folder / name
