"""Files that only the user can read, whatever umask the shell has set: `collect` works with a umask of its own, and the
harness with the user's."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_PRIVATE: Final = 0o077


@contextlib.contextmanager
def private_umask() -> Iterator[int]:
    """All that this process makes is private for a while; the umask that it had before."""
    before = os.umask(_PRIVATE)
    try:
        yield before
    finally:
        os.umask(before)


def open_private(path: Path) -> IO[bytes]:
    """A file to append to, mode 0600, made where missing. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")
