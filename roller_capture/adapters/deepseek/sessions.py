"""Reads the sessions of an attempt and all that descend from them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from roller_capture.adapters.deepseek.facts import Session
from roller_capture.adapters.deepseek.frames import Budget, expand
from roller_capture.adapters.deepseek.locate import COMPRESSED, is_session_id, session_logs
from roller_capture.adapters.deepseek.session_reader import SessionReader
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.capture_protocol import NativeSource
from roller_capture.vocabulary import AttemptErrorCode


class SessionSource:
    """The session logs below one root; compressed ones are expanded into `scratch`, and are evidence in that form."""

    def __init__(self, tree: NativeTree, scratch: Path | None, gaps: GapLog) -> None:
        self._tree = tree
        self._scratch = scratch
        self._gaps = gaps
        self._budget = Budget()
        self._expanded: list[NativeSource] = []

    @property
    def sources(self) -> tuple[NativeSource, ...]:
        """All files that were read, as evidence."""
        return (*self._tree.sources, *self._expanded)

    def read(self, session_ids: frozenset[str]) -> dict[str, Session]:
        """The sessions of these ids and their descendants, by id. One without a log, or with two, is a gap."""
        sessions: dict[str, Session] = {}
        waiting = sorted(session_ids, reverse=True)
        known = set(waiting)
        while waiting:
            session = self._session(waiting.pop())
            if session is None:
                continue
            sessions[session.session_id] = session
            children = {child for child in session.catalogs if is_session_id(child)} - known
            known |= children
            waiting += sorted(children, reverse=True)
        return sessions

    def _session(self, session_id: str) -> Session | None:
        paths = session_logs(self._tree, session_id)
        if len(paths) > 1:
            reason = f"{len(paths)} logs are of session {session_id}"
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=str(paths[0]))
            return None
        if not paths:
            reason = f"no native log of session {session_id} was found"
            self._gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason)
            return None
        with self._open(paths[0]) as (name, stream):
            if stream is None:
                return None
            reader = SessionReader(session_id, paths[0], name, self._gaps)
            try:
                reader.read(stream)
            except OSError as error:
                reason = f"cannot be read on: {error.strerror}"
                self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=name)
            return reader.session

    @contextlib.contextmanager
    def _open(self, path: PurePosixPath) -> Iterator[tuple[str, BinaryIO | None]]:
        """The lines of a log, under the name that evidence in it has."""
        if path.suffix != COMPRESSED:
            with self._tree.open(path) as stream:
                yield str(path), stream
            return
        name = str(path.with_suffix(""))
        target = self._expand(path, name)
        if target is None:
            yield name, None
            return
        self._expanded.append(NativeSource(name, target))
        with target.open("rb") as expanded:
            yield name, expanded

    def _expand(self, path: PurePosixPath, name: str) -> Path | None:
        if self._scratch is None:
            self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, "there is nowhere to expand it to", source=name)
            return None
        target = self._scratch / f"session-{len(self._expanded) + 1:04d}.jsonl"
        with self._tree.open(path, as_evidence=False) as stream:
            if stream is None:
                return None
            try:
                with target.open("xb") as expanded:
                    problems = expand(stream, expanded, self._budget)
            except OSError as error:
                reason = f"cannot be expanded: {error.strerror}"
                self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=name)
                return None
        for problem in problems:
            self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, problem.value, source=name)
        return target
