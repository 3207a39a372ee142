"""Names of files that lie elsewhere. Whoever wrote them could write anything: they become names of this machine only
when they cannot lead out of a folder."""

from typing import Final

_LONGEST: Final = 255


def name_problem(name: str) -> str | None:
    """Why one name of a path cannot be used; `None` for one that can."""
    if name in ("", ".", ".."):
        return "leads elsewhere" if name else "is empty"
    if "/" in name or "\0" in name:
        return "is no name"
    try:
        return "is too long" if len(name.encode()) > _LONGEST else None
    except UnicodeEncodeError:
        return "is no text"


def path_problem(path: str) -> str | None:
    """Why a relative path cannot be used; `None` for one that can."""
    return next(filter(None, map(name_problem, path.split("/"))), None)
