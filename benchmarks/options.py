"""How large a run is."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """Given to every section: where to work, and the sizes of a full or a quick run.

    `scale` divides the counts of calls, so that the harness itself can be tried in seconds.
    """

    directory: Path
    repetitions: int
    scale: int = 1
    """The sizes that the floors speak of are those of scale 1."""

    def calls(self, full: int) -> int:
        """`full` calls, or fewer in a smaller run."""
        return max(full // self.scale, 8)
