"""What `collect` has noted of the run of an attempt: launcher.json, which is kept wherever `raw/` is."""

from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.published import is_regular_file
from roller_capture.working_files import read_regular_file

_LAUNCHER: Final = "raw/native/launcher.json"
_LARGEST: Final = 16 * 1024 * 1024


def launcher_note(attempt: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The note as it stands there, in no way checked; empty where the attempt has none. Raises nothing."""
    path = attempt / _LAUNCHER
    if _LAUNCHER not in manifest["files"] or not is_regular_file(path):
        return {}
    try:
        note = json_text.parse(read_regular_file(path, limit=_LARGEST))
    except (OSError, json_text.JsonError):
        return {}
    return note if isinstance(note, dict) else {}
