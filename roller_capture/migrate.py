"""`roller-capture migrate`: makes a copy of a published attempt in today's layout; the original is never written to.

An attempt of an earlier layout is converted, with its ids as they are. With `from_raw`, any attempt that kept `raw/` is
derived anew by today's adapter and finalizer: the offline re-projection that the protocol advises for old samples
(protocol, "Coverage and identity"). Either way the new manifest names the one that it was made from.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.old_layouts import Layout, OldAttempt, layout_of, read_old_attempt
from roller_capture.publication import CALLS, MANIFEST, RAW, RELATIONS, Staging, clear_disk_errors
from roller_capture.published import is_compressed, read_manifest, require_published
from roller_capture.replay import rebuild_working_files, replay_request
from roller_capture.vocabulary import CaptureStatus, CoverageStatus, LifecycleStatus, StatusReason

_PLACE: Final = re.compile(r"line:(\d+)(.*)", re.DOTALL)
_BY_AGE: Final = (StatusReason.COVERAGE_UNKNOWN, StatusReason.LIFECYCLE_UNKNOWN)


class NothingToMigrateError(RollerError):
    """The attempt has today's layout already."""


def migrate_attempt(source: Path, target: Path, *, from_raw: bool = False) -> dict[str, Any]:
    """Writes the migrated copy to `target`, which must not be there yet; returns its manifest.

    Raises `RollerError`: exit 2 for a target that exists, exit 1 for a source that is not published, does not validate,
    has today's layout already (without `from_raw`), or has no `raw/` (with it).
    """
    if target.exists() or target.is_symlink():
        raise RollerError(f"{target}: is there already: name another folder", exit_code=2)
    require_published(source)
    findings = validate_attempt(source)
    if findings:
        first = findings[0]
        raise RollerError(f"{source}: does not validate, so it is not migrated: {first.file}: {first.message}")
    manifest = read_manifest(source)
    layout = layout_of(source, manifest)
    if layout is None:
        raise RollerError(f"{source}: is of a layout that this version does not know")
    with clear_disk_errors(target, "migrate"):
        if from_raw:
            return _derived(source, target, manifest, layout)
        if layout is Layout.CURRENT and "lifecycle" in manifest:
            raise NothingToMigrateError(f"{source}: has the layout {layout} already, nothing to do")
        return _converted(source, target, read_old_attempt(source, layout, manifest))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _staging(target: Path) -> Staging:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Staging(target.parent, f".{target.name}.migrating-")


def _converted(source: Path, target: Path, old: OldAttempt) -> dict[str, Any]:
    staging = _staging(target)
    try:
        lines: dict[str, int] = {}
        with staging.open(CALLS) as writer:
            for number, line in enumerate(old.calls(), 1):
                lines[line.where] = number
                writer.write(json_text.dumps(line.head)[:-1] + b',"context":' + line.context + b"}\n")
        with staging.open(RELATIONS) as writer:
            for _, relation in old.relations():
                for evidence in relation["evidence"]:
                    _lead_to_calls(evidence, lines)
                    evidence["retained"] &= evidence["source"] == CALLS or old.manifest["raw_retained"]
                writer.write(json_text.dumps(relation) + b"\n")
        manifest = old.known_manifest()
        for name in manifest["files"]:
            if name.startswith(f"{RAW}/"):
                staging.copy(name, source / name)
        made_from = {"supersedes": _sha256(source / MANIFEST), "migrated_from": old.layout}
        staging.write_manifest({**_judged(manifest), **_files_of(staging), **made_from})
        _refuse_invalid(source, staging.directory)
        staging.directory.rename(target)
    except BaseException:
        staging.discard()
        raise
    return read_manifest(target)


def _lead_to_calls(evidence: dict[str, Any], lines: Mapping[str, int]) -> None:
    """Evidence in the call file of a participant stands in the one file of calls now."""
    match = _PLACE.fullmatch(evidence["locator"])
    number = lines.get(f"{evidence['source']}:{match.group(1)}") if match else None
    if match and number is not None:
        evidence |= {"source": CALLS, "locator": f"line:{number}{match.group(2)}", "retained": True}


def _files_of(staging: Staging) -> dict[str, Any]:
    files = {name: {"sha256": info.sha256, "bytes": info.bytes} for name, info in staging.files.items()}
    return {"files": files, "raw_retained": any(name.startswith(f"{RAW}/") for name in files)}


def _judged(manifest: dict[str, Any]) -> dict[str, Any]:
    """What the old manifest could not yet say lowers the whole, as it would today (design section 8)."""
    coverage = manifest["capabilities"]["native_output_coverage"]["status"]
    holds = (coverage == CoverageStatus.UNKNOWN, manifest["lifecycle"]["status"] == LifecycleStatus.UNKNOWN)
    reasons = [reason for reason in manifest["status_reasons"] if reason["code"] not in _BY_AGE]
    reasons += [{"code": code, "count": 1, "call_ids": []} for code, so in zip(_BY_AGE, holds, strict=True) if so]
    status = CaptureStatus.PARTIAL if reasons else CaptureStatus.COMPLETE
    return {**manifest, "status_reasons": reasons, "capture_status": status}


def _refuse_invalid(source: Path, directory: Path) -> None:
    findings = validate_attempt(directory)
    if findings:
        first = findings[0]
        raise RollerError(f"{source}: not migrated, the result would not validate ({first.file}: {first.message})")


def _derived(source: Path, target: Path, manifest: dict[str, Any], layout: Layout) -> dict[str, Any]:
    if layout is not Layout.CURRENT or not manifest["raw_retained"]:
        raise RollerError(f"{source}: has no {RAW}/ of today's layout, so it cannot be derived anew")
    staging = _staging(target)
    try:
        rebuild_working_files(source, staging.directory)
        request: FinalizeRequest = replay_request(source, manifest)
        finalize_attempt(staging.directory, dataclasses.replace(request, compress=is_compressed(manifest)))
        derived = {**read_manifest(staging.directory), "supersedes": _sha256(source / MANIFEST)}
        derived |= {name: manifest[name] for name in ("started_at", "closed_at", "debug_retention")}
        (staging.directory / MANIFEST).unlink()
        staging.write_manifest(derived)
        _refuse_invalid(source, staging.directory)
        staging.directory.rename(target)
    except BaseException:
        staging.discard()
        raise
    return derived
