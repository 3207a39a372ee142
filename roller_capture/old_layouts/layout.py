"""Which layout does a published attempt have?"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from roller_capture.records import CAPTURE_SCHEMA, STORAGE_LAYOUT

PARTICIPANTS: Final = "participants"


class Layout(StrEnum):
    """The layouts that were ever written."""

    CURRENT = STORAGE_LAYOUT
    COMPACT_1 = "compact/v1"
    BY_PARTICIPANT = "participants"
    """The first one: `participants/ID/calls.jsonl`; its manifest names no layout."""


def layout_of(attempt_dir: Path, manifest: Mapping[str, Any]) -> Layout | None:
    """The layout, or `None` for one that this version does not know. The current one may lack its `lifecycle`."""
    if manifest.get("schema") != CAPTURE_SCHEMA:
        return None
    named = manifest.get("storage_layout")
    if named is None:
        folder = attempt_dir / PARTICIPANTS
        return Layout.BY_PARTICIPANT if folder.is_dir() and not folder.is_symlink() else None
    return next((layout for layout in (Layout.CURRENT, Layout.COMPACT_1) if layout == named), None)
