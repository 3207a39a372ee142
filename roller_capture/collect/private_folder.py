"""The private folder of an attempt: the harness's home, its temporary files, and by default its working directory.

It lies below the system's temporary folder and not in the run directory: an agent that looks around finds neither its
own recording nor a parent folder whose project files would count as its own.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple


class PrivateFolder(NamedTuple):
    """The folder and what is in it."""

    root: Path
    home: Path
    temporary: Path
    workspace: Path
    stderr: Path
    service_output: Path


def make_private_folder() -> PrivateFolder:
    """A new one, mode 0700. Raises `OSError`."""
    root = Path(tempfile.mkdtemp(prefix="roller-")).resolve()
    made = PrivateFolder(
        root, root / "home", root / "tmp", root / "workspace", root / "stderr.txt", root / "service.txt"
    )
    for folder in (made.home, made.temporary, made.workspace):
        folder.mkdir(mode=0o700)
    return made


def remove_private_folder(root: Path) -> None:
    """Removes it, also what an agent has made read-only (package caches are); what cannot be removed stays."""
    for folder, names, _ in os.walk(root):
        for path in (Path(folder) / name for name in names):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(root, ignore_errors=True)
