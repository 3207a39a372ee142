"""Reads a published attempt of an earlier layout as if it had today's."""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture import json_text
from roller_capture.old_layouts.calls import upgraded_call
from roller_capture.old_layouts.layout import PARTICIPANTS, Layout
from roller_capture.publication import CALLS, RAW, RELATIONS
from roller_capture.published import is_regular_file, relation_lines, split_line
from roller_capture.records import RECORDS, STORAGE_LAYOUT
from roller_capture.vocabulary import (
    CaptureStatus,
    CoverageStatus,
    CoverageStrength,
    DebugRetention,
    DeliveryKind,
    ExecutionStatus,
    ExportStatus,
    IdentityStatus,
    LifecycleStatus,
    ParentCallStatus,
    RelationType,
    Role,
    StatusReason,
    SubtaskSupport,
)

Record = dict[str, Any]

_RELATION_MEMBERS: Final[Record] = {
    "receiver_participant_id": None,
    "tool_call_id": None,
    "model_tool_ref": None,
    "task_index": None,
    "delegation": 1,
    "parent_call_id": None,
    "delivery": None,
    "context_call_id": None,
    "context_pointer": None,
    "outcome": None,
}
_COVERAGE: Final[Record] = {
    "key": "none",
    "strength": CoverageStrength.NONE,
    "expected": 0,
    "observed": 0,
    "missing": [],
    "surplus_calls": 0,
    "status": CoverageStatus.UNKNOWN,
    "protocol_count": None,
}
_DELIVERED: Final = frozenset({RelationType.RESULT_DELIVERED, RelationType.RESULT_IN_CONTEXT})
_ENDED: Final = frozenset({RelationType.CHILD_COMPLETED, RelationType.CHILD_FAILED})


class OldLine(NamedTuple):
    """A call line: `CALLS_FILE:NUMBER` for people, the upgraded head, the context's own text."""

    where: str
    head: Record
    context: bytes


@dataclass(frozen=True, slots=True)
class OldAttempt:
    """An old attempt. `manifest` is complete; `has_lifecycle` and `has_coverage` tell what it said itself."""

    directory: Path
    layout: Layout
    manifest: Record
    has_lifecycle: bool
    has_coverage: bool

    def known_manifest(self) -> Record:
        """The manifest without members that today's schema does not know; every file with hash and size."""
        manifest = _known_members("roller.capture.v1.json", self.manifest)
        return {**manifest, "files": _with_sizes(self.directory, manifest["files"])}

    def calls(self) -> Iterator[OldLine]:
        """Every call, one in memory at a time. Raises `OSError`, and `json_text.JsonError` for a damaged line."""
        for line in _calls(self.directory, self.layout):
            yield line._replace(head=_known_members("roller.call.v1.json", line.head))

    def relations(self) -> Iterator[tuple[int, Record]]:
        """Every relation with its line number. Raises like `calls`."""
        for number, relation in _relations(self.directory):
            yield number, _known_members("roller.relation.v1.json", relation)


def read_old_attempt(attempt_dir: Path, layout: Layout, manifest: Record) -> OldAttempt:
    """Reads all heads once, to know what the manifest lacks. Raises `OSError` and `json_text.JsonError`."""
    totals = _Totals()
    for line in _calls(attempt_dir, layout):
        totals.add_call(line.head)
    for _, relation in _relations(attempt_dir):
        totals.add_relation(relation)
    complete = _complete_manifest(attempt_dir, manifest, totals)
    capabilities = manifest.get("capabilities")
    return OldAttempt(
        attempt_dir,
        layout,
        complete,
        has_lifecycle="lifecycle" in manifest,
        has_coverage=isinstance(capabilities, dict) and "native_output_coverage" in capabilities,
    )


def _known_members(schema: str, record: Record) -> Record:
    names = {field.alias or name for name, field in RECORDS[schema].model_fields.items()}
    return {name: value for name, value in record.items() if name in names}


def _with_sizes(attempt_dir: Path, files: Any) -> Any:
    """Early manifests list a file by its hash alone."""
    if not isinstance(files, dict):
        return files
    return {
        name: {"sha256": value, "bytes": _size(attempt_dir / name)} if isinstance(value, str) else value
        for name, value in files.items()
    }


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except (OSError, ValueError):  # ValueError: what no file can be named
        return 0


