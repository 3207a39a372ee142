"""Folders that may not be looked into, also where root runs the tests, who may."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def forbid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with mode 000."""

    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *rest: Any, **options: Any) -> Any:
            named = Path(path) if isinstance(path, str | Path) else Path()
            if folder in named.parents or (named == folder and real not in asking):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *rest, **options)

        return call

    asking = (os.stat, os.lstat)  # of the folder itself: its parent's mode allows that
    for name in ("scandir", "listdir", "stat", "lstat", "open"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
