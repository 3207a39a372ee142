"""Paths that people have typed, as we keep them and say them."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NAMES: Final[dict[str, str]] = {}
"""Folders of this machine that hold copies, and what people call the places that the copies are of."""


def full_path(path: Path) -> Path:
    """Absolute, `~` filled in; without `..` where that names the same place: behind a link it would be another one."""
    whole = os.path.join(Path.cwd(), os.path.expanduser(path))  # noqa: PTH111, PTH118 - pathlib's raises for ~nobody
    plain = os.path.normpath(whole)
    return Path(plain if os.path.realpath(plain) == os.path.realpath(whole) else whole)


@contextlib.contextmanager
def standing_for(folder: Path, name: str) -> Iterator[None]:
    """Inside, what is said of `folder` and of what lies in it is said of `name`. The folder's own name is random, so
    no other text is taken for it."""
    _NAMES[str(folder)] = name
    try:
        yield
    finally:
        del _NAMES[str(folder)]


def named(text: str | Path, *, in_json: bool = False) -> str:
    """The path, or a text with paths in it, as people know it; `in_json` for the text of an ASCII document."""
    told = str(text)
    for folder, name in list(_NAMES.items()):
        told = told.replace(folder, json.dumps(name)[1:-1] if in_json else name)
    return told
