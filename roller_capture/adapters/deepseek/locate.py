"""Finds the logs of sessions by their ids: `sessions/<working folder>/<session id>/session.v4.jsonl[.zstd]`."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from roller_capture.adapters.deepseek.frames import Budget, expand
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_mapping

COMPRESSED: Final = ".zstd"
_SESSION_FOLDERS: Final = (PurePosixPath("sessions"), PurePosixPath(".dsh/sessions"), PurePosixPath("."))
"""Below the harness's own folder, below a home, and itself."""

_LOG: Final = re.compile(r"session(\.v\d{1,3})?\.jsonl(\.zstd)?")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_session_id(text: str) -> bool:
    """Whether an id can be the name of a session's folder."""
    return _ID.fullmatch(text) is not None and ".." not in text


def session_logs(tree: NativeTree, session_id: str) -> list[PurePosixPath]:
    """All logs in folders of that name; more than one where folders of several working directories have it."""
    found: list[PurePosixPath] = []
    for base in _SESSION_FOLDERS:
        for folder in tree.names(base):
            place = base / folder / session_id
            kind = tree.kind(place)
            if kind is PathKind.REFUSED:
                tree.refuse(place)
            if kind is PathKind.FOLDER:
                found += [place / name for name in tree.names(place) if _LOG.fullmatch(name)]
    return found


def all_session_ids(tree: NativeTree) -> frozenset[str]:
    """The names of all session folders: for the run's own copy of the logs, which holds nothing else."""
    return frozenset(
        name
        for base in _SESSION_FOLDERS
        for folder in tree.names(base)
        for name in tree.names(base / folder)
        if is_session_id(name) and any(_LOG.fullmatch(inner) for inner in tree.names(base / folder / name))
    )


def find_session_logs(tree: NativeTree, session_ids: frozenset[str]) -> Iterator[PurePosixPath]:
    """The logs of these sessions and of all that their logs, and those of their descendants, name as children."""
    waiting = sorted(item for item in session_ids if is_session_id(item))
    known = set(waiting)
    while waiting:
        for path in session_logs(tree, waiting.pop()):
            yield path
            children = _children(tree, path) - known
            known |= children
            waiting += sorted(children)


def _children(tree: NativeTree, path: PurePosixPath) -> set[str]:
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            return set()
        try:
            if path.suffix != COMPRESSED:
                return _named_children(stream)
            with tempfile.TemporaryFile() as expanded:
                expand(stream, expanded, Budget())
                expanded.seek(0)
                return _named_children(expanded)
        except OSError:
            return set()


def _named_children(stream: BinaryIO) -> set[str]:
    children = set()
    for line in read_lines(stream):
        if line.record.get("type") == "subagent/catalog":
            child = as_id(as_mapping(line.record.get("data")).get("childId"))
            if child is not None and is_session_id(child):
                children.add(child)
    return children
