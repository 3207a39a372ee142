"""A small process that outlives `collect` when that is killed, and puts in order what it leaves behind.

`collect` tells it over a pipe which attempts are running. The pipe's end without a word is what a kill looks like.
Waiting costs about 10 MB and no time: the rest of the package is imported only when there is something to do.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any, Final

_AT_ONCE: Final = 8
"""Each of them mostly waits until processes have ended."""


def main() -> None:
    """Reads what `collect` says on stdin until its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)  # what it saves is for the user alone
    watched = Watched()
    for line in sys.stdin.buffer:
        watched.hear(line)
    watched.put_in_order()


class Watched:
    """The attempts that are running, as far as `collect` has told."""

    def __init__(self) -> None:
        self._attempts: dict[str, dict[str, Any]] = {}
        # Opened while they are known to live, so that no number can have been given to another process.
        self._descriptors: dict[str, dict[int, int]] = {}

    def hear(self, line: bytes) -> None:
        """Takes one message; one that is torn, since the kill came in mid-write, says nothing."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "release" in message:
            self._attempts.pop(message["release"], None)
            for descriptor in self._descriptors.pop(message["release"], {}).values():
                os.close(descriptor)
            return
        name, attempt = message["watch"], message["attempt"]
        self._attempts[name] = attempt
        held = self._descriptors.setdefault(name, {})
        for pid in (*attempt["keepers"], attempt["proxy"]):
            if pid is not None and pid not in held:
                with contextlib.suppress(OSError):
                    held[pid] = os.pidfd_open(pid)

    def put_in_order(self) -> None:
        """Ends and saves what was not released, several at a time; one that goes wrong does not keep the others."""
        if not self._attempts:
            return
        salvage = importlib.import_module("roller_capture.collect.salvage")
        futures = importlib.import_module("concurrent.futures")

        def put(name: str) -> None:
            salvage.put_in_order(self._attempts[name], self._descriptors.get(name, {}))

        with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(put, name) for name in self._attempts]:
                with contextlib.suppress(Exception):
                    done.result()
