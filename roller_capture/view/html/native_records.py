"""The native records that evidence points at, so that a click on a proof shows it: only where `raw/` was kept."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.finalizer.raw_folder import SOURCES
from roller_capture.published import is_regular_file
from roller_capture.view.attempt import Attempt
from roller_capture.view.html.pieces import PieceBook
from roller_capture.working_files import read_regular_file

_LINE: Final = re.compile(r"line:([1-9]\d{0,8})(?: |$)")
_LONGEST_RECORD: Final = 128 * 1024
"""Bytes of a record that go into the page."""

_LARGEST_DOCUMENT: Final = 64 * 1024 * 1024

Evidence = tuple[str, str]
"""Source and locator."""


def native_records(attempt: Attempt, pieces: PieceBook) -> dict[Evidence, int]:
    """The piece for each native record that can be shown. What cannot be found is left out: that is validate's."""
    wanted: dict[str, set[str]] = {}
    for relation in attempt.relations:
        for item in relation["evidence"]:
            if item["retained"]:
                wanted.setdefault(item["source"], set()).add(item["locator"])
    found: dict[Evidence, int] = {}
    if not attempt.manifest["raw_retained"] or not wanted:
        return found
    for source, path in _paths(attempt, wanted):
        for locator, record in _records(path, wanted[source]):
            found[source, locator] = pieces.add(record)
    return found


def _paths(attempt: Attempt, sources: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The published file of each source: one that the manifest lists, and no link."""
    try:
        known = json_text.parse(read_regular_file(attempt.path / SOURCES, limit=_LARGEST_DOCUMENT))
    except (OSError, json_text.JsonError):
        return
    for source in sources:
        entry = known.get(source) if isinstance(known, dict) else None
        name = entry.get("path") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in attempt.manifest["files"] or ".." in Path(name).parts:
            continue
        path = attempt.path / name
        if is_regular_file(path) and path.resolve().is_relative_to(attempt.path.resolve()):
            yield source, path


def _records(path: Path, locators: Iterable[str]) -> Iterator[tuple[str, Any]]:
    lines: dict[int, list[str]] = {}
    for locator in locators:
        match = _LINE.match(locator)
        if match is not None:
            lines.setdefault(int(match.group(1)), []).append(locator)
        elif locator.startswith("json:"):
            yield from _pointed(path, locator)
    yield from _on_lines(path, lines)


def _pointed(path: Path, locator: str) -> Iterator[tuple[str, Any]]:
    try:
        document = json_text.parse(read_regular_file(path, limit=_LARGEST_DOCUMENT))
        json_text.resolve_pointer(document, locator.removeprefix("json:"))
    except (OSError, json_text.JsonError, LookupError):
        return
    yield locator, _shown(json_text.dumps(document))


def _on_lines(path: Path, wanted: dict[int, list[str]]) -> Iterator[tuple[str, Any]]:
    last = max(wanted, default=0)
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if number > last:
                    return
                for locator in wanted.get(number, ()):
                    yield locator, _shown(line.rstrip(b"\r\n"))
    except OSError:
        return


def _shown(record: bytes) -> Any:
    """The record as JSON; as text where it is none, or too long."""
    if len(record) > _LONGEST_RECORD:
        text = record[:_LONGEST_RECORD].decode("utf-8", "replace")
        return f"{text}… ({len(record):,} bytes, cut here)"
    try:
        return json_text.parse(record)
    except json_text.JsonError:
        return record.decode("utf-8", "replace")
