"""`roller-capture prune`: takes `raw/` out of published attempts, by publishing each once more without it.

The formal files stay: calls.jsonl and relations.jsonl say of the debug material only that it is not there any more
(protocol, "Files and boundaries": `response_path` null, evidence `retained: false`; the capture status is the same).
The new manifest names the one that it supersedes. One step puts the new attempt in the place of the old one.
"""

import fcntl
import glob
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roller_capture import json_text
from roller_capture.calls_file import line_texts
from roller_capture.errors import RollerError
from roller_capture.integrity import validate_attempt
from roller_capture.publication import (
    CALLS,
    MANIFEST,
    RAW,
    RELATIONS,
    Staging,
    clear_disk_errors,
    remove_folder,
    replace_published,
)
from roller_capture.published import (
    calls_path,
    is_compressed,
    read_manifest,
    relation_lines,
    require_published,
    split_line,
)
from roller_capture.records import plain
from roller_capture.vocabulary import DebugRetention


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came of one attempt: bytes of `raw/` that were freed, or that would be; the new manifest's hash."""

    freed: int
    manifest_sha256: str | None


def raw_bytes(attempt_dir: Path) -> int:
    """Bytes of `raw/` that the manifest lists. Raises `RollerError`."""
    require_published(attempt_dir)
    files: dict[str, dict[str, int]] = read_manifest(attempt_dir)["files"]
    return sum(info["bytes"] for name, info in files.items() if name.startswith(f"{RAW}/"))


def prune_attempt(attempt_dir: Path, before_swap: Callable[[str], None] | None = None) -> Pruned:
    """Publishes a valid attempt again without its `raw/`; one that has none stays as it is.

    `before_swap` is told the new manifest's sha256 when everything is ready and nothing is in place yet, for the books
    of a run. Raises `RollerError` (exit 1) for an attempt that is not published, does not validate, is pruned by
    somebody else right now, or cannot be written.
    """
    with _alone(attempt_dir), clear_disk_errors(attempt_dir, "prune"):
        _remove_leftovers(attempt_dir)
        require_published(attempt_dir)
        findings = validate_attempt(attempt_dir)
        if findings:
            first = findings[0]
            raise RollerError(f"{attempt_dir}: does not validate, so nothing is pruned: {first.file}: {first.message}")
        manifest = read_manifest(attempt_dir)
        if not manifest["raw_retained"]:
            return Pruned(0, None)
        freed = raw_bytes(attempt_dir)
        staging = Staging(attempt_dir.parent, _prefix(attempt_dir))
        try:
            _stage(attempt_dir, manifest, staging)
            if before_swap is not None and staging.manifest_sha256 is not None:
                before_swap(staging.manifest_sha256)
            replace_published(attempt_dir, staging)
        except BaseException:
            staging.discard()
            raise
    return Pruned(freed, staging.manifest_sha256)


@contextmanager
def _alone(attempt_dir: Path) -> Iterator[None]:
    try:
        descriptor = os.open(attempt_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RollerError(f"{attempt_dir}: cannot be opened ({error.strerror})", exit_code=2) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RollerError(f"{attempt_dir}: is being pruned by another process") from None
    finally:
        os.close(descriptor)


def _prefix(attempt_dir: Path) -> str:
    return f".{attempt_dir.resolve().name}.pruning-"


def _remove_leftovers(attempt_dir: Path) -> None:
    """What an interrupted run left beside the attempt: half of the new one, or the old one, which was replaced."""
    for folder in attempt_dir.parent.glob(f"{glob.escape(_prefix(attempt_dir))}*"):
        remove_folder(folder)


def _stage(attempt_dir: Path, manifest: dict[str, Any], staging: Staging) -> None:
    with staging.open_calls(compressed=is_compressed(manifest)) as writer:
        for line in line_texts(calls_path(attempt_dir, manifest)):
            writer.write(_without_response(line))
    with staging.open(RELATIONS) as writer:
        for _, relation in relation_lines(attempt_dir / RELATIONS):
            for evidence in relation["evidence"]:
                evidence["retained"] = evidence["source"] == CALLS
            writer.write(json_text.dumps(relation) + b"\n")
    before = hashlib.sha256((attempt_dir / MANIFEST).read_bytes()).hexdigest()
    compression = staging.calls_compression
    staging.write_manifest(
        {
            **manifest,
            **({} if compression is None else {"calls_compression": plain(compression)}),
            "debug_retention": DebugRetention.OFF,
            "raw_retained": False,
            "files": {name: {"sha256": info.sha256, "bytes": info.bytes} for name, info in staging.files.items()},
            "supersedes": before,
        }
    )
    findings = validate_attempt(staging.directory)
    if findings:
        first = findings[0]
        raise RollerError(f"{attempt_dir}: not pruned, the result would not validate ({first.file}: {first.message})")


def _without_response(line: bytes) -> bytes:
    """The line with `response_path` null; all else is the same text, byte for byte.

    What a provider sent may have a member of that name too: the right one is the one whose change shows in the head.
    """
    mark = b'"response_path":"'
    place = -1 if _response_path(line) is None else line.find(mark)
    while place >= 0:
        end = line.index(b'"', place + len(mark)) + 1
        changed = line[:place] + b'"response_path":null' + line[end:]
        if _response_path(changed) is None:
            return changed
        place = line.find(mark, end)
    return line


def _response_path(line: bytes) -> str | None:
    path: str | None = split_line(line)[0]["response_path"]
    return path
