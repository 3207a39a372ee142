"""Damage to a tree of files in memory, as data that Hypothesis can make smaller."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, 2, 3, -1, 1.5, 1e300, 10**30, "", "x", "flow-1", "flow-2", "../../etc/passwd",
    "bodies/../../x", "bodies/000001.response", "bodies/000002.request", "/etc/passwd", "\x1b[31m", "\ud800", "nul\0",
    "complete", "completed", "client", "proxy", "response", "failure", "request_headers", "gzip", "anthropic-messages",
    "x" * 3000, [], {}, [[]], [{}], [["a", "b"]], {"path": "bodies/000001.request", "bytes": 3}, {"path": None},
)  # fmt: skip

_LINK_TARGETS: Final = ("/etc/hostname", "/dev/zero", "..", "attempt.json", "calls.jsonl", "nowhere")
_GARBAGE: Final = (
    b"\n",
    b"{",
    b"}\n",
    b"null\n",
    b"[]\n",
    b'"x"\n',
    b"\xff\xfe\n",
    b"\0" * 40,
    b"{" * 3000 + b"\n",
    b'{"type": "x"}\n',
)


class Odd:
    """Something that stands where a file should be: a link to a target, a folder, a pipe."""

    def __init__(self, kind: str, target: str = "") -> None:
        self.kind = kind
        self.target = target

    def make(self, path: Path) -> None:
        """Makes it."""
        if self.kind == "link":
            path.symlink_to(self.target)
        elif self.kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)


Tree = dict[str, bytes | Odd]


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage: `what` to which of the files (counted round), at which place, with which other number and bytes."""

    what: str
    file: int
    place: int
    other: int
    new: bytes


_WHATS: Final = (
    "bytes", "bytes", "cut", "append", "remove", "link", "folder", "pipe", "swap files",
    "drop line", "double line", "swap lines", "cut line", "garbage line", "value", "value", "value", "value", "gone",
)  # fmt: skip

_NUMBERS: Final = st.integers(0, 1 << 16)

DAMAGES: Final = st.lists(
    st.builds(Damage, st.sampled_from(_WHATS), _NUMBERS, _NUMBERS, _NUMBERS, st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)


def damaged(files: Mapping[str, bytes], damages: list[Damage], weights: list[str]) -> Tree:
    """The tree after these damages. `weights` are the files to choose from; one may stand there several times."""
    tree: Tree = dict(files)
    for damage in damages:
        _apply(tree, damage, weights[damage.file % len(weights)], weights)
    return tree


def _apply(tree: Tree, damage: Damage, name: str, names: list[str]) -> None:
    old = tree.get(name)
    if not isinstance(old, bytes):
        return
    if damage.what == "remove":
        del tree[name]
    elif damage.what in ("link", "folder", "pipe"):
        tree[name] = Odd(damage.what, _LINK_TARGETS[damage.other % len(_LINK_TARGETS)])
    elif damage.what == "swap files":
        other = names[damage.other % len(names)]
        if isinstance(tree.get(other), bytes):
            tree[name], tree[other] = tree[other], old
    elif damage.what in ("bytes", "cut", "append"):
        tree[name] = _bytes(old, damage)
    elif damage.what in ("value", "gone"):
        tree[name] = _json(old, damage)
    else:
        tree[name] = _lines(old, damage)


def _bytes(old: bytes, damage: Damage) -> bytes:
    place = damage.place % (len(old) + 1)
    if damage.what == "cut":
        return old[:place]
    if damage.what == "append":
        return old + damage.new
    return old[:place] + damage.new + old[place + damage.other % 16 :]


def _lines(old: bytes, damage: Damage) -> bytes:
    lines = old.splitlines(keepends=True)
    if not lines:
        return old
    place, other = damage.place % len(lines), damage.other % len(lines)
    if damage.what == "drop line":
        del lines[place]
    elif damage.what == "double line":
        lines.insert(other, lines[place])
    elif damage.what == "swap lines":
        lines[place], lines[other] = lines[other], lines[place]
    elif damage.what == "cut line":
        lines[place] = lines[place][: damage.other % (len(lines[place]) + 1)]
    else:
        lines.insert(place, _GARBAGE[damage.other % len(_GARBAGE)])
    return b"".join(lines)


def _json(old: bytes, damage: Damage) -> bytes:
    """One value anywhere in one line replaced, or taken away; a file that is one document counts as one line."""
    try:
        json.loads(old)
        lines = [old]
    except ValueError:
        lines = old.splitlines(keepends=True)
    if not lines:
        return old
    place = damage.place % len(lines)
    try:
        value = json.loads(lines[place])
    except ValueError:
        return old
    places = list(_places(value))
    if not places:
        return old
    holder, key = places[damage.other % len(places)]
    if damage.what == "gone":
        del holder[key]
    else:
        holder[key] = ODD_VALUES[(damage.other // len(places) + len(damage.new)) % len(ODD_VALUES)]
    lines[place] = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    return b"".join(lines)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        found.append((value, key))
        found += _places(value[key])
    return found


def write(tree: Mapping[str, bytes | Odd], root: Path) -> None:
    """Puts the tree below `root`."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Odd):
            content.make(path)
        else:
            path.write_bytes(content)


def read(root: Path) -> dict[str, bytes]:
    """All files below `root`."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
