"""In a forked child: `finalize` or `prune` of one attempt, with a strike at one of its file system calls."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from faults.failpoints import Failpoints, Strike
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.prune import prune_attempt
from roller_capture.vocabulary import DebugRetention


def _finalize(attempt: Path) -> object:
    return finalize_attempt(attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))


def _lean(attempt: Path) -> object:
    return finalize_attempt(attempt, FinalizeRequest(debug_retention=DebugRetention.OFF, compress=True))


WORKS: Final[dict[str, Callable[[Path], object]]] = {
    "finalize, raw kept": _finalize,
    "finalize, compressed": _lean,
    "prune": prune_attempt,
}


def run(work: str, attempt: Path, strike: Strike | None, steps: Path | None) -> None:
    """Exit code and word as the command's own; `steps` takes the names of the calls that were made.

    Everything else that is raised is a traceback on stderr, as it would be for the user.
    """
    points = Failpoints(attempt, strike)
    points.install()
    try:
        WORKS[work](attempt)
    except RollerError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    if steps is not None:
        steps.write_text(json.dumps(points.steps))
