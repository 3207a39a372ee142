"""Validates attempts of earlier layouts, and manifests without `lifecycle`, through a looser schema.

Looser means: what an old record lacks is filled in (`old_layouts`), and members of its own that are not known here are
passed over. Hashes, owners and references hold as they do today.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.integrity.family import check_family
from roller_capture.integrity.files import check_files
from roller_capture.integrity.findings import Finding, guarded
from roller_capture.integrity.records import Line, Seen, check_calls, check_references, check_relations
from roller_capture.integrity.totals import check_derived, check_manifest
from roller_capture.old_layouts import Layout, OldAttempt, call_files, read_old_attempt
from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import CoverageStatus, LifecycleStatus, StatusReason

Record = dict[str, Any]

_UNKNOWN_BY_AGE: Final = frozenset({StatusReason.COVERAGE_UNKNOWN, StatusReason.LIFECYCLE_UNKNOWN})


def old_findings(attempt_dir: Path, layout: Layout, manifest: Record, *, deep: bool) -> list[Finding]:
    """Everything that is wrong with an old attempt; empty means valid."""
    try:
        old = read_old_attempt(attempt_dir, layout, manifest)
    except (OSError, json_text.JsonError, KeyError, TypeError, ValueError) as error:
        return [Finding(MANIFEST, f"an attempt of layout {layout} that cannot be read: {error}")]
    complete = old.known_manifest()
    findings = [Finding(MANIFEST, line) for line in schema_findings("roller.capture.v1.json", complete)]
    if findings:
        return findings
    formal = [name for name, _ in call_files(attempt_dir, layout)]
    formal += [RELATIONS] if (attempt_dir / RELATIONS).exists() or layout is not Layout.BY_PARTICIPANT else []
    if "files" in manifest:
        findings += check_files(attempt_dir, complete, rehash=True, formal=formal)
    if findings:
        return findings
    seen = Seen()
    findings += guarded(RELATIONS, lambda: check_relations(old.relations(), complete, seen))
    findings += guarded(
        CALLS, lambda: check_calls(_lines(old, contexts=deep), complete, seen, derived=False, deep=deep)
    )
    findings += check_references(seen)
    findings += check_manifest(complete, seen)
    findings += check_family(complete, seen)
    findings += check_derived(_as_it_said(old, complete))
    return findings


def _lines(old: OldAttempt, *, contexts: bool) -> Iterator[Line]:
    for number, line in enumerate(old.calls(), 1):
        yield Line(line.where, number, line.head, memoryview(line.context) if contexts else None)


def _as_it_said(old: OldAttempt, manifest: Record) -> Record:
    """The manifest, with nothing held against it that it could not yet say: only what it says must agree."""
    reasons = [reason for reason in manifest["status_reasons"] if reason["code"] not in _UNKNOWN_BY_AGE]
    lifecycle, capabilities = manifest["lifecycle"], manifest["capabilities"]
    if old.has_lifecycle and old.has_coverage:
        return manifest
    if not old.has_lifecycle:
        lifecycle = {"status": LifecycleStatus.COMPLETE, "pending_participant_ids": []}
    else:
        reasons += [one for one in manifest["status_reasons"] if one["code"] == StatusReason.LIFECYCLE_UNKNOWN]
    coverage = capabilities["native_output_coverage"]
    if not old.has_coverage:
        capabilities = {
            **capabilities,
            "native_output_coverage": {**coverage, "status": CoverageStatus.NOT_APPLICABLE},
        }
    else:
        reasons += [one for one in manifest["status_reasons"] if one["code"] == StatusReason.COVERAGE_UNKNOWN]
    return {**manifest, "lifecycle": lifecycle, "capabilities": capabilities, "status_reasons": reasons}
