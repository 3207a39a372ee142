"""Gathers what a published attempt says, without its contexts: manifest, call heads, relations, and what is wrong.

Every record is checked against its schema first, so all that follows may rely on the shapes. A manifest that is no
manifest raises; a damaged line becomes a finding, and the rest is kept.
"""

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.call_heads import CallFile, Head
from roller_capture.errors import RollerError
from roller_capture.old_layouts import Layout, layout_of, read_old_attempt
from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from roller_capture.published import (
    calls_path,
    expanded_size,
    how_to_restore,
    is_regular_file,
    read_manifest,
    relation_lines,
    require_published,
)
from roller_capture.schemas import schema_findings
from roller_capture.view.provider_words import Tokens, finish_word, token_counts
from roller_capture.view.run_end import RunEnd, run_end
from roller_capture.view.stopped import stopped_by_collect
from roller_capture.vocabulary import ExportStatus

_LONGEST: Final = 1e15
"""Milliseconds."""

_LEFT_OUT: Final = ("output", "context", "context_raw")
_LIFECYCLE_OF_OLD_RECORDS: Final = {"status": "unknown", "pending_participant_ids": []}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its record without `output` and `context`, and what its output says."""

    record: dict[str, Any]
    finish: str | None
    tokens: Tokens

    @property
    def call_id(self) -> str:
        """Its id."""
        return str(self.record["call_id"])

    @property
    def number(self) -> int:
        """Its place in the order of arrival: for reading."""
        return int(self.record["sequence"])

    @property
    def milliseconds(self) -> float | None:
        """How long it took. A record can hold an integer that no float can: such a one is cut."""
        value = self.record["timing"]["duration_ms"]
        return None if value is None else float(max(-_LONGEST, min(value, _LONGEST)))

    @property
    def exportable(self) -> bool:
        """May it enter per-call export?"""
        return bool(self.record["export_status"] == ExportStatus.EXPORTABLE)


@dataclass(slots=True)
class Attempt:
    """A published attempt. `findings` are (file, what is wrong); `lifecycle` is `None` in old records; `stopped` says
    that `collect` itself has stopped the harness, `end` how the run ended when it did not end well."""

    path: Path
    manifest: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)
    stopped: bool = False
    end: RunEnd | None = None

    @property
    def lifecycle(self) -> dict[str, Any] | None:
        """The manifest's member, which old records lack."""
        return self.manifest.get("lifecycle")

    def wall_seconds(self) -> float | None:
        """From the first request's start to the last end of an exchange."""
        starts = [call.record["timing"]["request_start"] for call in self.calls]
        ends = [call.record["timing"]["end"] for call in self.calls]
        first = min((item for item in starts if item is not None), default=None)
        last = max((item for item in ends if item is not None), default=None)
        try:
            return None if first is None or last is None else (_moment(last) - _moment(first)).total_seconds()
        except ValueError:  # the form of a time, but no time: month 13
            return None


def load_attempt(path: Path) -> Attempt:
    """Reads the attempt in `path`. Raises `RollerError` (exit 1) when it is not published or has no usable manifest."""
    require_published(path)
    manifest, layout = _read_manifest(path)
    if layout is not Layout.CURRENT:
        return _load_old(path, layout, manifest)
    attempt = Attempt(path, _checked_manifest(path, manifest))
    attempt.stopped = stopped_by_collect(path, attempt.manifest)
    attempt.end = run_end(path, attempt.manifest)
    _check_size(attempt, calls_path(path, manifest).name)
    _check_size(attempt, RELATIONS)
    _load_calls(attempt)
    _load_relations(attempt)
    _check_owners(attempt)
    return attempt


def finding_lines(attempt: Attempt) -> list[str]:
    """One line for each finding: the file, what is wrong, what to do."""
    return [f"{attempt.path / name}: {message}: {_what_to_do(attempt.path)}" for name, message in attempt.findings]


def _what_to_do(path: Path) -> str:
    return (
        f"run roller-capture validate {shlex.quote(str(path))} to see all that is damaged, and {how_to_restore(path)}"
    )


def _read_manifest(path: Path) -> tuple[dict[str, Any], Layout]:
    try:
        manifest = read_manifest(path)
    except RollerError as error:
        raise RollerError(f"{error}: {_what_to_do(path)}") from None
    layout = layout_of(path, manifest)
    if layout is None:
        schema, named = manifest.get("schema"), manifest.get("storage_layout")
        raise RollerError(
            f"{path / MANIFEST}: format {_short(schema)}, layout {_short(named)} cannot be shown by this version:"
            " use the roller-capture that wrote it"
        )
    return manifest, layout


