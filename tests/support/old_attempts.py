"""Makes attempts of earlier layouts out of a published one, as the protocol describes them."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.publish import lines

_LATER = ("storage_layout", "lifecycle", "debug_retention", "raw_retained", "counts", "tool", "other_requests")
"""Members that the first manifests did not have."""

_OF_FIRST_CALLS = ("call_id", "protocol", "endpoint", "model", "output", "context")


def rewrite(attempt: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest with the hashes of the files as they are."""
    files = {
        path.relative_to(attempt).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in sorted(attempt.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    (attempt / "manifest.json").write_text(json.dumps({**manifest, "files": files}))


def manifest_of(attempt: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((attempt / "manifest.json").read_text())
    return document


def without_lifecycle(attempt: Path) -> None:
    """Today's layout, before there was a lifecycle."""
    manifest = manifest_of(attempt)
    del manifest["lifecycle"]
    manifest["tool"]["version"] = "0.0.0"
    rewrite(attempt, manifest)


def compact_1(attempt: Path) -> None:
    """`compact/v1`: the same files, without lifecycle and retention."""
    manifest = {name: value for name, value in manifest_of(attempt).items() if name not in _LATER}
    rewrite(attempt, {**manifest, "storage_layout": "compact/v1"})


def by_participant(attempt: Path) -> None:
    """The first layout: a folder per participant, no named layout."""
    manifest = {name: value for name, value in manifest_of(attempt).items() if name not in _LATER}
    for line in (attempt / "calls.jsonl").read_bytes().splitlines(keepends=True):
        folder = attempt / "participants" / json.loads(line)["participant_id"]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "calls.jsonl").open("ab") as stream:
            stream.write(line)
    (attempt / "calls.jsonl").unlink()
    rewrite(attempt, manifest)


def bare_by_participant(attempt: Path) -> None:
    """The first layout with the fewest members: participants by their folders, calls by request and answer alone."""
    by_participant(attempt)
    shutil.rmtree(attempt / "raw", ignore_errors=True)
    for path in (attempt / "participants").rglob("calls.jsonl"):
        bare = [{name: call[name] for name in _OF_FIRST_CALLS} for call in lines(path)]
        path.write_text("".join(json.dumps({"unheard": 1, **call}) + "\n" for call in bare))
    kept = ("schema", "capture_status", "harness")
    rewrite(attempt, {name: value for name, value in manifest_of(attempt).items() if name in kept})


ALL = (without_lifecycle, compact_1, by_participant, bare_by_participant)
