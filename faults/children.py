"""Processes of one fault each, forked from a server that has imported all there is: a start costs little.

`output` takes what a child prints; anything there is a finding, since nothing that we do prints a traceback.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, Self

PRELOADED: Final = ["faults.proxy_child", "faults.finalizer_child"]
_LOOK_EVERY: Final = 0.005


class Child:
    """A forked process that runs one function of a module, with picklable arguments."""

    def __init__(self, output: Path, work: Callable[..., object], *arguments: Any) -> None:
        self.output = output
        context = multiprocessing.get_context("forkserver")
        self._process: BaseProcess = context.Process(target=_run, args=(output, work, arguments), daemon=True)

    def start(self) -> Self:
        """Starts it."""
        self._process.start()
        return self

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Minus the number of the signal that ended it; `None` while it runs."""
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            if self.exit_code is None:
                os.kill(self.pid, number)

    async def ended(self) -> int:
        """Waits for its end."""
        while (code := self.exit_code) is None:  # noqa: ASYNC110 - a process has no event
            await asyncio.sleep(_LOOK_EVERY)
        return code

    def printed(self) -> str:
        """What it printed."""
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""


def start_server() -> None:
    """Starts the server, which imports what the children need. Before the first child."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()


def _run(output: Path, work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    work(*arguments)
