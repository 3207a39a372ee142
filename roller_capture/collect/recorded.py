"""How much an attempt has recorded so far, while it is being recorded."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.working_files import WORK_DIR

_BODIES: Final = "bodies"
_REQUEST_ENDING: Final = ".request"


@dataclass(frozen=True, slots=True)
class Recorded:
    """How many model requests have come, and the bytes of all bodies."""

    calls: int = 0
    size: int = 0


def recorded_so_far(attempt: Path) -> Recorded:
    """Told from the names and sizes of the working files."""
    calls = size = 0
    try:
        with os.scandir(attempt / WORK_DIR / _BODIES) as entries:
            for entry in entries:
                calls += entry.name.endswith(_REQUEST_ENDING)
                size += entry.stat(follow_symlinks=False).st_size
    except OSError:
        pass
    return Recorded(calls, size)
