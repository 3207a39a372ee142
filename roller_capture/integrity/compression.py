"""calls.jsonl.zst, where it stands in the place of calls.jsonl, expands to what the manifest says."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture.calls_file import open_calls
from roller_capture.integrity.findings import Finding
from roller_capture.publication import COMPRESSED_CALLS, MANIFEST
from roller_capture.published import calls_path, is_compressed

_PIECE: Final = 1024 * 1024


def check_compression(attempt_dir: Path, manifest: dict[str, Any], *, rehash: bool) -> Iterator[Finding]:
    """The manifest tells of the compression exactly where there is one, and size and hash of the expansion hold.

    Nothing is expanded that the file's own seek table and the manifest do not both announce. `rehash=False` is for a
    file that this process has just written.
    """
    compression = manifest.get("calls_compression")
    if (compression is not None) != is_compressed(manifest):
        yield Finding(MANIFEST, f"calls_compression does not say whether {COMPRESSED_CALLS} is there")
        return
    if compression is None:
        return
    try:
        problem = _problem(calls_path(attempt_dir, manifest), compression["expanded"], rehash=rehash)
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        yield Finding(COMPRESSED_CALLS, problem)


def _problem(path: Path, expected: dict[str, Any], *, rehash: bool) -> str | None:
    with open_calls(path, size=expected["bytes"]) as calls:
        if not rehash:
            return None
        digest = hashlib.sha256()
        place = 0
        while piece := calls.read_some(_PIECE, place):
            digest.update(piece)
            place += len(piece)
    return None if digest.hexdigest() == expected["sha256"] else "expands to another sha256 than the manifest's"
