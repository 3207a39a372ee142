"""Resolves the evidence of published relations in `raw/` (`validate --deep`).

A locator is `line:N`, optionally with ` KIND:ID` parts whose IDs must stand on that line; `json:POINTER` in a JSON
document; or `row:TABLE:KEY`, which is a line of the exported table. The file must be the one that sources.json names.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.calls_file import line_texts
from roller_capture.finalizer.raw_folder import SOURCES
from roller_capture.publication import CALLS, RELATIONS
from roller_capture.published import calls_path, relation_lines

_LINE: Final = re.compile(r"line:([1-9]\d{0,8})((?: [a-z_]+:\S+)*)$")


def check(attempt_dir: Path, manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(file, message) for each locator of a retained source that does not resolve."""
    try:
        sources = json_text.parse((attempt_dir / SOURCES).read_bytes())
    except (OSError, json_text.JsonError) as error:
        yield SOURCES, f"cannot be read: {error}"
        return
    if not isinstance(sources, dict):
        yield SOURCES, "holds no JSON object"
        return
    wrong = dict(_wrong_sources(sources, manifest))
    yield from ((SOURCES, message) for message in wrong.values())
    wanted: dict[str, list[tuple[str, str]]] = {}
    for number, relation in relation_lines(attempt_dir / RELATIONS):
        for evidence in relation["evidence"]:
            where = f"{RELATIONS}:{number}"
            if evidence["source"] == CALLS:
                wanted.setdefault(CALLS, []).append((where, evidence["locator"]))
            elif not evidence["retained"] or evidence["source"] in wrong:
                continue
            elif evidence["source"] not in sources:
                yield where, f"evidence source {evidence['source']} is not in {SOURCES}"
            else:
                path = str(sources[evidence["source"]]["path"])
                wanted.setdefault(path, []).append((where, evidence["locator"]))
    for name, locators in wanted.items():
        file = calls_path(attempt_dir, manifest) if name == CALLS else attempt_dir / name
        yield from _check_locators(file, name, locators)


def _wrong_sources(sources: dict[str, Any], manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(source, message) for each entry that is not a published file as the manifest lists it."""
    for source, entry in sources.items():
        name = entry.get("path") if isinstance(entry, dict) else None
        listed = manifest["files"].get(name) if isinstance(name, str) else None
        if listed is None:
            yield source, f"{source} names no published file"
        elif listed["sha256"] != entry.get("sha256") or listed["bytes"] != entry.get("bytes"):
            yield source, f"{source} is not the file that the manifest lists"


def _check_locators(path: Path, name: str, locators: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    lines: dict[int, list[tuple[str, list[str]]]] = {}
    for where, locator in locators:
        match = _LINE.match(locator)
        if match is not None:
            ids = [part.partition(":")[2] for part in match.group(2).split()]
            lines.setdefault(int(match.group(1)), []).append((where, ids))
        elif locator.startswith("json:"):
            yield from _check_pointer(path, name, where, locator.removeprefix("json:"))
        else:
            yield where, f"evidence locator {locator!r} has no known form"
    yield from _check_lines(path, name, lines)


def _check_pointer(path: Path, name: str, where: str, place: str) -> Iterator[tuple[str, str]]:
    try:
        json_text.resolve_pointer(json_text.parse(path.read_bytes()), place)
    except (OSError, json_text.JsonError, LookupError):
        yield where, f"evidence {name} has nothing at {place}"


def _check_lines(path: Path, name: str, lines: dict[int, list[tuple[str, list[str]]]]) -> Iterator[tuple[str, str]]:
    left = dict(lines)
    for number, line in enumerate(_line_texts(path, name), 1):
        for where, ids in left.pop(number, ()):
            missing = [one for one in ids if one.encode("utf-8", "surrogatepass") not in line]
            if missing:
                yield where, f"evidence {name} line {number} does not hold {missing[0]}"
        if not left:
            return
    for number, wanted in left.items():
        yield wanted[0][0], f"evidence {name} has no line {number}"


def _line_texts(path: Path, name: str) -> Iterator[bytes]:
    if name == CALLS:
        yield from line_texts(path)
        return
    with path.open("rb") as stream:
        yield from stream
