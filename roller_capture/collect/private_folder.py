"""The private folder of an attempt: the harness's home, its temporary files, and by default its working directory.

It lies below the system's temporary folder and not in the run directory: an agent that looks around finds neither its
own recording nor a parent folder whose project files would count as its own.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from roller_capture.errors import RollerError

_PREFIX: Final = "roller-"
_ROOM: Final = 256 * 1024
"""Bytes that proxy and harness need at the very least."""


class PrivateFolder(NamedTuple):
    """The folder and what is in it."""

    root: Path
    home: Path
    temporary: Path
    workspace: Path
    stderr: Path
    service_output: Path


def temporary_trouble() -> OSError | None:
    """Why nothing can be written into the system's temporary folder; a full one still lets folders be made."""
    try:
        with tempfile.TemporaryFile() as stream:
            stream.write(bytes(_ROOM))
            stream.flush()
    except OSError as error:
        return error
    return None


def no_temporary_room(error: OSError) -> RollerError:
    """What the user should do about it (exit 2)."""
    where = tempfile.gettempdir()
    return RollerError(
        f"{where}: no temporary files can be made ({error.strerror}): make room, or name another folder with TMPDIR",
        exit_code=2,
    )


def make_private_folder() -> PrivateFolder:
    """A new one, mode 0700. Raises `OSError`."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    made = PrivateFolder(
        root, root / "home", root / "tmp", root / "workspace", root / "stderr.txt", root / "service.txt"
    )
    for folder in (made.home, made.temporary, made.workspace):
        folder.mkdir(mode=0o700)
    return made


def is_private_folder(root: Path) -> bool:
    """Whether it is one of ours that this user made: nobody else's is ever read as a harness's home."""
    try:
        about = [path.lstat() for path in (root, root / "home")]
    except (OSError, ValueError):
        return False
    private = all(stat.S_ISDIR(item.st_mode) and item.st_uid == os.geteuid() for item in about)
    return private and root.is_absolute() and root.name.startswith(_PREFIX) and not about[0].st_mode & 0o077


def remove_private_folder(root: Path) -> None:
    """Removes it, also what an agent has made read-only (package caches are); what cannot be removed stays."""
    for folder, names, _ in os.walk(root):
        for path in (Path(folder) / name for name in names):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(root, ignore_errors=True)
