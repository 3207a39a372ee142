"""Where jobs are done: in this process, in several of this machine, or by a Ray cluster."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.pool.jobs import Pool
from roller_capture.pool.process_pool import ProcessPool


class Engine(StrEnum):
    """What starts the processes."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, slots=True)
class Workers:
    """What the user asked for. `address` is that of a Ray cluster; without it one is started here, and ended again."""

    jobs: int = 1
    engine: Engine = Engine.LOCAL
    address: str | None = None

    @property
    def are_needed(self) -> bool:
        """Is any other process than this one to work?"""
        return self.jobs > 1 or self.engine is not Engine.LOCAL or self.address is not None

    def pool(self) -> AbstractContextManager[Pool]:
        """The processes. Raises `RollerError` (exit 2) where Ray or its cluster is not there."""
        if self.engine is Engine.LOCAL:
            if self.address is not None:
                raise RollerError("--address names a Ray cluster: it goes with --engine ray", exit_code=2)
            return ProcessPool(self.jobs)
        try:
            from roller_capture.pool.ray_pool import RayPool  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise RollerError(
                f"--engine ray: {error.name or 'ray'} is not installed: pip install 'roller-capture[ray]'", exit_code=2
            ) from None
        return RayPool(self.jobs, self.address)


THIS_PROCESS: Final = Workers()
"""Nobody else works."""