def call_files(attempt_dir: Path, layout: Layout) -> Iterator[tuple[str, str | None]]:
    """(relative path, participant) of each file of call lines; the participant is that of its folder."""
    if layout is Layout.BY_PARTICIPANT:
        for folder in sorted((attempt_dir / PARTICIPANTS).iterdir()):
            if not folder.is_symlink() and is_regular_file(folder / CALLS):
                yield f"{PARTICIPANTS}/{folder.name}/{CALLS}", folder.name
    if layout is not Layout.BY_PARTICIPANT or is_regular_file(attempt_dir / CALLS):
        yield CALLS, None


class _RawLine(NamedTuple):
    where: str
    owner: str | None
    head: Record
    context: memoryview

    @property
    def order(self) -> float:
        sequence = self.head.get("sequence")
        return sequence if isinstance(sequence, int) else math.inf


def _calls(attempt_dir: Path, layout: Layout) -> Iterator[OldLine]:
    """The calls in the order in which they reached the proxy, where they tell it."""
    files = [_file_lines(attempt_dir, name, owner) for name, owner in call_files(attempt_dir, layout)]
    for number, line in enumerate(heapq.merge(*files, key=lambda line: line.order), 1):
        asked = _asked_model(line.context) if "model" not in line.head else None
        head = upgraded_call(line.head, owner=line.owner, number=number, asked=asked)
        yield OldLine(line.where, head, bytes(line.context))


def _file_lines(attempt_dir: Path, name: str, owner: str | None) -> Iterator[_RawLine]:
    if not is_regular_file(attempt_dir / name):
        raise OSError(f"{name} is missing or no regular file")
    with (attempt_dir / name).open("rb") as stream:
        for place, line in enumerate(stream, 1):
            try:
                head, context = split_line(line)
            except json_text.JsonError as error:
                raise json_text.JsonError(f"{name}:{place}: {error}") from None
            yield _RawLine(f"{name}:{place}", owner, head, context)


def _asked_model(context: memoryview) -> str | None:
    value = json_text.parse(bytes(context), exact_numbers=False)
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def _relations(attempt_dir: Path) -> Iterator[tuple[int, Record]]:
    path = attempt_dir / RELATIONS
    if not path.exists() and not path.is_symlink():
        return
    if not is_regular_file(path):
        raise OSError(f"{RELATIONS} is no regular file")
    for number, relation in relation_lines(path):
        record = {"schema": "roller.relation/v1", **_RELATION_MEMBERS, **relation}
        resolved = record["parent_call_id"] is not None
        record.setdefault("parent_call_status", ParentCallStatus.RESOLVED if resolved else ParentCallStatus.UNKNOWN)
        yield number, record


class _Totals:
    """What the records say of the whole."""

    def __init__(self) -> None:
        self.owners: dict[str, list[str]] = {}
        self.statuses: dict[str, Counter[str]] = {
            name: Counter() for name in ("execution_status", "identity_status", "capture_status")
        }
        self.calls = 0
        self.exportable = 0
        self.relations: Counter[str] = Counter()
        self.parents: dict[str, str | None] = {}
        self.ended: set[str] = set()
        self.delivered: set[str] = set()
        self.by_reason: dict[str, list[str]] = {}

    def add_call(self, head: Record) -> None:
        self.calls += 1
        self.exportable += head["export_status"] == ExportStatus.EXPORTABLE
        for name, counter in self.statuses.items():
            counter[str(head[name])] += 1
        call_id = str(head.get("call_id"))
        if isinstance(head["participant_id"], str):
            self.owners.setdefault(head["participant_id"], []).append(call_id)
        for reason, holds in (
            (StatusReason.CALL_INCOMPLETE, head["capture_status"] != CaptureStatus.COMPLETE),
            (StatusReason.IDENTITY_AMBIGUOUS, head["identity_status"] == IdentityStatus.AMBIGUOUS),
            (StatusReason.IDENTITY_UNATTRIBUTED, head["identity_status"] == IdentityStatus.UNATTRIBUTED),
        ):
            if holds:
                self.by_reason.setdefault(reason, []).append(call_id)

    def add_relation(self, relation: Record) -> None:
        kind, child = str(relation.get("type")), str(relation.get("child_participant_id"))
        self.relations[kind] += 1
        if kind == RelationType.SPAWN:
            self.parents.setdefault(child, relation.get("parent_participant_id"))
        if kind in _ENDED:
            self.ended.add(child)
        delivery = relation["delivery"]
        if kind in _DELIVERED and isinstance(delivery, dict) and delivery.get("kind") in set(DeliveryKind):
            self.delivered.add(child)

    def reasons(self) -> list[Record]:
        return [{"code": code, "count": len(ids), "call_ids": ids} for code, ids in self.by_reason.items()]