def _checked_manifest(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    complete = {"lifecycle": _LIFECYCLE_OF_OLD_RECORDS, **manifest}
    problem = next(schema_findings("roller.capture.v1.json", complete), None)
    if problem is not None:
        raise RollerError(f"{path / MANIFEST}: is no valid manifest ({problem}): {_what_to_do(path)}")
    return manifest


def _load_old(path: Path, layout: Layout, manifest: dict[str, Any]) -> Attempt:
    """An attempt of an earlier layout, as if it had today's."""
    try:
        old = read_old_attempt(path, layout, manifest)
        attempt = Attempt(path, _checked_manifest(path, old.known_manifest()))
        for number, line in enumerate(old.calls(), 1):
            _take_call(attempt, Head(number, line.head, None), where=line.where)
        known = {item["participant_id"] for item in attempt.manifest["participants"]}
        for number, relation in old.relations():
            problem = next(schema_findings("roller.relation.v1.json", relation), None)
            _take_relation(attempt, known, f"{RELATIONS}:{number}", relation, problem)
    except (OSError, json_text.JsonError, KeyError, TypeError, ValueError) as error:
        damage = f"an attempt of layout {layout} that cannot be read ({error})"
        raise RollerError(f"{path}: {damage}: {how_to_restore(path)}") from None
    if not old.has_lifecycle:
        del attempt.manifest["lifecycle"]
    _check_owners(attempt)
    return attempt


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _check_size(attempt: Attempt, name: str) -> None:
    """The cheap half of the integrity check; hashes are validate's."""
    listed = attempt.manifest["files"].get(name)
    path = attempt.path / name
    if listed is not None and is_regular_file(path) and path.stat().st_size != listed["bytes"]:
        actual = path.stat().st_size
        attempt.findings.append((name, f"has {actual} bytes, the manifest says {listed['bytes']}: it was changed"))


def _load_calls(attempt: Attempt) -> None:
    path = calls_path(attempt.path, attempt.manifest)
    try:
        with CallFile(path, size=expanded_size(attempt.manifest)) as file:
            for head in file.heads():
                _take_call(attempt, head)
            if len(attempt.calls) != attempt.manifest["counts"]["calls"]:
                # A wrong length in a record may have led past a line.
                _forget_calls(attempt)
                for head in file.heads(trust_lengths=False):
                    _take_call(attempt, head)
    except OSError as error:
        attempt.findings.append((path.name, f"cannot be read ({error.strerror or error})"))


def _forget_calls(attempt: Attempt) -> None:
    attempt.calls.clear()
    attempt.findings = [(name, message) for name, message in attempt.findings if not name.startswith(f"{CALLS}:")]


def _take_call(attempt: Attempt, line: Head, where: str | None = None) -> None:
    where = where or f"{CALLS}:{line.number}"
    if line.problem is not None:
        attempt.findings.append((where, line.problem))
    if line.head is None:
        return
    problem = next(schema_findings("roller.call.v1.json", {**line.head, "output": None, "context": None}), None)
    if problem is not None:
        attempt.findings.append((where, f"no valid call record ({problem})"))
        return
    finish = finish_word(line.head["protocol"], line.head.get("output"))
    record = {key: value for key, value in line.head.items() if key not in _LEFT_OUT}
    attempt.calls.append(Call(record, finish, token_counts(record["usage"])))


def _load_relations(attempt: Attempt) -> None:
    known = {item["participant_id"] for item in attempt.manifest["participants"]}
    for where, relation, problem in _relations(attempt.path / RELATIONS):
        _take_relation(attempt, known, where, relation, problem)


def _take_relation(
    attempt: Attempt, known: Collection[str], where: str, relation: dict[str, Any], problem: str | None
) -> None:
    if problem is not None:
        attempt.findings.append((where, problem))
    elif relation["child_participant_id"] not in known:
        attempt.findings.append((where, "its child is not in the manifest"))
    else:
        attempt.relations.append(relation)


def _relations(path: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """(file and line, relation, what is wrong); a line that is no JSON ends it."""
    if not is_regular_file(path):
        yield RELATIONS, {}, "is no regular file" if path.exists() else "is missing"
        return
    try:
        for number, relation in relation_lines(path):
            problem = next(schema_findings("roller.relation.v1.json", relation), None)
            yield f"{RELATIONS}:{number}", relation, problem and f"no valid relation record ({problem})"
    except (json_text.JsonError, OSError) as error:
        yield RELATIONS, {}, str(error)


def _check_owners(attempt: Attempt) -> None:
    """The calls are those that the manifest names, each once."""
    manifest = attempt.manifest
    ids = {call.call_id for call in attempt.calls}
    claimed = [call_id for item in manifest["participants"] for call_id in item["call_ids"]]
    missing = sum(call_id not in ids for call_id in claimed)
    if missing:
        attempt.findings.append((MANIFEST, f"names {missing} calls that {CALLS} does not hold"))
    if len(ids) != len(attempt.calls):
        attempt.findings.append((CALLS, "call_id is not unique"))
    if len(attempt.calls) != manifest["counts"]["calls"]:
        message = f"{len(attempt.calls)} calls can be read, the manifest counts {manifest['counts']['calls']}"
        attempt.findings.append((CALLS, message))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
