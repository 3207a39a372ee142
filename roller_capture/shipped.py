"""Finds files that stand beside the package in a checkout and inside it in a wheel (addons, schemas, hooks)."""

from pathlib import Path

from roller_capture.errors import RollerError

_PACKAGE = Path(__file__).resolve().parent


def shipped_path(*parts: str) -> Path:
    """The path of a shipped file, for example `shipped_path("schemas", "roller.call.v1.json")`."""
    for base in (_PACKAGE / "_shipped", _PACKAGE.parent):
        candidate = base.joinpath(*parts)
        if candidate.exists():
            return candidate
    raise RollerError(f"{'/'.join(parts)} is missing from this installation: install roller-capture again", exit_code=2)
