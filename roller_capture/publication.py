"""Publication: a staging folder beside the working files, hashed as it is written, and moved into place at the end.

The manifest is moved last. So a crash at any moment leaves either `work/` whole or the published attempt whole, and
running finalize again finishes the job (design section 4).
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import secrets
import shlex
import shutil
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.calls_file import CompressingWriter
from roller_capture.errors import RollerError
from roller_capture.records import CallsCompression, FileInfo, Manifest, plain

MANIFEST: Final = "manifest.json"
CALLS: Final = "calls.jsonl"
COMPRESSED_CALLS: Final = "calls.jsonl.zst"
RELATIONS: Final = "relations.jsonl"
RAW: Final = "raw"
FORMAL_FILES: Final = (CALLS, COMPRESSED_CALLS, RELATIONS)
"""What may stand beside the manifest; of the first two an attempt has one."""
STAGING_PREFIX: Final = ".publishing-"
_PIECE: Final = 1024 * 1024
_BUFFER: Final = 64 * 1024
"""What is larger than that, as most contexts are, goes to the file without a copy."""
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class HashingWriter:
    """A file of the staging folder; its hash and size are known when it is closed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0
        """Bytes that were written."""

    def write(self, data: bytes) -> None:
        """Appends `data`."""
        self._stream.write(data)
        self._digest.update(data)
        self.size += len(data)

    def close(self) -> FileInfo:
        """Syncs the file to disk and tells what it is."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        return FileInfo(sha256=self._digest.hexdigest(), bytes=self.size)


class Staging:
    """Collects the files to publish, below `PARENT/.publishing-…`; the parent is the attempt's own folder, mostly."""

    def __init__(self, parent: Path, prefix: str = STAGING_PREFIX) -> None:
        self.directory = parent / f"{prefix}{secrets.token_hex(6)}"
        self.directory.mkdir(mode=0o700)
        self.directory.chmod(0o700)  # a umask can take from the owner too
        self.files: dict[str, FileInfo] = {}
        self.call_ends = array("Q")
        """Where each line of the file of calls ends, as offsets behind its line break, before compression."""
        self.calls_compression: CallsCompression | None = None
        self.manifest_sha256: str | None = None

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[HashingWriter]:
        """A new file by its published relative path."""
        with os.fdopen(_new_private_file(self._new_path(name)), "wb", buffering=_BUFFER) as stream:
            writer = HashingWriter(stream)
            yield writer
            self.files[name] = writer.close()

    @contextlib.contextmanager
    def open_calls(self, *, compressed: bool) -> Iterator[HashingWriter | CompressingWriter]:
        """The file of calls, in the form that is wanted; `calls_compression` is then what the manifest says of it."""
        with self.open(COMPRESSED_CALLS if compressed else CALLS) as file:
            if not compressed:
                yield file
                return
            writer = CompressingWriter(file.write)
            yield writer
            writer.finish()
        expanded = FileInfo(sha256=writer.sha256, bytes=writer.size)
        self.calls_compression = CallsCompression(format="zstd-seekable", expanded=expanded)

    def write(self, name: str, data: bytes) -> None:
        """A new file with this content."""
        with self.open(name) as writer:
            writer.write(data)

    def copy(self, name: str, source: Path) -> None:
        """A new file with the content of `source`, which must be a regular file and no link."""
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream, self.open(name) as writer:
            while piece := stream.read(_PIECE):
                writer.write(piece)

    def adopt(self, name: str, source: Path) -> None:
        """Like `copy`, for a working file that nobody writes any more: a second name for the same bytes if possible."""
        path = self._new_path(name)
        try:
            os.link(source, path, follow_symlinks=False)
        except OSError:
            self.copy(name, source)
            return
        digest = hashlib.sha256()
        size = 0
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)  # quick where the recorder has synced it; a killed one has not
            while piece := stream.read(_PIECE):
                digest.update(piece)
                size += len(piece)
        self.files[name] = FileInfo(sha256=digest.hexdigest(), bytes=size)

    def write_manifest(self, manifest: Manifest | Mapping[str, Any]) -> None:
        """The manifest, indented for people; it is not among `files`, and its own hash is `manifest_sha256`."""
        document = plain(manifest) if isinstance(manifest, Manifest) else dict(manifest)
        text = json_text.dumps_indented(document) + b"\n"
        with os.fdopen(_new_private_file(self._new_path(MANIFEST)), "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        self.manifest_sha256 = hashlib.sha256(text).hexdigest()

    def _new_path(self, name: str) -> Path:
        path = self.directory / name
        # mkdir's mode holds for the last folder only, so each level is made on its own.
        for parent in reversed(path.relative_to(self.directory).parents):
            folder = self.directory / parent
            if not folder.exists():
                folder.mkdir(mode=0o700)
                folder.chmod(0o700)
        return path

    def discard(self) -> None:
        """Removes what was staged."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _new_private_file(path: Path) -> int:
    """A write handle on a file that did not exist, mode 0600 whatever the umask. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def publish(attempt_dir: Path, staging: Staging) -> None:
    """Moves the staged files into the attempt, the manifest last, then removes `work/` and the staging folder."""
    _sync_folders(staging)
    names = [name for name in (*FORMAL_FILES, RAW) if (staging.directory / name).exists()]
    for name in names:
        (staging.directory / name).rename(attempt_dir / name)
    _sync_directory(attempt_dir)
    (staging.directory / MANIFEST).rename(attempt_dir / MANIFEST)
    _sync_directory(attempt_dir)


def replace_published(attempt_dir: Path, staging: Staging) -> None:
    """Puts the staged attempt in the place of a published one, in one step, and removes the old one.

    The staging folder lies beside the attempt. Raises `OSError`, also where the file system cannot exchange two names.
    """
    _sync_folders(staging)
    exchange(staging.directory, attempt_dir)
    _sync_directory(attempt_dir.parent)
    remove_folder(staging.directory)


def exchange(one: Path, other: Path) -> None:
    """Exchanges two names of one file system in one step (`renameat2`). Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _sync_folders(staging: Staging) -> None:
    for folder in sorted({staging.directory / Path(name).parent for name in staging.files}):
        _sync_directory(folder)


def remove_leftovers(attempt_dir: Path) -> None:
    """Removes what an interrupted publication left in an attempt without a manifest: all of it is still in `work/`."""
    for name in FORMAL_FILES:
        (attempt_dir / name).unlink(missing_ok=True)
    for folder in (attempt_dir / RAW, *attempt_dir.glob(f"{STAGING_PREFIX}*")):
        remove_folder(folder)


def remove_working_files(attempt_dir: Path, work_name: str) -> None:
    """Removes `work/` and staging folders of a published attempt.

    `work/` gets another name first, in one step: what an interruption leaves of it is then known for a leftover, and is
    never taken for somebody else's folder.
    """
    work = attempt_dir / work_name
    if work.is_dir() and not work.is_symlink():
        work.rename(attempt_dir / f"{STAGING_PREFIX}{secrets.token_hex(6)}")
    else:
        remove_folder(work)
    for folder in attempt_dir.glob(f"{STAGING_PREFIX}*"):
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Removes a folder of ours; a link or file in its place is removed, and a link never followed."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def clear_disk_errors(attempt_dir: Path, command: str = "finalize") -> Iterator[None]:
    """Turns what the disk refuses into one clear line (`RollerError`): nothing is half published, and `work/` stays
    whole until the attempt is published."""
    try:
        yield
    except OSError as error:
        state, again = f"{command} was not finished", command
        if command == "finalize":
            is_published = os.path.lexists(attempt_dir / MANIFEST)
            state = "it is published, but not tidied up" if is_published else "nothing was published"
            again = f"roller-capture finalize {shlex.quote(str(attempt_dir))}"
        raise RollerError(f"{attempt_dir}: {state}, {_remedy(error)} and run {again} again") from error


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk: free some"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"{error.strerror}: make the folder writable"
    if error.errno == errno.EFBIG:
        return "a file would exceed the size limit: raise it"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit"
    named = "" if error.filename is None else f" {error.filename}"
    return f"the disk failed ({error.strerror or error}{named}): see to it"
