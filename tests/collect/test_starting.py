"""Proxies come up by turns."""

import os
import signal
import threading

import pytest

from roller_capture.collect.starting import Starting, StoppedError
from roller_capture.collect.stop_signal import StopSignal


def test_who_waits_for_a_turn_when_all_is_stopped_never_begins() -> None:
    """But whoever has a turn keeps it, and a first signal that only asks for no more samples changes nothing."""
    with StopSignal.installed(finish_first=True) as stop:
        starting = Starting(stop, at_once=1)
        refused: list[bool] = []

        def wait() -> None:
            try:
                with starting:
                    refused.append(False)
            except StoppedError:
                refused.append(True)

        for stopped in (False, True):
            with starting:
                waiting = threading.Thread(target=wait)
                waiting.start()
                os.kill(os.getpid(), signal.SIGINT)
                assert (stop.received is not None) is stopped
            waiting.join()
        assert refused == [False, True]
        with starting:
            pass


def test_a_third_signal_has_its_usual_effect() -> None:
    """The second one wakes who waits; the first is the one that is told of."""
    before = signal.getsignal(signal.SIGINT)
    with StopSignal.installed(finish_first=True) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.asked, stop.received) == (signal.SIGTERM, None)
        assert signal.getsignal(signal.SIGINT) != before
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop.asked, stop.received) == (signal.SIGTERM, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
