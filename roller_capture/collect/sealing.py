"""What is copied from a harness is private, and holds no key: a service that refuses a key can repeat it, and the
harness then writes it into its own logs."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roller_capture.recording.credentials import Masker

_CHUNK: Final = 1 << 20


def seal(folder: Path, secrets: Sequence[str]) -> list[str]:
    """Makes everything below `folder` private (0700, 0600), and puts `*` in place of each secret, in whatever spelling.

    Lengths stay as they are: it is done in place, so it needs no room. Links are left alone, and so is a file that has
    a second name, for that may be anywhere. Returns the names of the files that held a secret, relative to `folder`.
    Raises `OSError`.
    """
    masker = Masker(secret.encode() for secret in secrets)
    return [path.relative_to(folder).as_posix() for path in _files(folder) if _mask(path, masker)]


def _files(folder: Path) -> Iterator[Path]:
    """The regular files; the folders are made private on the way, so that they can be entered."""
    folder.chmod(0o700)
    for base, folders, names in os.walk(folder):
        for path in (Path(base) / name for name in folders):
            if not path.is_symlink():
                path.chmod(0o700)
        for path in (Path(base) / name for name in sorted(names)):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                path.chmod(0o600)
                yield path


def _mask(path: Path, masker: Masker) -> bool:
    if not masker.patterns:
        return False
    overlap = max(map(len, masker.patterns)) - 1
    masked = False
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        start, held = 0, b""  # `held` is the end of what came before, in which a secret may begin
        while chunk := os.pread(descriptor, _CHUNK, start + len(held)):
            data = held + chunk
            for begin, end in masker.intervals(data):
                os.pwrite(descriptor, b"*" * (end - begin), start + begin)
                masked = True
            held = data[-overlap:] if overlap else b""
            start += len(data) - len(held)
    finally:
        os.close(descriptor)
    return masked
