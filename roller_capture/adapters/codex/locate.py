"""Finds the rollouts of given threads and of their descendants.

Layout (measured with 0.171.0): `sessions/YYYY/MM/DD/rollout-<local time>-<thread id>.jsonl`, one file per thread, root
and children side by side; sessions that the user has archived lie flat in `archived_sessions/`. The first line of a
rollout names its own thread and, of a child's, the parent and the root. Of other sessions nothing is read but that.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from roller_capture.adapters.codex.facts import SessionMeta
from roller_capture.adapters.codex.record_shapes import session_meta
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines

CODEX_HOME: Final = ".codex"

_FOLDERS: Final = tuple(
    PurePosixPath(base) / folder for base in (CODEX_HOME, ".") for folder in ("sessions", "archived_sessions")
)
_THREAD_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ROLLOUT: Final = re.compile(rf"rollout-.*-({_THREAD_ID.pattern})\.jsonl")
_MAX_DEPTH: Final = 5
_LONGEST_FIRST_LINE: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: PurePosixPath
    thread_id: str


def is_thread_id(text: str) -> bool:
    """Whether a text has the form of a thread id."""
    return _THREAD_ID.fullmatch(text) is not None


def thread_id_in(path: PurePosixPath) -> str | None:
    """The thread id in a rollout's name."""
    match = _ROLLOUT.fullmatch(path.name)
    return match[1] if match else None


def find_rollouts(tree: NativeTree, thread_ids: Iterable[str]) -> list[PurePosixPath]:
    """The rollouts of the threads and of all their descendants, in the order of their paths."""
    candidates = list(_candidates(tree))
    wanted = {item for item in thread_ids if is_thread_id(item)}
    chosen = {item.path for item in candidates if item.thread_id in wanted}
    if wanted:
        chosen |= _descendants(tree, [item for item in candidates if item.path not in chosen], wanted)
    return sorted(chosen)


def root_threads(tree: NativeTree) -> list[str]:
    """The ids of all threads below the root that are nobody's children."""
    found = (_first_meta(tree, item.path) for item in _candidates(tree))
    return sorted({meta.thread_id for meta in found if meta is not None and not meta.is_subagent})


def _descendants(tree: NativeTree, others: list[_Candidate], known: Iterable[str]) -> set[PurePosixPath]:
    """The rollouts whose first line names a known thread as parent or as root, and theirs in turn."""
    found: set[PurePosixPath] = set()
    ancestors = set(known)
    metas = [(item, meta) for item in others if (meta := _first_meta(tree, item.path)) is not None]
    while True:
        more = [
            (item, meta)
            for item, meta in metas
            if item.path not in found and meta.is_subagent and ancestors & {meta.parent_id, meta.session_id}
        ]
        if not more:
            return found
        found |= {item.path for item, _ in more}
        ancestors |= {meta.thread_id for _, meta in more}


def _first_meta(tree: NativeTree, path: PurePosixPath) -> SessionMeta | None:
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            return None
        try:
            line = next(read_lines(stream, _LONGEST_FIRST_LINE), None)
        except OSError:
            return None
    return session_meta(line.record) if line is not None else None


def _candidates(tree: NativeTree) -> Iterator[_Candidate]:
    found = [path for folder in _FOLDERS for path in _walk(tree, folder, _MAX_DEPTH)]
    found += list(_walk(tree, PurePosixPath(), 0))  # a folder of rollouts, without the folders around them
    for path in found:
        thread_id = thread_id_in(path)
        if thread_id is not None:
            yield _Candidate(path, thread_id)


def _walk(tree: NativeTree, folder: PurePosixPath, depth: int) -> Iterator[PurePosixPath]:
    for name in tree.names(folder):
        path = folder / name
        kind = tree.kind(path)
        if kind is PathKind.FOLDER and depth > 0:
            yield from _walk(tree, path, depth - 1)
        elif kind is not PathKind.FOLDER:
            yield path
