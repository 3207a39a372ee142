"""Every single edit of published records: each member changed, exchanged, removed, emptied or doubled, each line moved.

An edit is told as `FILE PLACE`, where `*` stands for any index, such as `calls.jsonl errors/*/message`.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from roller_capture import json_text, vocabulary
from roller_capture.published import split_line

_LISTS: list[list[str]] = [
    [str(word) for word in kind]
    for kind in vars(vocabulary).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
]
_SHALLOW = {"output": 1, "usage": 1}
"""What the provider said is changed only at its top."""

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Line:
    """A record with the text of its context, if it has one."""

    head: dict[str, Any]
    context: bytes | None = None

    def text(self) -> bytes:
        """As it stands in its file."""
        head = json_text.dumps(self.head)
        return (head if self.context is None else head[:-1] + b',"context":' + self.context + b"}") + b"\n"


@dataclass(frozen=True)
class Published:
    """What an attempt says, apart from `files`, whose hashes always fit."""

    manifest: dict[str, Any]
    calls: Sequence[Line]
    relations: Sequence[Line]

    @classmethod
    def read(cls, attempt: Path) -> "Published":
        """Of a published attempt."""
        calls = [split_line(line) for line in (attempt / "calls.jsonl").read_bytes().splitlines()]
        relations = [json.loads(line) for line in (attempt / "relations.jsonl").read_bytes().splitlines()]
        return cls(
            json.loads((attempt / "manifest.json").read_bytes()),
            [Line(head, bytes(context)) for head, context in calls],
            [Line(relation) for relation in relations],
        )

    def write(self, attempt: Path) -> None:
        """With a manifest whose hashes fit the files, to the letter as `finalize` writes: a careful forger."""
        manifest = copy.deepcopy(self.manifest)
        for name, lines in (("calls.jsonl", self.calls), ("relations.jsonl", self.relations)):
            data = b"".join(line.text() for line in lines)
            (attempt / name).write_bytes(data)
            manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        (attempt / "manifest.json").write_bytes(json_text.dumps_indented(manifest) + b"\n")


def edits(published: Published) -> Iterator[tuple[str, Published]]:
    """Each edit by its place, and what the attempt says then."""
    for place, manifest in _edited(published.manifest, leave=("files",)):
        yield f"manifest.json {place}", Published(manifest, published.calls, published.relations)
    for place, calls in _edited_lines(published.calls):
        yield f"calls.jsonl {place}", Published(published.manifest, calls, published.relations)
    for place, relations in _edited_lines(published.relations):
        yield f"relations.jsonl {place}", Published(published.manifest, published.calls, relations)


def _edited_lines(lines: Sequence[Line]) -> Iterator[tuple[str, list[Line]]]:
    for number, line in enumerate(lines):
        before, after = list(lines[:number]), list(lines[number + 1 :])
        others = [other.head for other in (*before, *after)]
        for place, head in _edited(line.head, others):
            yield place, [*before, Line(head, line.context), *after]
        yield "a line removed", [*before, *after]
        yield "a line twice", [*before, line, line, *after]
        if after:
            yield "two lines exchanged", [*before, after[0], line, *after[1:]]
        if line.context is not None:
            strange = next((one.context for one in lines if one.context != line.context), None)
            for context in (strange, b'{"model":"fake-model"}', b"null"):
                yield "context", [*before, Line(line.head, context), *after]


def _edited(
    record: dict[str, Any], others: Sequence[dict[str, Any]] = (), leave: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, value in _places(record):
        if path[0] in leave:
            continue
        place = "/".join("*" if isinstance(step, int) else step for step in path)
        for new in (*_others(value), *_of_others(path, value, others)):
            if new != value:
                edited = copy.deepcopy(record)
                _parent(edited, path)[path[-1]] = copy.deepcopy(new)
                yield place, edited
        if isinstance(path[-1], str):
            edited = copy.deepcopy(record)
            del _parent(edited, path)[path[-1]]
            yield place, edited


def _places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    if path:
        yield path, value
        if len(path) > _SHALLOW.get(str(path[0]), 9):
            return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(inner, (*path, key))


def _parent(record: Any, path: Path_) -> Any:
    for step in path[:-1]:
        record = record[step]
    return record


def _others(value: Any) -> Iterator[Any]:
    """Other values of the same kind, and none."""
    if isinstance(value, str):
        words = next((words for words in _LISTS if value in words), None)
        yield from words if words is not None else (f"{value}x",)
        if value[10:11] == "T":
            yield f"2031{value[4:]}"
        yield None
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, 0, None)
    elif value is None:
        yield from ("x", 1, "0" * 64, {}, [])
    elif isinstance(value, list):
        yield from ([], value[1:], [*value, *value[-1:]], value[::-1], [*value, "x"])
    else:
        yield from ({}, {**value, "x": ["x"]}, {**value, "x": 1})


def _of_others(path: Path_, value: Any, others: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """What stands in the same place of another record."""
    for other in others:
        try:
            found = _parent(other, path)[path[-1]]
        except (LookupError, TypeError):
            continue
        if found != value:
            yield found
            return
