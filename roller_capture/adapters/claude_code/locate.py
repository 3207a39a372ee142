"""Finds the files of given sessions: `<session>.jsonl` and the files of its agents, in every known layout.

Layouts of a child's file (the oldest versions have none and write children into the root's file):

- `<folder>/agent-<8 hex>.jsonl`, beside the root's file, tied by the `sessionId` of its records (2.0.2x to 2.0.5x);
- `<folder>/<session>/subagents/agent-<id>.jsonl`, from 2.1.114 on with `agent-<id>.meta.json`;
- one or more levels deeper, `subagents/workflows/<run>/agent-<id>.jsonl`.

Nothing of other sessions is read, but for the first lines of agent files that lie beside the root's.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id

_BASES = tuple(PurePosixPath(base) for base in (".claude/projects", ".config/claude/projects", "projects", "."))
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9][A-Za-z0-9_-]{0,127})(\.jsonl|\.meta\.json)")
_SESSION_LOG = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl", re.IGNORECASE)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_FOLDER_DEPTH = 6
_PEEKED_LINES = 50


@dataclass(slots=True)
class AgentFiles:
    """The files of one agent."""

    agent_id: str
    logs: list[PurePosixPath] = field(default_factory=list)
    metas: list[PurePosixPath] = field(default_factory=list)


@dataclass(slots=True)
class SessionFiles:
    """The files of one session. A session that went on in another folder has a log in each."""

    session_id: str
    logs: list[PurePosixPath] = field(default_factory=list)
    agents: dict[str, AgentFiles] = field(default_factory=dict)


class _Folders(NamedTuple):
    """A base and the folders in it, and what could be one of these but is a link or a device."""

    real: list[PurePosixPath]
    refused: list[PurePosixPath]


def find_sessions(tree: NativeTree, session_ids: Iterable[str]) -> list[SessionFiles]:
    """The files of each session, also of those of which nothing was found, in the order of their ids."""
    layout = [_folders(tree, base) for base in _BASES]
    found = []
    for session_id in sorted(session_ids):
        files = SessionFiles(session_id)
        folders = _session_folders(tree, layout, session_id) if is_file_name(session_id) else []
        for folder in folders:
            log = folder / f"{session_id}.jsonl"
            if tree.kind(log) is not PathKind.MISSING:
                files.logs.append(log)
            for path in (*_walk(tree, folder / session_id / "subagents"), *_beside(tree, folder, session_id)):
                _add_agent_file(files, path)
        found.append(files)
    return found


def root_sessions(tree: NativeTree) -> list[str]:
    """The ids of all sessions that have a log below the root, told from the names alone."""
    names = (name for base in _BASES for folder in _folders(tree, base).real for name in tree.names(folder))
    return sorted({match[1] for match in map(_SESSION_LOG.fullmatch, names) if match is not None})


def is_file_name(session_id: str) -> bool:
    """Whether a session id can be the name of a file; ids come from request headers."""
    return _FILE_NAME.fullmatch(session_id) is not None


def _session_folders(tree: NativeTree, layout: list[_Folders], session_id: str) -> list[PurePosixPath]:
    """The folders of the first base that holds the session; where none does, the links that might are refused."""
    for folders in layout:
        holding = [folder for folder in folders.real if _holds_session(tree, folder, session_id)]
        if holding:
            return holding
    for link in (link for folders in layout for link in folders.refused):
        tree.refuse(link)
    return []


def _folders(tree: NativeTree, base: PurePosixPath) -> _Folders:
    kind = tree.kind(base)
    if kind is not PathKind.FOLDER:
        return _Folders([], [base] if kind is PathKind.REFUSED else [])
    folders = _Folders([base], [])
    for name in tree.names(base):
        kind = tree.kind(base / name)
        if kind is PathKind.FOLDER:
            folders.real.append(base / name)
        elif kind is PathKind.REFUSED:
            folders.refused.append(base / name)
    return folders


def _holds_session(tree: NativeTree, folder: PurePosixPath, session_id: str) -> bool:
    return (
        tree.kind(folder / f"{session_id}.jsonl") is not PathKind.MISSING
        or tree.kind(folder / session_id / "subagents") is PathKind.FOLDER
    )


def _walk(tree: NativeTree, folder: PurePosixPath, depth: int = 0) -> Iterator[PurePosixPath]:
    """All agent files in a folder and below; what is no regular file or folder is passed on, to be refused."""
    for name in tree.names(folder):
        path = folder / name
        if tree.kind(path) is PathKind.FOLDER:
            if depth < _MAX_FOLDER_DEPTH:
                yield from _walk(tree, path, depth + 1)
            else:
                tree.refuse(path)
        elif _AGENT_FILE.fullmatch(name):
            yield path
        elif tree.kind(path) is PathKind.REFUSED:
            tree.refuse(path)


def _beside(tree: NativeTree, folder: PurePosixPath, session_id: str) -> Iterator[PurePosixPath]:
    logs = {
        path: path.name.removesuffix(".jsonl")
        for path in (*(folder / name for name in tree.names(folder)), *_walk(tree, folder / "subagents"))
        if _AGENT_FILE.fullmatch(path.name) and path.suffix == ".jsonl"
    }
    for path, stem in logs.items():
        if _belongs_to(tree, path, session_id):
            yield path
            meta = path.with_name(f"{stem}.meta.json")
            if tree.kind(meta) is PathKind.FILE:
                yield meta


def _belongs_to(tree: NativeTree, path: PurePosixPath, session_id: str) -> bool:
    """Whether the first session id in an agent's file is `session_id`."""
    if tree.kind(path) is not PathKind.FILE:
        return False
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            return False
        try:
            lines = islice(read_lines(stream, max_line_bytes=1 << 20), _PEEKED_LINES)
            seen = (as_id(line.record.get("sessionId")) for line in lines)
            return next((found for found in seen if found is not None), None) == session_id
        except OSError:
            return False


def _add_agent_file(files: SessionFiles, path: PurePosixPath) -> None:
    match = _AGENT_FILE.fullmatch(path.name)
    if match is not None:
        agent = files.agents.setdefault(match[1], AgentFiles(match[1]))
        (agent.logs if match[2] == ".jsonl" else agent.metas).append(path)
