"""Paths that people have typed, as we keep them and say them."""

import os
from pathlib import Path


def full_path(path: Path) -> Path:
    """Absolute, `~` filled in; without `..` where that names the same place: behind a link it would be another one."""
    whole = os.path.join(Path.cwd(), os.path.expanduser(path))  # noqa: PTH111, PTH118 - pathlib's raises for ~nobody
    plain = os.path.normpath(whole)
    return Path(plain if os.path.realpath(plain) == os.path.realpath(whole) else whole)
