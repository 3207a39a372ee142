"""Validates a published attempt: schema, hashes, references, and that its statuses follow from its records.

Returns findings and prints nothing. `validate_attempt` is CI's check and Resume's gate (design sections 3 and 9).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from roller_capture import __version__
from roller_capture.errors import RollerError
from roller_capture.integrity import evidence
from roller_capture.integrity.compression import check_compression
from roller_capture.integrity.coverage import check_coverage
from roller_capture.integrity.family import check_evidence_kept, check_family, check_manifest_members
from roller_capture.integrity.files import check_files
from roller_capture.integrity.findings import Finding, guarded
from roller_capture.integrity.form import check_form
from roller_capture.integrity.native_identity import check_native_ids
from roller_capture.integrity.numbering import check_numbering
from roller_capture.integrity.old_attempts import old_findings
from roller_capture.integrity.raw_files import check_raw
from roller_capture.integrity.records import (
    Seen,
    check_calls,
    check_references,
    check_relations,
    published_heads,
    published_lines,
)
from roller_capture.integrity.relation_rules import check_relation_rules
from roller_capture.integrity.totals import check_derived, check_manifest
from roller_capture.old_layouts import Layout, layout_of
from roller_capture.publication import CALLS, FORMAL_FILES, MANIFEST, RELATIONS
from roller_capture.published import calls_path, read_manifest, relation_lines
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import LifecycleStatus, Role, StatusReason, SubtaskSupport

__all__ = ["Finding", "validate_attempt"]


def validate_attempt(attempt_dir: Path, *, deep: bool = False, written: Sequence[int] | None = None) -> list[Finding]:
    """Everything that is wrong with a published attempt; empty means valid.

    `deep` also parses every context, looks up in it what relations and evidence say of it, and resolves every evidence
    locator in `raw/`. `written` is for files that this process has just written, hashed and derived itself: the offsets
    behind the lines of the file of calls, in order.
    """
    try:
        manifest = read_manifest(attempt_dir)
    except RollerError as error:
        return [Finding(MANIFEST, str(error))]
    layout = layout_of(attempt_dir, manifest)
    if layout is None:
        named = f"format {manifest.get('schema')!r}, layout {manifest.get('storage_layout')!r}"
        return [Finding(MANIFEST, f"{named} cannot be checked by this version")]
    if layout is not Layout.CURRENT:
        return old_findings(attempt_dir, layout, manifest, deep=deep)
    if "lifecycle" not in manifest:
        if not _is_of_this_version(manifest):
            return old_findings(attempt_dir, layout, manifest, deep=deep)
        return _findings(attempt_dir, _with_lifecycle(manifest), deep=deep, written=written)
    findings = _findings(attempt_dir, manifest, deep=deep, written=written)
    if findings or written is not None or not _is_held_to_todays_rules(manifest):
        return findings
    return guarded(MANIFEST, lambda: check_form(attempt_dir, manifest))


def _findings(
    attempt_dir: Path, manifest: dict[str, Any], *, deep: bool, written: Sequence[int] | None
) -> list[Finding]:
    findings = [Finding(MANIFEST, line) for line in schema_findings("roller.capture.v1.json", manifest)]
    return findings or _current_findings(attempt_dir, manifest, deep=deep, written=written)


def _with_lifecycle(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest that lacks the optional `lifecycle`, with the one that the rest of it implies: so an attempt of today
    is held to all the rules of today, whatever is taken out of it."""
    try:
        reasons = {reason["code"] for reason in manifest["status_reasons"]}
        alone = all(item["role"] != Role.CHILD for item in manifest["participants"])
        support = manifest["capabilities"]["subtasks"]
    except (KeyError, TypeError):
        return manifest  # the schema says what is wrong
    status = LifecycleStatus.COMPLETE
    if StatusReason.LIFECYCLE_UNKNOWN in reasons:
        status = LifecycleStatus.UNKNOWN
    elif support == SubtaskSupport.NOT_AVAILABLE and alone:
        status = LifecycleStatus.UNSUPPORTED
    return {**manifest, "lifecycle": {"status": status, "pending_participant_ids": []}}


def _current_findings(
    attempt_dir: Path, manifest: dict[str, Any], *, deep: bool, written: Sequence[int] | None
) -> list[Finding]:
    """Of an attempt of today's layout, whose manifest fits the schema."""
    fresh = written is not None
    calls = calls_path(attempt_dir, manifest)
    findings = list(check_files(attempt_dir, manifest, rehash=not fresh, formal=(calls.name, RELATIONS)))
    if calls.name not in {finding.file for finding in findings}:
        findings += check_compression(attempt_dir, manifest, rehash=not fresh)
    if any(finding.file in FORMAL_FILES for finding in findings):
        return findings
    seen = Seen()
    findings += guarded(RELATIONS, lambda: check_relations(relation_lines(attempt_dir / RELATIONS), manifest, seen))
    ours = not fresh and _is_held_to_todays_rules(manifest)
    contexts = deep or not fresh
    lines = published_lines(calls, ours=ours) if contexts else published_heads(calls, written or ())
    findings += guarded(CALLS, lambda: check_calls(lines, manifest, seen, derived=not fresh, deep=deep, ours=ours))
    findings += check_references(seen)
    findings += check_manifest(manifest, seen)
    findings += check_derived(manifest)
    findings += check_family(manifest, seen)
    findings += check_evidence_kept(manifest, seen)
    findings += check_manifest_members(manifest, seen)
    if ours and "migrated_from" not in manifest:
        findings += _agreement(manifest, seen)
        findings += check_raw(attempt_dir, manifest, seen)
    if deep and not findings and manifest["raw_retained"]:
        findings += [Finding(file, message) for file, message in evidence.check(attempt_dir, manifest)]
    return findings


def _agreement(manifest: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """What the finalizer says twice, it says alike. An attempt of an earlier layout need not."""
    yield from check_numbering(manifest, seen)
    yield from check_native_ids(manifest, seen)
    yield from check_relation_rules(manifest, seen)
    yield from check_coverage(manifest, seen)


def _is_of_this_version(manifest: dict[str, Any]) -> bool:
    tool = manifest.get("tool")
    return isinstance(tool, dict) and tool.get("version") == __version__


def _is_held_to_todays_rules(manifest: dict[str, Any]) -> bool:
    """Ids, order, form and other things that the protocol leaves open follow rules of our own, which `derivation` came
    with. An attempt that somebody else published, or that we did before, is none the worse for other ways."""
    return _is_of_this_version(manifest) or "derivation" in manifest["tool"]
