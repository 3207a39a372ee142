"""Damages the native logs of a recorded run systematically: one value, one line or one file at a time.

What a harness stores as JSON text inside JSON (a column, a tool's output) is taken apart too. Every mutation has a
name, so that a finding can be repeated.
"""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import zstandard

Files = Mapping[str, bytes]
Place = tuple[Any, ...]

DEEP: Final = "@@deep@@"
"""Stands in a value for nesting that no parser takes."""
LONG_NUMBER: Final = "@@long-number@@"

ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 1e300, 10**30, "", "x", "../../../../etc/passwd", "/", "a b", "\ud800", "nul\0",
    "x" * 3000, [], [None], [[]], ["x"], [{}], {}, {"id": {}}, {"type": "text"}, DEEP, LONG_NUMBER,
)  # fmt: skip

_TEXT: Final = object()
"""In a place: the value is JSON text, and what follows is a place inside it."""


@dataclass(frozen=True)
class Mutation:
    """One damage to one file: `change` makes its new content of the old one, `None` takes it away.

    `silent` tells that nothing in the logs shows what is lost; `foreign` that a value of another record was put in.
    """

    name: str
    file: str
    change: Callable[[bytes], bytes] | None
    silent: bool = False
    foreign: bool = False


def value_mutations(files: Files, chance: random.Random) -> Iterator[Mutation]:
    """One value of one record replaced by another, taken away, or given twice under its key."""
    seen = _values_by_key(files)
    for name in sorted(files):
        for number, record in _records(files[name]):
            for place in _places(record):
                label = f"{name}:{number} " + ".".join("text" if part is _TEXT else str(part) for part in place)
                for odd in ODD_VALUES:
                    # A type or role that nobody knows is what a later version writes.
                    word = isinstance(odd, str) and odd not in (DEEP, LONG_NUMBER)
                    silent = (place[-1] in ("type", "role") and word) or odd == {"type": "text"}
                    yield Mutation(f"{label} = {str(odd)[:30]!r}", name, partial(_replaced, number, place, odd), silent)
                if not isinstance(place[-1], str):
                    continue
                yield Mutation(f"{label} gone", name, partial(_without, number, place))
                old = _at(record, place)
                others = [value for value in seen[place[-1]] if value != old]
                if others:
                    other = chance.choice(others)
                    label += f" = {str(other)[:40]!r}"
                    yield Mutation(f"{label} of another", name, partial(_replaced, number, place, other), foreign=True)
                    yield Mutation(f"{label} too", name, partial(_doubled, number, place, other), foreign=True)


def line_mutations(files: Files, chance: random.Random) -> Iterator[Mutation]:
    """Whole lines lost, doubled, moved, torn, and made unreadable."""
    for name in sorted(files):
        lines = lines_of(files[name])
        for index, line in enumerate(lines):
            half = chance.randrange(1, max(2, len(line) - 1))
            for what, (instead, silent) in _line_changes(line, half).items():
                content = b"".join([*lines[:index], instead, *lines[index + 1 :]])
                yield Mutation(f"{name}:{index + 1} {what}", name, partial(_always, content), silent)
            moved = b"".join([*lines[:index], *lines[index + 1 :], line])
            yield Mutation(f"{name}:{index + 1} moved to the end", name, partial(_always, moved), silent=True)


def _line_changes(line: bytes, half: int) -> Mapping[str, tuple[bytes, bool]]:
    """What may stand in place of a line, and whether nothing shows that it is another."""
    return {
        "lost": (b"", True),
        "twice": (line + line, True),
        "blank before": (b"\n \r\n" + line, True),
        "bom": (b"\xef\xbb\xbf" + line, True),
        "run into the next": (line[:half], False),
        "cut": (line[:half] + b"\n", False),
        "null": (b"null\n", False),
        "list": (b"[]\n", False),
        "text": (b'"x"\n', False),
        "empty object": (b"{}\n", False),
        "nul": (line[:half] + b"\0" + line[half:], False),
        "no utf-8": (line[:half] + b"\xff\xfe" + line[half:], False),
        "only nul": (b"\0" * len(line) + b"\n", False),
        "deep": (b"[" * 2000 + b"]" * 2000 + b"\n", False),
        "deep objects": (b'{"type":' * 1500 + b"1" + b"}" * 1500 + b"\n", False),
    }


