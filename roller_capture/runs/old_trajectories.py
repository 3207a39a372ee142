"""Finds old Claude Code samples whose main trajectory holds the steps of subagents.

The protocol: "Older Claude Code samples may have subagent steps mixed into the main ACTF/SFT. The new Resume detects
such a sample before running the model, refuses to reuse it, and reports an explicit error." A step is a subagent's by
evidence only: Claude Code's own mark on it (`isSidechain`, `parent_tool_use_id`), the id of a response that the capture
gives to a child, or an attempt in which the root owns a call that names an agent.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.call_heads import CallFile
from roller_capture.errors import RollerError
from roller_capture.integrity.findings import Finding
from roller_capture.old_layouts import Layout, layout_of, read_old_attempt
from roller_capture.publication import CALLS, MANIFEST
from roller_capture.published import calls_path, expanded_size, read_manifest
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, UNCAPTURED
from roller_capture.vocabulary import Role
from roller_capture.working_files import read_regular_file

HARNESS: Final = "claude-code"
_LARGEST: Final = 256 * 1024 * 1024
_DEEPEST_FOLDER: Final = 4
_DOCUMENT: Final = re.compile(r"\.jsonl?$", re.IGNORECASE)
_IN_ATTEMPTS: Final = re.compile(r"(actf|sft|trajectory|trajectories)[^/]*\.jsonl?$", re.IGNORECASE)
_SIDECHAIN: Final = frozenset(("isSidechain", "is_sidechain"))
_PARENT_TOOL: Final = frozenset(("parent_tool_use_id", "parentToolUseId"))
_RESPONSE_ID: Final = frozenset(("id", "message_id", "messageId", "response_id", "responseId"))


class _TooLargeError(Exception):
    """A JSON document that is not read as a whole."""


def mixed_steps(sample: Path, attempts: Collection[Path]) -> Iterator[Finding]:
    """One finding for each document or attempt of the sample whose main trajectory holds steps of subagents."""
    documents = list(_documents(sample, attempts))
    children = _child_responses(attempts) if documents else frozenset()
    for path in documents:
        name = str(path.relative_to(sample))
        try:
            mark = _mark_in(path, children)
        except _TooLargeError:
            yield Finding(name, f"has more than {_LARGEST} bytes: whether it holds steps of subagents cannot be said")
            continue
        if mark is not None:
            yield Finding(name, f"the main trajectory holds steps of subagents ({mark})")
    for attempt in attempts:
        mark = _foreign_root_call(attempt)
        if mark is not None:
            place = (attempt / CALLS).relative_to(sample)
            yield Finding(str(place), f"the root's calls hold steps of subagents ({mark})")


def advice(sample: Path, run_dir: Path) -> str:
    """What the protocol says to do: a new run directory, or offline re-projection on a copy."""
    again = "it was collected by an older version: collect it again with a new --run-dir"
    if not any(_keeps_raw(attempt) for attempt in sorted((sample / CAPTURE).glob("attempt-*"))):
        return f"{again}: no attempt of it has the raw/ that roller-capture migrate --from-raw would project anew"
    return (
        f"{again}, or, to keep its results, project "
        f"a copy anew, offline, and validate that: roller-capture migrate --from-raw {shlex.quote(str(sample))} "
        f"--output COPY (do not edit the old trajectory and go on with {run_dir})"
    )


def _keeps_raw(attempt: Path) -> bool:
    """Whether `migrate --from-raw` can derive it anew."""
    try:
        manifest = read_manifest(attempt)
    except RollerError:
        return False
    return layout_of(attempt, manifest) is Layout.CURRENT and manifest.get("raw_retained") is True


def _documents(sample: Path, attempts: Collection[Path]) -> Iterator[Path]:
    """What may be a main trajectory: JSON files of the sample that are neither its books nor of an attempt."""
    for base, folders, names in os.walk(sample):
        inner = Path(base).relative_to(sample)
        if len(inner.parts) >= _DEEPEST_FOLDER:
            folders.clear()
        if inner.parts == ():
            folders[:] = [name for name in folders if name not in (CAPTURE, UNCAPTURED)]
        for name in sorted(names):
            if _DOCUMENT.search(name) and not name.startswith(".") and (inner / name).as_posix() != SAMPLE_FILE:
                yield Path(base) / name
    for attempt in attempts:
        if attempt.is_dir() and not attempt.is_symlink():
            yield from (path for path in sorted(attempt.iterdir()) if _IN_ATTEMPTS.search(path.name))


def _mark_in(path: Path, children: Collection[str]) -> str | None:
    """The first mark of a subagent's step in JSON lines or in one JSON document; `None` also for what is neither.

    Lines are read one by one. One document is read as a whole, up to a bound: raises `_TooLargeError` beyond it.
    """
    if path.is_symlink() or not path.is_file():
        return None
    all_json = True
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(_LARGEST):
                number += 1
                try:
                    mark = _mark(json_text.parse(line, exact_numbers=False), children) if line.strip() else None
                except json_text.JsonError:
                    all_json = False
                    break
                if mark is not None:
                    return f"line {number}: {mark}" if number > 1 else mark
        return None if all_json else _mark_in_document(path, children)
    except OSError:
        return None


def _mark_in_document(path: Path, children: Collection[str]) -> str | None:
    if path.stat().st_size > _LARGEST:
        raise _TooLargeError
    data = read_regular_file(path, limit=_LARGEST)
    try:
        return _mark(json_text.parse(data, exact_numbers=False), children)
    except json_text.JsonError:
        pass
    for number, line in enumerate(data.splitlines(), 1):  # lines, of which some are damaged
        with contextlib.suppress(json_text.JsonError):
            mark = _mark(json_text.parse(line, exact_numbers=False), children) if line.strip() else None
            if mark is not None:
                return f"line {number}: {mark}"
    return None


def _mark(document: Any, children: Collection[str]) -> str | None:
    open_ends = [document]
    while open_ends:
        value = open_ends.pop()
        if isinstance(value, list):
            open_ends.extend(reversed(value))
        elif isinstance(value, dict):
            for name, member in value.items():
                if name in _SIDECHAIN and member is True:
                    return f"{name} is true"
                if name in _PARENT_TOOL and isinstance(member, str) and member:
                    return f"{name} is set"
                if name in _RESPONSE_ID and isinstance(member, str) and member in children:
                    return f"{name} {member[:60]} is a response to a subagent"
            open_ends.extend(member for member in reversed(value.values()) if isinstance(member, dict | list))
    return None


def _child_responses(attempts: Collection[Path]) -> frozenset[str]:
    """Provider ids of the responses to children, in all attempts."""
    found: set[str] = set()
    for attempt, children in ((attempt, _participants(attempt, Role.CHILD)) for attempt in attempts):
        if children:
            found.update(
                head["response_id"]
                for _, head in _heads(attempt)
                if head.get("participant_id") in children and isinstance(head.get("response_id"), str)
            )
    return frozenset(found)


def _foreign_root_call(attempt: Path) -> str | None:
    roots = _participants(attempt, Role.ROOT)
    if not roots:
        return None
    for number, head in _heads(attempt):
        identity = head.get("native_identity")
        agent = identity.get("agent_id") if isinstance(identity, dict) else None
        if head.get("participant_id") in roots and agent:
            return f"line {number} names agent {str(agent)[:60]}"
    return None


def _participants(attempt: Path, role: Role) -> frozenset[str]:
    if not (attempt / MANIFEST).exists():
        return frozenset()
    try:
        participants = read_manifest(attempt).get("participants")
    except RollerError:
        return frozenset()
    items = [item for item in participants if isinstance(item, dict)] if isinstance(participants, list) else []
    named = (item.get("participant_id") for item in items if item.get("role") == role)
    return frozenset(name for name in named if isinstance(name, str))


def _heads(attempt: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The calls' heads, in any layout. What cannot be read is another check's finding."""
    with contextlib.suppress(OSError, RollerError, json_text.JsonError, KeyError, TypeError, ValueError):
        manifest = read_manifest(attempt)
        layout = layout_of(attempt, manifest)
        if layout is Layout.CURRENT:
            with CallFile(calls_path(attempt, manifest), size=expanded_size(manifest)) as calls:
                # A length that a client told may lead past a call, and this decides whether a sample may be used.
                heads = calls.heads(trust_lengths=False)
                yield from ((head.number, head.head) for head in heads if head.head is not None)
        elif layout is not None:
            yield from (
                (int(line.where.rpartition(":")[2]), line.head)
                for line in read_old_attempt(attempt, layout, manifest).calls()
            )
