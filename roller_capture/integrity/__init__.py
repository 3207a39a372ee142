"""Validates a published attempt: schema, hashes, references, and that its statuses follow from its records.

Returns findings and prints nothing. `validate_attempt` is CI's check and Resume's gate (design sections 3 and 9).
"""

from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.integrity import evidence
from roller_capture.integrity.family import check_evidence_kept, check_family, check_manifest_members
from roller_capture.integrity.files import check_files
from roller_capture.integrity.findings import Finding, guarded
from roller_capture.integrity.old_attempts import old_findings
from roller_capture.integrity.records import Seen, check_calls, check_references, check_relations, published_lines
from roller_capture.integrity.totals import check_derived, check_manifest
from roller_capture.old_layouts import Layout, layout_of
from roller_capture.publication import CALLS, FORMAL_FILES, MANIFEST, RELATIONS
from roller_capture.published import read_manifest, relation_lines
from roller_capture.schemas import schema_findings

__all__ = ["Finding", "validate_attempt"]


def validate_attempt(attempt_dir: Path, *, deep: bool = False, fresh: bool = False) -> list[Finding]:
    """Everything that is wrong with a published attempt; empty means valid.

    `deep` also parses every context, checks it against its hash, and resolves every context pointer and every evidence
    locator in `raw/`. `fresh` is for files that this process has just written: it hashed and derived them itself.
    """
    try:
        manifest = read_manifest(attempt_dir)
    except RollerError as error:
        return [Finding(MANIFEST, str(error))]
    layout = layout_of(attempt_dir, manifest)
    if layout is None:
        named = f"format {manifest.get('schema')!r}, layout {manifest.get('storage_layout')!r}"
        return [Finding(MANIFEST, f"{named} cannot be checked by this version")]
    if layout is not Layout.CURRENT or "lifecycle" not in manifest:
        return old_findings(attempt_dir, layout, manifest, deep=deep)
    findings = [Finding(MANIFEST, line) for line in schema_findings("roller.capture.v1.json", manifest)]
    if findings:
        return findings
    findings += check_files(attempt_dir, manifest, rehash=not fresh)
    if any(finding.file in FORMAL_FILES for finding in findings):
        return findings
    seen = Seen()
    findings += guarded(RELATIONS, lambda: check_relations(relation_lines(attempt_dir / RELATIONS), manifest, seen))
    lines = published_lines(attempt_dir / CALLS, contexts=deep)
    findings += guarded(CALLS, lambda: check_calls(lines, manifest, seen, derived=not fresh))
    findings += check_references(seen)
    findings += check_manifest(manifest, seen)
    findings += check_derived(manifest)
    findings += check_family(manifest, seen)
    findings += check_evidence_kept(manifest, seen)
    findings += check_manifest_members(manifest, seen)
    if deep and not findings and manifest["raw_retained"]:
        findings += [Finding(file, message) for file, message in evidence.check(attempt_dir, manifest)]
    return findings
