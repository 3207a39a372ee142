"""Turns SIGINT, SIGTERM and SIGHUP into something that waiting code can wait for."""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignal:
    """Whether, and by which signal, the user asked to stop. `descriptor` becomes readable then, and stays so.

    The first signal asks for an orderly end. After that the signals have their usual effect again, so a second Ctrl-C
    also ends what is still being put in order. With `finish_first`, a signal before it asks only that nothing new be
    begun: that is `asked`, and nobody who waits is woken.
    """

    def __init__(self, *, finish_first: bool = False) -> None:
        self._finish_first = finish_first
        self.asked: signal.Signals | None = None
        self.received: signal.Signals | None = None
        self.descriptor, self._write_end = os.pipe()
        self._handlers: dict[signal.Signals, signal._HANDLER] = {}

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked = signal.Signals(number)
            if self._finish_first:
                return
        if self.received is None:
            self.received = signal.Signals(number)
            os.close(self._write_end)  # an end of file is seen by everyone who waits, at any time
            self._restore()

    def _install(self) -> None:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                self._handlers[number] = signal.signal(number, self._on_signal)

    def _restore(self) -> None:
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, handler)

    def _close(self) -> None:
        self._restore()
        os.close(self.descriptor)
        if self.received is None:
            os.close(self._write_end)

    @classmethod
    @contextlib.contextmanager
    def installed(cls, *, finish_first: bool = False) -> "Iterator[StopSignal]":
        """Takes the signals over for a while; only in the main thread."""
        stop = cls(finish_first=finish_first)
        stop._install()
        try:
            yield stop
        finally:
            stop._close()
