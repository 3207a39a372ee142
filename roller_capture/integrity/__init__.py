"""Validates a published attempt: schema, hashes, references, and that its statuses follow from its records.

Returns findings and prints nothing. `validate_attempt` is CI's check and Resume's gate (design sections 3 and 9).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.integrity import evidence
from roller_capture.integrity.files import check_files
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen, check_calls, check_references, check_relations
from roller_capture.integrity.totals import check_manifest
from roller_capture.publication import CALLS, FORMAL_FILES, MANIFEST, RELATIONS
from roller_capture.published import read_manifest
from roller_capture.records import CAPTURE_SCHEMA, STORAGE_LAYOUT
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
    version = manifest.get("schema")
    if version != CAPTURE_SCHEMA or manifest.get("storage_layout") != STORAGE_LAYOUT:
        message = f"format {version!r}, layout {manifest.get('storage_layout')!r} cannot be checked by this version"
        return [Finding(MANIFEST, message)]
    findings = [Finding(MANIFEST, line) for line in schema_findings("roller.capture.v1.json", manifest)]
    if findings:
        return findings
    findings += check_files(attempt_dir, manifest, rehash=not fresh)
    if any(finding.file in FORMAL_FILES for finding in findings):
        return findings
    seen = Seen()
    findings += _guarded(RELATIONS, lambda: check_relations(attempt_dir, manifest, seen))
    findings += _guarded(CALLS, lambda: check_calls(attempt_dir, manifest, seen, deep=deep, derived=not fresh))
    findings += check_references(seen)
    findings += check_manifest(manifest, seen)
    if deep and not findings and manifest["raw_retained"]:
        findings += [Finding(file, message) for file, message in evidence.check(attempt_dir, manifest)]
    return findings


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Runs a check over a file of lines; a damaged line ends it with a finding."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (json_text.JsonError, OSError) as error:
        found.append(Finding(name, str(error)))
    return found
