"""Being told to stop, as an exception: what was half-written is then removed on the way out."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stops_cleanly() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `SystemExit` with the exit code that a shell gives them, as SIGINT raises
    `KeyboardInterrupt`. A signal that is ignored stays so, and only the main thread can be told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
