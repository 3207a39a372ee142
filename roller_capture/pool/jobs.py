"""Jobs, and what every pool does with them alike: order, errors, and one more try after a death."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from roller_capture.errors import RollerError
from roller_capture.pool.worker import Task
from roller_capture.terminal import say

_WAITING_PER_PROCESS: Final = 16
"""Jobs that are handed out before the result of the first of them was taken: memory does not grow with their number."""

Item = TypeVar("Item")


class WorkerDiedError(Exception):
    """The process ended in the middle of a job; the message says how."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Item]):
    """Something to do: `task` is called in a process; `name` is for people.

    `answer` answers what the task asks, in a thread of this process. It may raise `RollerError`: then that is the
    result, and the task hears that it was refused. `item` is the caller's own.
    """

    name: str
    task: Task
    item: Item
    answer: Callable[[Any], Any] | None = None


class Pool(ABC):
    """Up to `size` jobs at once, each in another process; also a context manager."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def _run_once(self, job: Job[Any]) -> tuple[str, Any]:
        """What the process said at last (`worker.result_of`). Raises `RollerError` of the answer, `WorkerDiedError`."""

    @abstractmethod
    def _stop_at_once(self) -> None:
        """Ends the processes, whatever they do."""

    def run(self, job: Job[Any]) -> Any:
        """Does one job in a free process and returns its result; safe to call from many threads.

        Raises `RollerError`: what the task or the answer raised, and when two processes died at it.
        """
        try:
            return _result(job, *self._run_once(job))
        except WorkerDiedError as death:
            if self._is_over:
                raise RollerError(f"{job.name}: the process that worked on it {death}") from None
            say(f"warning: {job.name}: the process that worked on it {death}: it is tried once more")
        try:
            return _result(job, *self._run_once(job))
        except WorkerDiedError as death:
            raise RollerError(f"{job.name}: the process that worked on it {death}, twice") from None

    def each(self, jobs: Iterable[Job[Item]]) -> Iterator[tuple[Item, Any | RollerError]]:
        """Does all jobs side by side, and tells the result of each in their order, an error as its value.

        Whoever stops listening, or is interrupted, ends the processes: nothing is waited for.
        """
        source = iter(jobs)
        waiting: deque[tuple[Item, Future[Any]]] = deque()
        with ThreadPoolExecutor(self.size) as threads:
            try:
                while True:
                    while len(waiting) < self.size * _WAITING_PER_PROCESS and (job := next(source, None)) is not None:
                        waiting.append((job.item, threads.submit(self._outcome, job)))
                    if not waiting:
                        return
                    item, future = waiting.popleft()
                    yield item, future.result()
            except BaseException:
                self._is_over = True
                threads.shutdown(wait=False, cancel_futures=True)
                self._stop_at_once()
                raise

    def _outcome(self, job: Job[Any]) -> Any | RollerError:
        try:
            return self.run(job)
        except RollerError as error:
            return error


def _result(job: Job[Any], kind: str, value: Any) -> Any:
    if kind == "error":
        message, exit_code = value
        raise RollerError(message, exit_code=exit_code)
    if kind == "failed":
        raise RollerError(f"{job.name}: {value}")
    return value
