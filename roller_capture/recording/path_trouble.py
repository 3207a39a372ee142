"""What stands in the way of a path, told so that the advice is true."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError

_ADVICE: Final = {
    errno.ENOSPC: "make room or name another attempt directory",
    errno.EDQUOT: "make room or name another attempt directory",
    errno.EROFS: "name an attempt directory on a disk that can be written to",
    errno.EACCES: "check the permissions of its folder",
    errno.EPERM: "check the permissions of its folder",
    errno.ENOENT: "name a folder that is there",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the limit on open files (ulimit -n)",
}
_OTHER_ADVICE: Final = "name another attempt directory"


def refusal(path: Path, problem: str, error: OSError) -> RollerError:
    """`path: problem (cause): what to do`, for an error that opening or making `path` has raised."""
    cause = os.strerror(error.errno) if error.errno else str(error)
    return RollerError(f"{path}: {problem} ({cause}): {_ADVICE.get(error.errno or 0, _OTHER_ADVICE)}")


def in_the_way(path: Path, *, folder: bool) -> RollerError | None:
    """The refusal when something else stands where a folder, or a file, is wanted; links count as something else."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode):
        return None
    wanted = "folder" if folder else "regular file"
    return RollerError(f"{path}: is {_kind(mode)}, not a {wanted}: move it away or name another attempt directory")


def file_above(path: Path) -> RollerError | None:
    """The refusal when `path`, or a folder that it lies in, is no folder; links to folders are fine here."""
    for place in (*reversed(path.parents), path):
        try:
            found = os.path.lexists(place) and not place.is_dir()
            mode = place.lstat().st_mode if found else 0
        except OSError:
            return None
        if found:
            kind = "a link that leads to no folder" if stat.S_ISLNK(mode) else f"{_kind(mode)}, not a folder"
            of_it = "" if place == path else f", so {path} cannot be made in it"
            return RollerError(f"{place}: is {kind}{of_it}: move it away or name another folder")
    return None


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "a pipe, socket or device"
