"""Every published file is there, regular and unchanged, and nothing else is."""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from roller_capture.integrity.findings import Finding
from roller_capture.publication import FORMAL_FILES, MANIFEST, RAW, STAGING_PREFIX
from roller_capture.working_files import WORK_DIR

_PIECE: Final = 1024 * 1024


def check_files(
    attempt_dir: Path,
    manifest: dict[str, Any],
    *,
    rehash: bool,
    formal: Collection[str] = FORMAL_FILES,
) -> Iterator[Finding]:
    """Every listed file is there, regular, and unchanged; nothing else is there. `formal` are those that must be."""
    files: dict[str, dict[str, Any]] = manifest["files"]
    for name in formal:
        if name not in files:
            yield Finding(name, "the manifest does not list it")
    for name, expected in files.items():
        if not _is_safe(name, formal) or name == MANIFEST:
            yield Finding(MANIFEST, f"files names {name!r}, which is no path of a published file")
            continue
        problem = _file_problem(f"{attempt_dir}/{name}", expected, rehash=rehash)
        if problem is not None:
            yield Finding(name, problem)
    if manifest["raw_retained"] != any(name.startswith(f"{RAW}/") for name in files):
        yield Finding(MANIFEST, "raw_retained does not say whether raw/ is there")
    yield from _unlisted(attempt_dir, set(files) | {MANIFEST})


def _is_safe(name: str, formal: Collection[str]) -> bool:
    try:
        nameable = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate
        nameable = False
    parts = name.split("/")
    return nameable and not any(part in ("", ".", "..") for part in parts) and (name in formal or parts[0] == RAW)


def _file_problem(path: str, expected: dict[str, Any], *, rehash: bool) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return "is no regular file"
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb") as stream:
        if status.st_size != expected["bytes"]:
            return f"has {status.st_size} bytes, the manifest says {expected['bytes']}"
        if not rehash:
            return None
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return None if digest.hexdigest() == expected["sha256"] else "was changed: its sha256 is not the manifest's"


def _unlisted(attempt_dir: Path, listed: set[str]) -> Iterator[Finding]:
    """With names as text: there are many, and paths as objects take as long as the hashes of small files."""
    folders = {name[:end] for name in listed for end, letter in enumerate(name) if letter == "/"}
    root = os.fspath(attempt_dir)
    for base, names, file_names in os.walk(root):
        inside = f"{base[len(root) :].strip('/')}/".lstrip("/")
        for name in list(names):
            path = f"{inside}{name}"
            if os.path.islink(f"{base}/{name}"):  # noqa: PTH114 - see above
                yield Finding(path, "is a link")
            elif path == WORK_DIR or path.startswith(STAGING_PREFIX):
                yield Finding(path, "working files are left: run finalize again")
            elif path not in folders:
                yield Finding(path, "is not in the manifest")
            else:
                continue
            names.remove(name)
        for name in file_names:
            path = f"{inside}{name}"
            if path not in listed:
                yield Finding(path, "is not in the manifest")
