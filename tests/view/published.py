"""Published attempts to look at, and to forge."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from tests.support.publish import lines

Record = dict[str, Any]
LAUNCHER = "raw/native/launcher.json"


def forge(
    attempt: Path,
    *,
    manifest: Callable[[Record], object] | None = None,
    calls: Callable[[list[Record]], object] | None = None,
    relations: Callable[[list[Record]], object] | None = None,
) -> Path:
    """Changes records in place, and the sizes in the manifest so that they fit again."""
    for name, change in ((CALLS, calls), (RELATIONS, relations)):
        if change is not None:
            records = lines(attempt / name)
            change(records)
            text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
            (attempt / name).write_text(text)
    whole = json.loads((attempt / MANIFEST).read_bytes())
    for name in (CALLS, RELATIONS):
        whole["files"][name]["bytes"] = (attempt / name).stat().st_size
    if manifest is not None:
        manifest(whole)
    (attempt / MANIFEST).write_text(json.dumps(whole))
    return attempt


def note_run(attempt: Path, **note: Any) -> Path:
    """As `collect` notes how the run went."""
    path = attempt / LAUNCHER
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(note))
    listed = {"sha256": "0" * 64, "bytes": path.stat().st_size}
    return forge(attempt, manifest=lambda whole: whole["files"].update({LAUNCHER: listed}))


def without_calls(attempt: Path) -> Path:
    """Nothing was recorded in it, and nobody ran."""

    def empty(whole: Record) -> None:
        whole["participants"] = []
        whole["counts"] |= {"calls": 0, "exportable_calls": 0, "participants": 0}
        whole["capabilities"]["native_output_coverage"] |= {
            "status": "unknown",
            "expected": 0,
            "observed": 0,
            "protocol_count": None,
        }
        whole["capture_status"] = "partial"
        whole["status_reasons"] = [{"code": "coverage_unknown", "count": 1, "call_ids": []}]

    return forge(attempt, manifest=empty, calls=list.clear, relations=list.clear)
