"""Finalizes attempts in a few processes beside `collect`: as many at once as there are cores, so that 64 attempts that
end together take their turns, and none of it stands in the way of those that still run."""

import contextlib
import json
import queue
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.published import read_manifest

_PACKAGE_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_MAIN: Final = (
    "import sys; sys.path.append(sys.argv[1]); from roller_capture.collect.finalizer_worker import main; main()"
)
_STOP_SECONDS: Final = 10.0


class FinalizerPool:
    """Up to `size` worker processes, started when they are needed; also a context manager.

    `held` are descriptors that they keep open: the run stays locked while one of them works.
    """

    def __init__(self, size: int, held: tuple[int, ...] = ()) -> None:
        self._held = held
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.tell_to_end()
        if error is None or isinstance(error, RollerError):  # on a last Ctrl-C nothing is waited for
            for worker in self._workers:
                worker.end()

    def finalize(self, attempt: Path, request: FinalizeRequest) -> dict[str, Any]:
        """Publishes one attempt and returns its manifest; waits for a free process. `before_publish` is called here.

        Raises `RollerError` as `finalize_attempt` does, and when the process was killed.
        """
        worker = self._idle.get()
        try:
            if worker is None or not worker.is_alive:
                worker = _Worker(self._held)
                self._workers.append(worker)
            worker.finalize(attempt, request)
        finally:
            self._idle.put(worker)
        return read_manifest(attempt)


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

    def finalize(self, attempt: Path, request: FinalizeRequest) -> None:
        try:
            self._tell(
                {
                    "attempt": str(attempt),
                    "harness": request.harness,
                    "native": None if request.native is None else str(request.native),
                    "debug_retention": request.debug_retention,
                    "execution_status": request.execution_status,
                    "model_aliases": dict(request.model_aliases),
                }
            )
            answer = self._hear()
            if "intend" in answer:
                self._intend(answer["intend"], request.before_publish)
                answer = self._hear()
        except (BrokenPipeError, EOFError):
            self.end()
            raise RollerError(
                f"{attempt}: the process that finalized it was killed: roller-capture finalize publishes it"
            ) from None
        if "error" in answer:
            raise RollerError(answer["error"], exit_code=answer["exit_code"])

    def _intend(self, digest: str, before_publish: Callable[[str], None] | None) -> None:
        """Without room for the books, nothing is published: what they do not know could not be told from a forgery."""
        go = False
        try:
            if before_publish is not None:
                before_publish(digest)
            go = True
        finally:
            self._tell({"go": go})
            if not go:
                self._hear()

    def _tell(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        return answer

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
            self._process.kill()
            self._process.wait()
