"""Validates a published attempt: schema, hashes, references, and that its statuses follow from its records.

Returns findings and prints nothing. `validate_attempt` is CI's check and Resume's gate (design sections 3 and 9).
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture import evidence_check, json_text
from roller_capture.call_heads import CallFile
from roller_capture.errors import RollerError
from roller_capture.publication import CALLS, FORMAL_FILES, MANIFEST, RAW, RELATIONS, STAGING_PREFIX
from roller_capture.published import CallLine, call_lines, read_manifest, relation_lines
from roller_capture.records import CAPTURE_SCHEMA, STORAGE_LAYOUT
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import CaptureStatus, IdentityStatus, ParentCallStatus, Purpose, StatusReason
from roller_capture.working_files import WORK_DIR

_PIECE: Final = 1024 * 1024
_NO_CONTEXT: Final = memoryview(b"")


class Finding(NamedTuple):
    """One thing that is wrong: the file, where in it, and what."""

    file: str
    message: str


@dataclass(slots=True)
class _Seen:
    """What the records say, gathered for the cross-checks."""

    owners: dict[str, str | None] = field(default_factory=dict)
    tool_ids: dict[str, frozenset[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    execution: Counter[str] = field(default_factory=Counter)
    identity: Counter[str] = field(default_factory=Counter)
    capture: Counter[str] = field(default_factory=Counter)
    exportable: int = 0
    relations: Counter[str] = field(default_factory=Counter)
    partial: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    unattributed: set[str] = field(default_factory=set)
    side_calls: set[str] = field(default_factory=set)
    pointers: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    receivers: list[tuple[int, str, str | None]] = field(default_factory=list)
    parents: list[tuple[int, str, dict[str, Any] | None]] = field(default_factory=list)


def validate_attempt(attempt_dir: Path, *, deep: bool = False, rehash: bool = True) -> list[Finding]:
    """Everything that is wrong with a published attempt; empty means valid.

    `deep` also parses every context, checks it against its hash, and resolves every context pointer and every evidence
    locator in `raw/`. `rehash=False` is for files that this process has just hashed while it wrote them.
    """
    try:
        manifest = read_manifest(attempt_dir)
    except RollerError as error:
        return [Finding(MANIFEST, str(error))]
    version = manifest.get("schema")
    if version != CAPTURE_SCHEMA or manifest.get("storage_layout") != STORAGE_LAYOUT:
        message = f"format {version!r}, layout {manifest.get('storage_layout')!r} cannot be checked by this version"
        return [Finding(MANIFEST, message)]
    findings = [Finding(MANIFEST, line) for line in schema_findings("roller.capture.v1.json", manifest)]
    if findings:
        return findings
    findings += _check_files(attempt_dir, manifest, rehash=rehash)
    if any(finding.file in FORMAL_FILES for finding in findings):
        return findings
    seen = _Seen()
    findings += _guarded(RELATIONS, lambda: _check_relations(attempt_dir, manifest, seen))
    findings += _guarded(CALLS, lambda: _check_calls(attempt_dir, manifest, seen, deep=deep))
    findings += _check_references(seen)
    findings += _check_manifest(manifest, seen)
    if deep and not findings and manifest["raw_retained"]:
        findings += [Finding(file, message) for file, message in evidence_check.check(attempt_dir, manifest)]
    return findings


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Runs a check over a file of lines; a damaged line ends it with a finding."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (json_text.JsonError, OSError) as error:
        found.append(Finding(name, str(error)))
    return found


def _check_files(attempt_dir: Path, manifest: dict[str, Any], *, rehash: bool) -> Iterator[Finding]:
    """Every listed file is there, regular, and unchanged; nothing else is there."""
    files: dict[str, dict[str, Any]] = manifest["files"]
    for name in FORMAL_FILES:
        if name not in files:
            yield Finding(name, "the manifest does not list it")
    for name, expected in files.items():
        if not _is_safe(name) or name == MANIFEST:
            yield Finding(MANIFEST, f"files names {name!r}, which is no path of a published file")
            continue
        problem = _file_problem(attempt_dir / name, expected, rehash=rehash)
        if problem is not None:
            yield Finding(name, problem)
    if manifest["raw_retained"] != any(name.startswith(f"{RAW}/") for name in files):
        yield Finding(MANIFEST, "raw_retained does not say whether raw/ is there")
    yield from _unlisted(attempt_dir, set(files) | {MANIFEST})


def _is_safe(name: str) -> bool:
    parts = name.split("/")
    return not any(part in ("", ".", "..") for part in parts) and (name in FORMAL_FILES or parts[0] == RAW)


def _file_problem(path: Path, expected: dict[str, Any], *, rehash: bool) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return "is no regular file"
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb") as stream:
        if status.st_size != expected["bytes"]:
            return f"has {status.st_size} bytes, the manifest says {expected['bytes']}"
        if not rehash:
            return None
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return None if digest.hexdigest() == expected["sha256"] else "was changed: its sha256 is not the manifest's"


def _unlisted(attempt_dir: Path, listed: set[str]) -> Iterator[Finding]:
    folders = {parent for name in listed for parent in map(str, Path(name).parents)}
    for base, names, file_names in os.walk(attempt_dir):
        relative = Path(base).relative_to(attempt_dir)
        for name in list(names):
            path = (relative / name).as_posix()
            if (Path(base) / name).is_symlink():
                yield Finding(path, "is a link")
            elif path == WORK_DIR or path.startswith(STAGING_PREFIX):
                yield Finding(path, "working files are left: run finalize again")
            elif path not in folders:
                yield Finding(path, "is not in the manifest")
            else:
                continue
            names.remove(name)
        for name in file_names:
            path = (relative / name).as_posix()
            if path not in listed:
                yield Finding(path, "is not in the manifest")


def _check_calls(attempt_dir: Path, manifest: dict[str, Any], seen: _Seen, *, deep: bool) -> Iterator[Finding]:
    participants = {item["participant_id"] for item in manifest["participants"]}
    sequences: set[int] = set()
    for line in call_lines(attempt_dir / CALLS) if deep else _heads(attempt_dir / CALLS):
        where = f"{CALLS}:{line.number}"
        # The two open members, which may be large, are left out of the check of the envelope.
        problems = list(schema_findings("roller.call.v1.json", {**line.head, "output": None, "context": None}))
        yield from (Finding(where, problem) for problem in problems)
        if problems:
            continue
        call = line.head
        if call["call_id"] in seen.owners or call["sequence"] in sequences:
            yield Finding(where, "call_id or sequence is not unique")
        for named in (call["participant_id"], *call["identity_candidates"]):
            if named is not None and named not in participants:
                yield Finding(where, f"participant {named} is not in the manifest")
        path = call["response_path"]
        if path is not None and path not in manifest["files"]:
            yield Finding(where, f"response_path {path} is no published file")
        if deep and "context_raw" in call and bytes(line.context[:5]) != b"null":
            yield Finding(where, "context and context_raw are both there")
        sequences.add(call["sequence"])
        _gather(call, line.number, seen)
        if deep:
            yield from _check_context(line, where, seen)


def _heads(path: Path) -> Iterator[CallLine]:
    """The lines without their contexts, which the hash has vouched for. No length that the file tells is trusted."""
    with CallFile(path) as calls:
        for head in calls.heads(trust_lengths=False):
            if head.head is None or head.problem is not None:
                raise json_text.JsonError(f"line {head.number}: {head.problem}")
            yield CallLine(head.number, head.head, _NO_CONTEXT)


def _gather(call: dict[str, Any], number: int, seen: _Seen) -> None:
    call_id = call["call_id"]
    seen.owners[call_id] = call["participant_id"]
    seen.lines[call_id] = number
    seen.tool_ids[call_id] = frozenset(ref["tool_call_id"] for ref in call["tool_refs"] if ref["tool_call_id"])
    seen.execution[call["execution_status"]] += 1
    seen.identity[call["identity_status"]] += 1
    seen.capture[call["capture_status"]] += 1
    seen.exportable += call["export_status"] == "exportable"
    if call["capture_status"] != CaptureStatus.COMPLETE:
        seen.partial.append(call_id)
    if call["identity_status"] == IdentityStatus.AMBIGUOUS:
        seen.ambiguous.append(call_id)
    if call["identity_status"] == IdentityStatus.UNATTRIBUTED:
        seen.unattributed.add(call_id)
    if call["purpose"] not in (Purpose.AGENT, Purpose.UNKNOWN):
        seen.side_calls.add(call_id)


def _check_context(line: CallLine, where: str, seen: _Seen) -> Iterator[Finding]:
    call = line.head
    try:
        context = json_text.parse(bytes(line.context), exact_numbers=False)
    except json_text.JsonError as error:
        yield Finding(where, f"context is no JSON: {error}")
        return
    exact = "context_raw" not in call and call["context_exact"]
    if exact and hashlib.sha256(line.context).hexdigest() != call["context_sha256"]:
        yield Finding(where, "context is not the text of context_sha256")
    for number, place in seen.pointers.get(call["call_id"], ()):
        try:
            json_text.resolve_pointer(context, place)
        except LookupError:
            yield Finding(f"{RELATIONS}:{number}", f"context_pointer {place} names nothing in {call['call_id']}")


def _check_relations(attempt_dir: Path, manifest: dict[str, Any], seen: _Seen) -> Iterator[Finding]:
    participants = {item["participant_id"] for item in manifest["participants"]}
    ids: set[str] = set()
    for number, relation in relation_lines(attempt_dir / RELATIONS):
        where = f"{RELATIONS}:{number}"
        problems = list(schema_findings("roller.relation.v1.json", relation))
        yield from (Finding(where, problem) for problem in problems)
        if problems:
            continue
        if relation["relation_id"] in ids:
            yield Finding(where, "relation_id is not unique")
        ids.add(relation["relation_id"])
        seen.relations[relation["type"]] += 1
        for name in ("parent_participant_id", "child_participant_id", "receiver_participant_id"):
            if relation[name] is not None and relation[name] not in participants:
                yield Finding(where, f"{name} {relation[name]} is not in the manifest")
        if relation["context_call_id"] is not None:
            receiver = relation["receiver_participant_id"] or relation["parent_participant_id"]
            seen.pointers.setdefault(relation["context_call_id"], []).append((number, relation["context_pointer"]))
            seen.receivers.append((number, relation["context_call_id"], receiver))
        if relation["parent_call_status"] == ParentCallStatus.RESOLVED:
            seen.parents.append((number, relation["parent_call_id"], relation["model_tool_ref"]))


def _check_references(seen: _Seen) -> Iterator[Finding]:
    """Relations point to calls that exist, of the participant that the relation says."""
    for number, call_id, receiver in seen.receivers:
        where = f"{RELATIONS}:{number}"
        if call_id not in seen.owners:
            yield Finding(where, f"context_call_id {call_id} is no call")
        elif seen.owners[call_id] != receiver:
            yield Finding(where, f"context_call_id {call_id} is no call of the receiver")
    for number, call_id, ref in seen.parents:
        where = f"{RELATIONS}:{number}"
        if call_id not in seen.owners:
            yield Finding(where, f"parent_call_id {call_id} is no call")
        elif ref is None or ref["call_id"] not in seen.tool_ids[call_id]:
            yield Finding(where, f"parent_call_id {call_id} did not make this tool call")


def _check_manifest(manifest: dict[str, Any], seen: _Seen) -> Iterator[Finding]:
    """The manifest's totals, owners and statuses are those of the records."""
    claimed = [(call_id, item["participant_id"]) for item in manifest["participants"] for call_id in item["call_ids"]]
    owned = {call_id: owner for call_id, owner in seen.owners.items() if owner is not None}
    if dict(claimed) != owned or len(claimed) != len(owned):
        yield Finding(MANIFEST, "participants' call_ids are not the owners in calls.jsonl")
    counts = manifest["counts"]
    actual = {
        "calls": len(seen.owners),
        "exportable_calls": seen.exportable,
        "execution_status": dict(seen.execution),
        "identity_status": dict(seen.identity),
        "capture_status": dict(seen.capture),
        "participants": len(manifest["participants"]),
        "relations": dict(seen.relations),
    }
    for name, value in actual.items():
        if counts[name] != value:
            yield Finding(MANIFEST, f"counts.{name} is {counts[name]}, the records have {value}")
    reasons = {reason["code"]: reason for reason in manifest["status_reasons"]}
    if (manifest["capture_status"] == CaptureStatus.COMPLETE) != (not reasons):
        yield Finding(MANIFEST, "capture_status and status_reasons contradict each other")
    for code, call_ids in (
        (StatusReason.CALL_INCOMPLETE, seen.partial),
        (StatusReason.IDENTITY_AMBIGUOUS, seen.ambiguous),
    ):
        if reasons.get(code, {"call_ids": []})["call_ids"] != call_ids:
            yield Finding(MANIFEST, f"status_reasons does not name the calls of {code}")
    # Calls that the harness itself marks as side calls need no owner, so these may be fewer.
    unattributed = reasons.get(StatusReason.IDENTITY_UNATTRIBUTED, {"call_ids": []})["call_ids"]
    agent_calls = seen.unattributed - seen.side_calls
    if not agent_calls <= set(unattributed) <= seen.unattributed:
        yield Finding(MANIFEST, "status_reasons does not name the calls of identity_unattributed")
    if manifest["errors"] and StatusReason.ERRORS not in reasons:
        yield Finding(MANIFEST, "errors are listed, but are no status reason")
    yield from _check_derived(manifest, reasons)


def _check_derived(manifest: dict[str, Any], reasons: dict[str, Any]) -> Iterator[Finding]:
    """Coverage and lifecycle lower the whole exactly when they should."""
    coverage = manifest["capabilities"]["native_output_coverage"]
    lifecycle = manifest["lifecycle"]["status"]
    expected = {
        StatusReason.COVERAGE_INCOMPLETE: coverage["status"] == "incomplete",
        StatusReason.COVERAGE_UNKNOWN: coverage["status"] == "unknown",
        StatusReason.LIFECYCLE_PENDING: lifecycle == "pending",
        StatusReason.LIFECYCLE_UNKNOWN: lifecycle == "unknown",
    }
    for code, holds in expected.items():
        if holds != (code in reasons):
            yield Finding(MANIFEST, f"status reason {code} does not follow from coverage and lifecycle")
    if coverage["missing"] and coverage["status"] == "complete":
        yield Finding(MANIFEST, "coverage is complete although outputs are missing")
    if manifest["lifecycle"]["pending_participant_ids"] and lifecycle == "complete":
        yield Finding(MANIFEST, "lifecycle is complete although participants are pending")
