"""The collecting side of the watchdog (`roller_capture.collect.watchdog`): tells it what to put in order should this
process be killed."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from roller_capture.errors import RollerError

_PACKAGE_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_MAIN: Final = "import sys; sys.path.append(sys.argv[1]); from roller_capture.collect.watchdog import main; main()"
_STOP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Guarded:
    """One attempt that is running: what the watchdog would need.

    `private` is the temporary folder of the harness, in which `home` is, `proxy_folder` that of the proxy. `keepers`
    (of all processes of the harness) and `proxy` are process ids. `real_keys` are to be masked in what is saved; they
    go through the pipe and nowhere else.
    """

    harness: str
    harness_version: str
    turns: int
    private: str
    home: str
    attempt: str
    captured: bool
    real_keys: tuple[str, ...] = field(repr=False)
    keepers: tuple[int, ...] = ()
    proxy: int | None = None
    proxy_folder: str | None = None


class Lifeline(NamedTuple):
    """What the processes of one attempt inherit, so that none goes on alone should this process be killed, and the
    watchdog too: of both a process descriptor, and the ends of a pipe.

    The keepers watch the two, and end what they keep when both are gone. The proxy waits for that too, and then for the
    end of the keepers, which hold the pipe's other end: first the harness, then the proxy, as always.
    """

    processes: tuple[int, ...]
    read_end: int
    write_end: int

    @property
    def of_proxy(self) -> tuple[int, ...]:
        """See `roller_capture.lifeline`."""
        return (*self.processes, self.read_end)

    @property
    def of_keeper(self) -> tuple[int, ...]:
        """See `roller_capture.collect.keeper`."""
        return (*self.processes, self.write_end)


class Guard:
    """A watchdog for all attempts of this process; also a context manager.

    `held` are descriptors that it keeps open: the run stays locked until it has put everything in order.
    """

    def __init__(self, held: tuple[int, ...] = ()) -> None:
        self._held = held
        self._process: subprocess.Popen[bytes] | None = None
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            # -P: a module in the user's working directory must not stand in for one of Python's.
            [sys.executable, "-P", "-c", _MAIN, str(_PACKAGE_ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._held,
        )
        self._processes = (os.pidfd_open(os.getpid()), os.pidfd_open(self._process.pid))
        return self

    @contextlib.contextmanager
    def lifeline(self) -> Iterator[Lifeline]:
        """One for an attempt; its descriptors are closed here afterwards."""
        ends = os.pipe()
        try:
            yield Lifeline(self._processes, *ends)
        finally:
            for descriptor in ends:
                os.close(descriptor)

    def watch(self, name: str, guarded: Guarded) -> None:
        """Says what is to be put in order for the attempt `name`; a later word replaces an earlier one."""
        self._tell({"watch": name, "attempt": asdict(guarded)})

    def release(self, name: str) -> None:
        """The attempt `name` is in order."""
        self._tell({"release": name})

    def _tell(self, message: dict[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # A watchdog that somebody has killed is no reason to stop: it is only needed when we are killed too.
        with self._writing, contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if error is None or isinstance(error, RollerError):  # else attempts may still be at work in other threads
            for descriptor in self._processes:
                os.close(descriptor)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