def file_mutations(files: Files, chance: random.Random) -> Iterator[Mutation]:
    """Whole files lost, emptied, cut, encoded otherwise, put together, and exchanged."""
    for name in sorted(files):
        content = files[name]
        cut = chance.randrange(max(1, len(content)))
        yield Mutation(f"{name} gone", name, None)
        for what, (changed, silent) in _file_changes(content, cut).items():
            yield Mutation(f"{name} {what}", name, partial(_always, changed), silent)
        for other in sorted(files.keys() - {name}):
            yield Mutation(f"{name} holds {other}", name, partial(_always, files[other]), foreign=True)
            yield Mutation(f"{name} and {other}", name, partial(_always, content + files[other]), silent=True)


def _file_changes(content: bytes, cut: int) -> Mapping[str, tuple[bytes, bool]]:
    return {
        "empty": (b"", False),
        "gzip": (gzip.compress(content), False),
        "zstd": (zstandard.ZstdCompressor().compress(content), False),
        "utf-16": (content.decode("utf-8", "replace").encode("utf-16"), False),
        "a database": (b"SQLite format 3\0" + content[:100], False),
        "cut": (content[:cut], True),
        "cut in front": (content[cut:], True),
        "crlf": (content.replace(b"\n", b"\r\n"), True),
        "bom": (b"\xef\xbb\xbf" + content, True),
        "nul behind": (content + b"\0" * 4096, True),
        "garbage behind": (content + bytes(range(128, 256)) * 4, True),
        "twice": (content + content, True),
    }


def lines_of(content: bytes) -> list[bytes]:
    """The lines, each with its end."""
    return content.splitlines(keepends=True)


def _records(content: bytes) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines_of(content), 1):
        try:
            yield number, json.loads(line)
        except ValueError:
            continue


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all values below `value`, those in JSON text included."""
    if place:
        yield place
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            inner = json.loads(value)
        except ValueError:
            return
        yield from _places(inner, (*place, _TEXT))
        return
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*place, key))


def _values_by_key(files: Files) -> Mapping[str, list[Any]]:
    found: dict[str, dict[str, Any]] = {}
    for content in files.values():
        for _, record in _records(content):
            for place in _places(record):
                if isinstance(place[-1], str):
                    value = _at(record, place)
                    found.setdefault(place[-1], {}).setdefault(json.dumps(value), value)
    return {key: list(values.values()) for key, values in found.items()}


def _always(content: bytes, old: bytes) -> bytes:  # noqa: ARG001
    return content


def _replaced(number: int, place: Place, new: Any, content: bytes) -> bytes:
    return _with_record(content, number, lambda record: _dumps(_with(record, place, new)))


def _without(number: int, place: Place, content: bytes) -> bytes:
    def change(record: Any) -> str:
        rest = {name: value for name, value in _at(record, place[:-1]).items() if name != place[-1]}
        return _dumps(_with(record, place[:-1], rest))

    return _with_record(content, number, change)


def _doubled(number: int, place: Place, other: Any, content: bytes) -> bytes:
    """The key stands twice in its object, with the other value behind."""

    def change(record: Any) -> str:
        mark = "@@doubled@@"
        rest = {**_at(record, place[:-1]), mark: other}
        return _dumps(_with(record, place[:-1], rest)).replace(mark, str(place[-1]))

    return _with_record(content, number, change)


def _with_record(content: bytes, number: int, change: Callable[[Any], str]) -> bytes:
    lines = lines_of(content)
    lines[number - 1] = change(json.loads(lines[number - 1])).encode() + b"\n"
    return b"".join(lines)


def _at(value: Any, place: Place) -> Any:
    for key in place:
        value = json.loads(value) if key is _TEXT else value[key]
    return value


def _with(value: Any, place: Place, new: Any) -> Any:
    """`value` with `new` at `place`; nothing else is touched."""
    if not place:
        return new
    key, rest = place[0], place[1:]
    if key is _TEXT:
        return _dumps(_with(json.loads(value), rest, new))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = _with(value[key], rest, new)
    return copy


def _dumps(value: Any) -> str:
    text = json.dumps(value)
    return text.replace(json.dumps(DEEP), "[" * 1500 + "]" * 1500).replace(json.dumps(LONG_NUMBER), "9" * 5000)
