"""Finds what OpenCode left behind below the native root, and has it read."""

from pathlib import Path, PurePosixPath
from typing import Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id, as_list, as_mapping
from roller_capture.adapters.opencode import identity
from roller_capture.adapters.opencode.log_reader import LogReader
from roller_capture.adapters.opencode.store import EXTRACT, databases, extract, extracts
from roller_capture.capture_protocol import AdapterInput, NativeSource
from roller_capture.vocabulary import AttemptErrorCode

_LARGEST_EXPORT: Final = 256 * 1024 * 1024


def read_files(source: AdapterInput, reader: LogReader, gaps: GapLog) -> tuple[NativeSource, ...]:
    """Reads extracts that a launcher made; else the databases, by extracts of our own; else exported sessions.

    Returns the files that are evidence.
    """
    root = _folder(source)
    if root is None:
        return ()
    tree = NativeTree(root, gaps)
    made: list[NativeSource] = []
    for path in extracts(tree):
        with tree.open(path) as stream:
            if stream is not None:
                try:
                    reader.read_extract(stream, str(path))
                except OSError as error:
                    _unreadable(gaps, f"cannot be read on: {error.strerror}", str(path))
    if not tree.sources:
        made = _extracted(source, tree, reader, gaps)
    if not tree.sources and not made:
        _read_exports(tree, reader, gaps)
    return (*tree.sources, *made)


def _folder(source: AdapterInput) -> Path | None:
    root = source.native_root
    try:
        return root if root is not None and root.is_dir() else None
    except OSError:
        return None


def _extracted(source: AdapterInput, tree: NativeTree, reader: LogReader, gaps: GapLog) -> list[NativeSource]:
    found = databases(tree)
    if found and source.scratch is None:
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, "there is no folder to take the sessions out to")
        return []
    made: list[NativeSource] = []
    for path in found:
        assert source.scratch is not None
        name = str(path.with_suffix(".jsonl"))
        target = source.scratch / f"{len(made) + 1}-{EXTRACT}"
        try:
            if not extract(tree, path, _wanted(source), target, source.scratch, gaps):
                continue
            with target.open("rb") as stream:
                reader.read_extract(stream, name)
        except OSError as error:
            _unreadable(gaps, f"the sessions cannot be taken out: {error.strerror}", str(path))
            continue
        made.append(NativeSource(name, target))
    return made


def _wanted(source: AdapterInput) -> frozenset[str]:
    """Only sessions that requests, or the launcher, name are read from a database, and their descendants."""
    named = {as_id(source.launcher.get("root_native_id"))}
    for header in (*identity.SESSION_HEADERS, identity.PARENT_SESSION):
        named |= {as_id(value) for value in source.wire_headers.get(header, ())}
    return frozenset(session_id for session_id in named if session_id is not None)


def _unreadable(gaps: GapLog, reason: str, source: str) -> None:
    gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=source)


def _read_exports(tree: NativeTree, reader: LogReader, gaps: GapLog) -> None:
    """Exported sessions (`opencode export`), by any name; other JSON documents say nothing."""
    for name in tree.names(PurePosixPath()):
        if not name.endswith((".json", ".jsonl")):
            continue
        with tree.open(PurePosixPath(name), as_evidence=False) as stream:
            try:
                data = b"" if stream is None else stream.read(_LARGEST_EXPORT + 1)
            except OSError as error:
                _unreadable(gaps, f"cannot be read: {error.strerror}", name)
                continue
        if len(data) > _LARGEST_EXPORT:
            _unreadable(gaps, "is too large to be read as one document", name)
            continue
        if b'"messages"' not in data:
            continue
        try:
            document = as_mapping(json_text.parse(data))
        except json_text.JsonError:
            if name.endswith(".json"):  # under the other name it may well be lines
                _unreadable(gaps, "is no JSON document", name)
            continue
        if as_id(as_mapping(document.get("info")).get("id")) is not None and as_list(document.get("messages")):
            with tree.open(PurePosixPath(name)):  # it is evidence
                reader.read_export(document, name)
