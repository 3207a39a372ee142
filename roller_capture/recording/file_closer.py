"""Closes files in a thread of its own: on a network file system `close` waits until the server has all of the file.

While it records, nothing is synced. What was written survives a killed process, since the system holds it; only a
failing machine takes it away, and then a body is shorter than its event says, which the finalizer finds. A sync, even
in another thread, holds up every new file on the same disk: with one every quarter of a second, new files took 23 % of
the proxy's time at 64 streams, without it 3 % (docs/performance.md). Publication syncs whatever it adopts.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

_INTERVAL: Final = 0.25
"""Seconds. Waking the thread for each file would cost the event loop more than the closing itself."""

_MOST_WAITING: Final = 256
"""Handles. Further ones are closed at once."""

Failed = Callable[[OSError], None]


class FileCloser:
    """Takes over handles, oldest first. Any thread may call; nothing here raises."""

    def __init__(self) -> None:
        self._waiting: Final[deque[tuple[int, Failed]]] = deque()
        self._wanted: Final = threading.Event()
        self._finishing: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def close(self, descriptor: int, failed: Failed) -> None:
        """Closes soon. `failed` is told, maybe in another thread, what kept the file from being stored."""
        if len(self._waiting) >= _MOST_WAITING or self._finishing.is_set():
            _close(descriptor, failed)
            return
        self._waiting.append((descriptor, failed))
        if not self._wanted.is_set():
            self._wanted.set()
            self._start()

    def finish(self) -> None:
        """Closes all that waits and ends the thread. Blocks."""
        self._finishing.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._close_waiting()

    def _start(self) -> None:
        if self._thread is None and not self._finishing.is_set():
            thread = threading.Thread(target=self._run, name="roller-close", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads: then here, and the next time anew
                self._wanted.clear()
                self._close_waiting()
            else:
                self._thread = thread

    def _run(self) -> None:
        while not self._finishing.is_set():
            self._wanted.wait()
            self._finishing.wait(_INTERVAL)
            self._wanted.clear()
            self._close_waiting()

    def _close_waiting(self) -> None:
        for _ in range(len(self._waiting)):
            _close(*self._waiting.popleft())


def _close(descriptor: int, failed: Failed) -> None:
    try:
        os.close(descriptor)
    except OSError as error:
        failed(error)
