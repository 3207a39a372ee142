"""Records stand as they are written here: each member once, those of a call in their place, nothing between the tokens.

A record that somebody else has written may mean one thing to one reader and another to the next (a member twice, of
which some take the first and some the last). What the provider or the harness said (`output`, `context`) is their text.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from roller_capture import json_text
from roller_capture.integrity.findings import Finding
from roller_capture.publication import MANIFEST, RELATIONS
from roller_capture.records import CallRecord

Record = dict[str, Any]

_PROBLEM: Final = "is not written as finalize writes it: somebody else has"
_MEMBERS: Final = tuple(field.alias or name for name, field in CallRecord.model_fields.items())
_OUTPUT: Final = "output"
_CONTEXT: Final = b',"context":'
_SPACES: Final = b" \t\r\n"


def check_form(attempt_dir: Path, manifest: Record) -> Iterator[Finding]:
    """The manifest, and every line of relations.jsonl. Raises `OSError`, and `json_text.JsonError` for no JSON."""
    if (attempt_dir / MANIFEST).read_bytes() != json_text.dumps_indented(manifest) + b"\n":
        yield Finding(MANIFEST, _PROBLEM)
    with (attempt_dir / RELATIONS).open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if json_text.dumps(json_text.parse(line)) + b"\n" != line:
                yield Finding(f"{RELATIONS}:{number}", _PROBLEM)


def call_form_problem(line: bytes, head: Record, context: memoryview) -> str | None:
    """Why the line of a call, with this head and this context, is none of ours; `None` when it is."""
    names = tuple(head)
    end = len(line) - len(context) - len(_CONTEXT) - len(b"}\n")
    if names != tuple(name for name in _MEMBERS if name in head) or line[end : end + len(_CONTEXT)] != _CONTEXT:
        return _PROBLEM
    if line[-2:] != b"}\n":
        return _PROBLEM
    place = names.index(_OUTPUT) if _OUTPUT in head else 0
    before = json_text.dumps({name: head[name] for name in names[:place]})[:-1] + b',"output":'
    after = json_text.dumps({name: head[name] for name in names[place + 1 :]})[1:-1]
    if line[: len(before)] != before:
        return _PROBLEM
    start = line.rfind(b',"output_warnings":', len(before), end)
    if line[end - len(after) : end] == after:
        start = end - len(after) - 1
    elif start < 0 or not _means(line[start + 1 : end], names[place + 1 :]):
        return _PROBLEM
    return None if line[start : start + 1] == b"," and _is_one_value(line[len(before) : start]) else _PROBLEM


def _means(text: bytes, names: tuple[str, ...]) -> bool:
    """Members in this order, none of them twice at any depth, without white space. Another version of this program may
    spell a number in another way."""
    try:
        value = json.loads(b"{" + text + b"}", object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return tuple(value) == names and not _has_spaces(text)


def _once(members: list[tuple[str, Any]]) -> Record:
    found = dict(members)
    if len(found) != len(members):
        _twice()
    return found


def _twice() -> NoReturn:
    raise ValueError("a member twice")


def _has_spaces(text: bytes) -> bool:
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    return any(space in outside for space in _SPACES)


def _is_one_value(text: bytes) -> bool:
    try:
        json_text.parse(text, exact_numbers=False)
    except json_text.JsonError:
        return False
    return True
