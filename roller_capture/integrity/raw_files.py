"""`raw/` is closed: each file in it is named by a record, and each record that names one names one that is there.

So a file cannot be put in or taken out by itself, and no evidence leads to where nothing is (docs/protocol.md, on the
published files). Contents are the business of `--deep`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.finalizer.raw_folder import SOURCES
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import CALLS, MANIFEST, RAW, RELATIONS
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working_files import EVENTS, read_regular_file

Record = dict[str, Any]

_LARGEST_MAP: Final = 256 * 1024 * 1024
_KEPT_WITH: Final = {
    "unrecognised": AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST,
    "orphans": AttemptErrorCode.BODY_WITHOUT_EVENT,
}
"""Folders of bodies that belong to no call, and the error that tells of them."""


def check_raw(attempt_dir: Path, manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Of an attempt whose listed files are there and unchanged."""
    errors = {error["code"] for error in manifest["errors"]}
    if AttemptErrorCode.FILE_REFUSED not in errors:  # evidence in a log that was refused keeps the log's name
        yield from _names(seen)
    if not manifest["raw_retained"]:
        return
    try:
        sources = json_text.parse(read_regular_file(attempt_dir / SOURCES, limit=_LARGEST_MAP))
    except (OSError, json_text.JsonError) as error:
        yield Finding(SOURCES, f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    if not isinstance(sources, dict):
        yield Finding(SOURCES, "holds no JSON object")
        return
    yield from (Finding(SOURCES, text) for text in _entries(sources, manifest["files"]))
    yield from _unnamed(manifest["files"], sources, seen, errors)
    if AttemptErrorCode.FILE_REFUSED not in errors:
        yield from _evidence(sources, seen)


def is_inside(source: str) -> bool:
    """Whether the name of a log leads to no other place than below the folder of logs."""
    return not any(part in ("", ".", "..") or "\0" in part for part in source.split("/"))


def _names(seen: Seen) -> Iterator[Finding]:
    for number, relation in seen.records:
        for one in relation["evidence"]:
            if not is_inside(one["source"]):
                yield Finding(f"{RELATIONS}:{number}", f"evidence source {one['source']!r} leads out of the attempt")
    for call in seen.calls:
        for source in sorted(call.logs):
            if not is_inside(source):
                yield Finding(f"{CALLS}:{call.line}", f"evidence source {source!r} leads out of the attempt")


def _entries(sources: Record, files: Mapping[str, Record]) -> Iterator[str]:
    """Each entry is that of a published file as the manifest lists it, at the place that its name gives it."""
    for source, entry in sources.items():
        placed = f"{RAW}/{EVENTS}" if source == EVENTS else f"{RAW}/native/{source}"
        if not isinstance(entry, dict) or entry.get("path") != placed or entry.get("original") != source:
            yield f"{source} is not where a log of this name is kept"
        elif placed not in files:
            yield f"{source} names no published file"
        elif {"sha256": entry.get("sha256"), "bytes": entry.get("bytes")} != files[placed]:
            yield f"{source} is not the file that the manifest lists"
    if EVENTS not in sources:
        yield f"{EVENTS} is missing"


def _unnamed(files: Mapping[str, Record], sources: Record, seen: Seen, errors: set[str]) -> Iterator[Finding]:
    named = {call.response_path for call in seen.calls} | {f"{RAW}/native/{source}" for source in sources}
    for name in files:
        top, *inner = name.split("/")
        if top != RAW or name in named or name in (SOURCES, f"{RAW}/{EVENTS}"):
            continue
        if len(inner) != 2 or _KEPT_WITH.get(inner[0]) not in errors:
            yield Finding(name, "is listed by the manifest, and no record names it")


def _evidence(sources: Record, seen: Seen) -> Iterator[Finding]:
    for number, relation in seen.records:
        for one in relation["evidence"]:
            if one["source"] != CALLS and one["retained"] != (one["source"] in sources):
                told = "retained" if one["retained"] else "not retained"
                yield Finding(
                    f"{RELATIONS}:{number}",
                    f"evidence source {one['source']} is called {told}, {SOURCES} says otherwise",
                )
    if sources.keys() - {EVENTS}:  # else the adapter kept none of its logs
        for call in seen.calls:
            for source in sorted(call.logs - sources.keys()):
                yield Finding(f"{CALLS}:{call.line}", f"evidence source {source} is not in {SOURCES}")
    if seen.without_file:
        yield Finding(MANIFEST, f"raw/ is kept, and the response of {seen.without_file[0]} is not in it")
