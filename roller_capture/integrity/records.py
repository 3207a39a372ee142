"""The lines of calls.jsonl and relations.jsonl: each by its schema, and what they say of each other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture import json_text
from roller_capture.call_heads import CallFile
from roller_capture.calls_file import line_texts
from roller_capture.integrity.call_facts import CallFacts, facts_of, identity_headers
from roller_capture.integrity.context_rules import check_context, hash_contradictions, length_contradictions
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.form import call_form_problem
from roller_capture.integrity.status_rules import contradictions
from roller_capture.publication import CALLS, RELATIONS
from roller_capture.published import split_line
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import (
    CallErrorCode,
    CaptureStatus,
    IdentityStatus,
    ParentCallStatus,
    Purpose,
    ResponseCaptureStatus,
)


@dataclass(slots=True)
class Seen:
    """What the records say, gathered for the cross-checks."""

    owners: dict[str, str | None] = field(default_factory=dict)
    tool_ids: dict[str, frozenset[str]] = field(default_factory=dict)
    tool_refs: dict[str, frozenset[tuple[str | None, str | None]]] = field(default_factory=dict)
    records: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
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
    provider_tools: set[str] = field(default_factory=set)
    in_context: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    receivers: list[tuple[int, str, str | None]] = field(default_factory=list)
    parents: list[tuple[int, str, dict[str, Any] | None]] = field(default_factory=list)
    calls: list[CallFacts] = field(default_factory=list)
    without_file: list[str] = field(default_factory=list)


class Line(NamedTuple):
    """A call's line: where it stands, its number, its head, and the context's own text where it was read.

    `form` is why it is not written as we write it, where that was looked at.
    """

    where: str
    number: int
    head: dict[str, Any]
    context: memoryview | None
    form: str | None = None


def published_lines(path: Path, *, ours: bool = False) -> Iterator[Line]:
    """The lines of a file of calls. Raises `OSError`, and `json_text.JsonError` for a damaged line.

    `ours` also looks whether they are written as we write them.
    """
    for number, text in enumerate(line_texts(path), 1):
        try:
            record, context = split_line(text)
        except json_text.JsonError as error:
            raise json_text.JsonError(f"line {number}: {error}") from None
        form = call_form_problem(text, record, context) if ours else None
        yield Line(f"{CALLS}:{number}", number, record, context, form)


def published_heads(path: Path, ends: Sequence[int]) -> Iterator[Line]:
    """The lines without their contexts; `ends` are the offsets behind them as the writer tells. Raises as above."""
    # No length that the file tells is trusted: a client may have said another one than it sent.
    with CallFile(path) as calls:
        for head in calls.heads(trust_lengths=False, ends=ends):
            if head.head is None or head.problem is not None:
                raise json_text.JsonError(f"line {head.number}: {head.problem}")
            yield Line(f"{CALLS}:{head.number}", head.number, head.head, None)


def check_calls(
    lines: Iterable[Line], manifest: dict[str, Any], seen: Seen, *, derived: bool, deep: bool, ours: bool = False
) -> Iterator[Finding]:
    """Each call by its schema and against the manifest; what the relations need is gathered in `seen`.

    `derived` checks too that its statuses follow from what stands beside them, and `ours` what only our own recorder
    makes sure of. `deep` also parses the contexts.
    """
    participants = {item["participant_id"] for item in manifest["participants"]}
    sequences: set[int] = set()
    headers = identity_headers(manifest)
    made_here = derived and "migrated_from" not in manifest
    for line in lines:
        where = line.where
        # The two open members, which may be large, are left out of the check of the envelope.
        open_members = {name: None for name in ("output",) if name in line.head} | {"context": None}
        problems = list(schema_findings("roller.call.v1.json", {**line.head, **open_members}))
        yield from (Finding(where, problem) for problem in problems)
        if problems:
            continue
        if line.form is not None:
            yield Finding(where, line.form)
        call = line.head
        if call["call_id"] in seen.owners or call["sequence"] in sequences:
            yield Finding(where, "call_id or sequence is not unique")
        for named in (call["participant_id"], *call["identity_candidates"]):
            if named is not None and named not in participants:
                yield Finding(where, f"participant {named} is not in the manifest")
        path = call["response_path"]
        if path is not None and path not in manifest["files"]:
            yield Finding(where, f"response_path {path} is no published file")
        if derived:
            yield from (Finding(where, message) for message in contradictions(call))
        sequences.add(call["sequence"])
        _gather(call, line.number, seen)
        seen.calls.append(facts_of(call, line.number, headers))
        if line.context is not None:
            if made_here and ours and "supersedes" not in manifest:  # what was derived anew has no byte order marks
                yield from (Finding(where, message) for message in length_contradictions(call, line.context))
            yield from _context_findings(line, line.context, seen, made_here=made_here, deep=deep)


def _context_findings(line: Line, context: memoryview, seen: Seen, *, made_here: bool, deep: bool) -> Iterator[Finding]:
    call = line.head
    if made_here or ("context_raw" not in call and call["context_exact"]):
        yield from (Finding(line.where, message) for message in hash_contradictions(call, context))
    if deep:
        relations = seen.in_context.get(call["call_id"], ())
        yield from check_context(call, context, line.where, relations, seen.provider_tools)


def _gather(call: dict[str, Any], number: int, seen: Seen) -> None:
    call_id = call["call_id"]
    seen.owners[call_id] = call["participant_id"]
    seen.lines[call_id] = number
    seen.tool_ids[call_id] = frozenset(ref["tool_call_id"] for ref in call["tool_refs"] if ref["tool_call_id"])
    seen.provider_tools |= seen.tool_ids[call_id]
    seen.tool_refs[call_id] = frozenset((ref["tool_call_id"], ref["item_id"]) for ref in call["tool_refs"])
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
    if call["response_path"] is None and _has_response(call):
        seen.without_file.append(call_id)
    if call["purpose"] not in (Purpose.AGENT, Purpose.UNKNOWN):
        seen.side_calls.add(call_id)


_LOST: Final = frozenset(
    {
        CallErrorCode.BODY_FILE_MISSING,
        CallErrorCode.CREDENTIAL_MASKED,  # an answer that could not be searched for keys is not stored
        CallErrorCode.DISK_ERROR,
        CallErrorCode.RECORDER_ERROR,
    }
)


def _has_response(call: dict[str, Any]) -> bool:
    """Whether bytes of an answer were recorded, that is, there is a file of them where `raw/` is."""
    codes = {error["code"] for error in call["errors"]}
    lost = codes & _LOST or any(code.startswith("import_") for code in codes)
    return call["response_capture_status"] != ResponseCaptureStatus.MISSING and not lost


def check_relations(
    lines: Iterable[tuple[int, dict[str, Any]]], manifest: dict[str, Any], seen: Seen
) -> Iterator[Finding]:
    """Each relation by its schema and against the manifest; `seen` gathers what it says of calls."""
    participants = {item["participant_id"] for item in manifest["participants"]}
    ids: set[str] = set()
    for number, relation in lines:
        where = f"{RELATIONS}:{number}"
        problems = list(schema_findings("roller.relation.v1.json", relation))
        yield from (Finding(where, problem) for problem in problems)
        if problems:
            continue
        if relation["relation_id"] in ids:
            yield Finding(where, "relation_id is not unique")
        ids.add(relation["relation_id"])
        seen.records.append((number, relation))
        seen.relations[relation["type"]] += 1
        for name in ("parent_participant_id", "child_participant_id", "receiver_participant_id"):
            if relation[name] is not None and relation[name] not in participants:
                yield Finding(where, f"{name} {relation[name]} is not in the manifest")
        if relation["context_call_id"] is not None:
            receiver = relation["receiver_participant_id"] or relation["parent_participant_id"]
            seen.in_context.setdefault(relation["context_call_id"], []).append((number, relation))
            seen.receivers.append((number, relation["context_call_id"], receiver))
        if relation["parent_call_status"] == ParentCallStatus.RESOLVED:
            seen.parents.append((number, relation["parent_call_id"], relation["model_tool_ref"]))


def check_references(seen: Seen) -> Iterator[Finding]:
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
