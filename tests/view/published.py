"""Published attempts to look at, and to forge."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roller_capture.publication import CALLS, MANIFEST, RELATIONS
from tests.support.publish import lines

Record = dict[str, Any]


def forge(
    attempt: Path,
    *,
    manifest: Callable[[Record], object] | None = None,
    calls: Callable[[list[Record]], object] | None = None,
    relations: Callable[[list[Record]], object] | None = None,
) -> Path:
    """Changes records in place, and the sizes in the manifest so that they fit again."""
    for name, change in ((CALLS, calls), (RELATIONS, relations)):
        if change is not None:
            records = lines(attempt / name)
            change(records)
            text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
            (attempt / name).write_text(text)
    whole = json.loads((attempt / MANIFEST).read_bytes())
    for name in (CALLS, RELATIONS):
        whole["files"][name]["bytes"] = (attempt / name).stat().st_size
    if manifest is not None:
        manifest(whole)
    (attempt / MANIFEST).write_text(json.dumps(whole))
    return attempt
