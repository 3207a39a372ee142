"""A pool of processes, each started when it is needed (`roller_capture.pool.worker` is what runs in them).

`concurrent.futures` has one too, but there a worker that dies breaks the whole pool, and nobody says at which job.
"""

import contextlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from roller_capture.errors import RollerError
from roller_capture.pool.jobs import Job, Pool, WorkerDiedError

_PACKAGE_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_MAIN: Final = "import sys; sys.path.append(sys.argv[1]); from roller_capture.pool.worker import main; main()"
_STOP_SECONDS: Final = 10.0


class ProcessPool(Pool):
    """Processes of this machine. `held` are descriptors that they keep open: a run stays locked while one works."""

    def __init__(self, size: int, held: tuple[int, ...] = ()) -> None:
        super().__init__(size)
        self._held = held
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        for worker in self._workers:
            worker.tell_to_end()
        if error is None or isinstance(error, RollerError):  # on a last Ctrl-C nothing is waited for
            for worker in self._workers:
                worker.end()

    def _run_once(self, job: Job[Any]) -> tuple[str, Any]:
        worker = self._idle.get()
        try:
            if worker is None or not worker.is_alive:
                worker = self._new_worker()
            return worker.run(job)
        finally:
            self._idle.put(worker)

    def _new_worker(self) -> "_Worker":
        with self._lock:
            if self._is_over:
                raise RollerError("no process is started any more")
            worker = _Worker(self._held)
            self._workers = [*(one for one in self._workers if one.is_alive), worker]
        return worker

    def _stop_at_once(self) -> None:
        with self._lock:
            for worker in self._workers:
                worker.kill()


class _Worker:
    def __init__(self, held: tuple[int, ...]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _MAIN, str(_PACKAGE_ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=held,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, job: Job[Any]) -> tuple[str, Any]:
        """Raises `RollerError` of the answer, and `WorkerDiedError`."""
        try:
            self._tell(job.task)
            kind, value = self._hear()
            while kind == "ask":
                self._answer(job, value)
                kind, value = self._hear()
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            self.end()
            raise WorkerDiedError(_ending(self._process.returncode)) from None
        return kind, value

    def _answer(self, job: Job[Any], question: Any) -> None:
        try:
            reply = None if job.answer is None else job.answer(question)
        except BaseException:
            self._tell((False, None))
            self._hear()
            raise
        self._tell((True, reply))

    def _tell(self, message: Any) -> None:
        self._stdin.write(pickle.dumps(message))
        self._stdin.flush()

    def _hear(self) -> tuple[str, Any]:
        assert self._process.stdout is not None
        message: tuple[str, Any] = pickle.load(self._process.stdout)  # noqa: S301 - a process of ours
        return message

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def tell_to_end(self) -> None:
        """It ends by itself when it can read no more."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def end(self) -> None:
        """Waits for its end."""
        self.tell_to_end()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()


def _ending(code: int) -> str:
    """How a process ended, by its return code."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
