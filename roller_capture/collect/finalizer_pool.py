"""Finalizes attempts in a few processes beside `collect`: as many at once as there are cores, so that 64 attempts that
end together take their turns, and none of it stands in the way of those that still run."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest
from roller_capture.finalizer_job import finalize_job
from roller_capture.pool import ProcessPool


class FinalizerPool:
    """Up to `size` processes; also a context manager. `held` are the descriptors that they keep open."""

    def __init__(self, size: int, held: tuple[int, ...] = ()) -> None:
        self._pool = ProcessPool(size, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def finalize(self, attempt: Path, request: FinalizeRequest) -> dict[str, Any]:
        """Publishes one attempt and returns its manifest; waits for a free process. `before_publish` is called here.

        Raises `RollerError` as `finalize_attempt` does, and when two processes were killed at it.
        """
        outcome: FinalizeOutcome = self._pool.run(finalize_job(attempt, request))
        return outcome.manifest