def _complete_manifest(attempt_dir: Path, manifest: Record, totals: _Totals) -> Record:
    participants = _participants(manifest, totals)
    raw = (attempt_dir / RAW).is_dir()
    complete: Record = {
        "capture_id": attempt_dir.name,
        "started_at": None,
        "closed_at": None,
        "execution_status": ExecutionStatus.UNKNOWN,
        "debug_retention": DebugRetention.FULL if raw else DebugRetention.OFF,
        "raw_retained": raw,
        "lifecycle": _lifecycle(participants, totals),
        "other_requests": {},
        "errors": [],
        "files": {},
        "counts": _counts(totals, len(participants)),
        "tool": {"name": "roller-capture", "version": "0", "recorder_version": None},
        **manifest,
        "storage_layout": STORAGE_LAYOUT,
        "participants": participants,
        "capabilities": _capabilities(manifest),
        "harness": _harness(manifest.get("harness")),
    }
    complete.setdefault("capture_status", CaptureStatus.PARTIAL)
    complete.setdefault("status_reasons", totals.reasons())
    return complete


def _participants(manifest: Record, totals: _Totals) -> list[Record]:
    listed = manifest.get("participants", [])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise TypeError("participants is no list of objects")
    records = list(listed)
    named = {item.get("participant_id") for item in records}
    records += [{"participant_id": owner} for owner in totals.owners if owner not in named]
    return [_participant(item, totals) for item in records]


def _participant(item: Record, totals: _Totals) -> Record:
    name = str(item.get("participant_id"))
    parent = item.get("parent_participant_id", totals.parents.get(name))
    child = name in totals.parents or parent is not None
    record: Record = {
        "parent_participant_id": parent,
        "role": Role.CHILD if child else Role.ROOT,
        "native_ids": {},
        "execution_status": ExecutionStatus.UNKNOWN,
        "identity_status": IdentityStatus.RESOLVED,
        "call_ids": totals.owners.get(name, []),
        **item,
    }
    ids = record["native_ids"]
    if isinstance(ids, dict):
        record["native_ids"] = {key: [value] if isinstance(value, str) else value for key, value in ids.items()}
    return record


def _lifecycle(participants: list[Record], totals: _Totals) -> Record:
    """An old record says nothing of it: complete only where its relations prove it for every child."""
    children = [item["participant_id"] for item in participants if item["role"] != Role.ROOT]
    proven = all(child in totals.ended and child in totals.delivered for child in children)
    return {"status": LifecycleStatus.COMPLETE if proven else LifecycleStatus.UNKNOWN, "pending_participant_ids": []}


def _counts(totals: _Totals, participants: int) -> Record:
    return {
        "calls": totals.calls,
        "exportable_calls": totals.exportable,
        **{name: dict(counter) for name, counter in totals.statuses.items()},
        "participants": participants,
        "relations": dict(totals.relations),
    }


def _capabilities(manifest: Record) -> Record:
    given = manifest.get("capabilities")
    given = given if isinstance(given, dict) else {}
    coverage = given.get("native_output_coverage")
    coverage = coverage if isinstance(coverage, dict) else {}
    defaults = {"subtasks": SubtaskSupport.UNKNOWN, "identity": []}
    return {**defaults, **given, "native_output_coverage": {**_COVERAGE, **coverage}}


def _harness(value: Any) -> Any:
    if isinstance(value, dict):
        return {"name": "unknown", "version": None, "tested": False, **value}
    return {"name": value if isinstance(value, str) else "unknown", "version": None, "tested": False}
