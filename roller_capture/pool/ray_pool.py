"""A pool whose processes are those of a Ray cluster. The package must be installed on every node of it.

Ray would do a job again by itself when a process dies; it is told not to, so that it is said here, and for which job.
What a task asks comes to this process through an actor, the desk: Ray has no way back to the one that sent a task.
"""

import asyncio
import contextlib
import itertools
import os
import pickle
import threading
from types import TracebackType
from typing import Any, Final, NamedTuple

import ray
from ray.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RaySystemError,
    TaskCancelledError,
    WorkerCrashedError,
)

from roller_capture.errors import RollerError
from roller_capture.pool.jobs import Job, Pool, WorkerDiedError
from roller_capture.pool.worker import RefusedError, Task, result_of

_DEATHS: Final = (WorkerCrashedError, NodeDiedError, OutOfMemoryError, RaySystemError, TaskCancelledError)


class _Question(NamedTuple):
    number: int
    job: int
    words: Any


class _Desk:
    """Takes questions of tasks, and gives them to the one who answers. Runs as an actor."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._asked: asyncio.Queue[_Question | None] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[tuple[bool, Any]]] = {}

    async def ask(self, job: int, words: Any) -> tuple[bool, Any]:
        """The answer, and whether there is one."""
        question = _Question(next(self._numbers), job, words)
        self._answers[question.number] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(question)
        return await self._answers[question.number]

    async def next(self) -> _Question | None:
        """The next question; `None` after `close`."""
        return await self._asked.get()

    async def answer(self, number: int, answered: bool, value: Any) -> None:
        """Gives the answer to who asked."""
        self._answers.pop(number).set_result((answered, value))

    async def close(self) -> None:
        """No more questions are taken."""
        self._asked.put_nowait(None)


def _work(task: bytes, job: int, desk: Any) -> tuple[str, Any]:
    """Runs in a process of the cluster."""
    os.umask(0o077)

    def ask(words: Any) -> Any:
        answered, value = ray.get(desk.ask.remote(job, words))
        if not answered:
            raise RefusedError
        return value

    call: Task = pickle.loads(task)  # noqa: S301 - from `_run_once` alone
    return result_of(call, ask)


class RayPool(Pool):
    """`jobs` tasks at once, on the cluster at `address`; without it on one of this machine, which ends with the pool.

    Raises `RollerError` (exit 2) when the cluster cannot be reached.
    """

    def __init__(self, jobs: int, address: str | None = None) -> None:
        super().__init__(jobs)
        _connect(jobs, address)
        self._desk: Any = ray.remote(_Desk).options(num_cpus=0, max_concurrency=1000).remote()
        self._task = ray.remote(num_cpus=1, max_retries=0)(_work)
        self._numbers = itertools.count()
        self._jobs: dict[int, Job[Any]] = {}
        self._errors: dict[int, BaseException] = {}
        self._running: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._answering = threading.Thread(target=self._answer_all, daemon=True)
        self._answering.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        with contextlib.suppress(RayError):
            ray.get(self._desk.close.remote())
        self._answering.join(timeout=5)
        ray.shutdown()

    def _run_once(self, job: Job[Any]) -> tuple[str, Any]:
        with self._lock:
            if self._is_over:
                raise RollerError("no task is sent any more")
            number = next(self._numbers)
            self._jobs[number] = job
            self._running[number] = self._task.remote(pickle.dumps(job.task), number, self._desk)
        try:
            result: tuple[str, Any] = ray.get(self._running[number])
        except _DEATHS as death:
            raise WorkerDiedError(f"was lost ({type(death).__name__})") from None
        except RayError as error:
            return "failed", f"{type(error).__name__}: {error}"
        finally:
            del self._running[number], self._jobs[number]
        if number in self._errors:
            raise self._errors.pop(number)
        return result

    def _stop_at_once(self) -> None:
        with self._lock:
            for reference in list(self._running.values()):
                with contextlib.suppress(RayError, ValueError):
                    ray.cancel(reference, force=True)

    def _answer_all(self) -> None:
        with contextlib.suppress(RayActorError):
            while (question := ray.get(self._desk.next.remote())) is not None:
                answered, value = self._answer(question)
                self._desk.answer.remote(question.number, answered, value)

    def _answer(self, question: _Question) -> tuple[bool, Any]:
        job = self._jobs.get(question.job)
        if job is None:  # its process has died in the meantime
            return False, None
        try:
            return True, None if job.answer is None else job.answer(question.words)
        except BaseException as error:  # noqa: BLE001 - it is raised where the job is waited for
            self._errors[question.job] = error
            return False, None


def _connect(jobs: int, address: str | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address is None:
        options |= {"num_cpus": jobs, "include_dashboard": False, "address": "local"}
    else:
        options |= {"address": address}
    for last in (address is not None, True):  # Ray gives its own processes 30 seconds: a busy machine may take longer
        try:
            ray.init(**options)
            return
        except Exception as error:  # noqa: BLE001 - Ray raises all kinds, and all mean the same here
            if last:
                where = "a local cluster" if address is None else address
                words = " ".join(str(error).split())[:300]
                raise RollerError(f"--engine ray: {where} cannot be used ({words})", exit_code=2) from None
            ray.shutdown()
