"""What people type to name a place: a path of this machine, or a URL."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.remote.names import name_problem

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::[^/]*)?://(.*)", re.DOTALL)
_NO_FOLDERS: Final = frozenset({"http", "https", "data", "github", "git"})
_NO_LETTERS: Final = re.compile(r'["\\\x00-\x1f\x7f]')


@dataclass(frozen=True, slots=True)
class Location:
    """A place at a URL; it holds no credential, and does not end in a slash."""

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url}/{name}")

    @property
    def protocol(self) -> str:
        """What stands before `://`."""
        return self.url.partition("://")[0]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names on the way to it; the first is the bucket or host, empty where there is none."""
        return tuple(self.url.partition("://")[2].split("/"))

    @property
    def name(self) -> str:
        """The last of them."""
        return self.parts[-1]

    @property
    def parent(self) -> "Location":
        """The folder that it lies in. Raises `ValueError` for a bucket."""
        if len(self.parts) < 2:
            raise ValueError(f"{self.url} lies in no folder")
        return Location(self.url.rpartition("/")[0])


Place = Path | Location


def place(text: str) -> Place:
    """The path or URL that was typed. Raises `RollerError` (exit 2) for a URL that cannot be used here; one with a
    credential in it is not repeated."""
    match = _URL.fullmatch(text)
    if match is None:
        return Path(text)
    protocol, rest = match[1].lower(), match[3].rstrip("/")
    if "@" in rest.partition("/")[0]:
        raise RollerError(
            f"{protocol}://…: a user name or password has no place in a URL: give it in fsspec's configuration or the "
            "environment",
            exit_code=2,
        )
    if "?" in rest or "#" in rest:
        raise RollerError(f"{protocol}://…: a URL with ? or # cannot be used: it may hold a signature", exit_code=2)
    if match[2] is not None or "::" in rest:
        raise RollerError(f"{protocol}://…: chained URLs (::) cannot be used", exit_code=2)
    if protocol in _NO_FOLDERS:
        raise RollerError(f"{protocol}://…: has no folders that can be listed: name a bucket or a path", exit_code=2)
    if _NO_LETTERS.search(rest) or any(name_problem(name) for name in rest.removeprefix("/").split("/")):
        raise RollerError(f"{text}: is no URL of a bucket or folder: name one", exit_code=2)
    return Location(f"{protocol}://{rest}")


def local_path(text: str) -> Path:
    """The path that was typed where no URL can be used. Raises `RollerError` (exit 2) for a URL: as a path it would
    be a folder `s3:` in the current one."""
    typed = place(text)
    if isinstance(typed, Location):
        raise RollerError(f"{typed}: no URL can be used here: name a path of this machine", exit_code=2)
    return typed
