"""Signals become something to wait for."""

import os
import select
import signal

import pytest

from roller_capture.collect.stop_signal import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_noted_and_the_second_has_its_usual_effect(number: signal.Signals) -> None:
    """The descriptor is readable from then on, for everyone."""
    before = signal.getsignal(number)
    with StopSignal.installed() as stop:
        assert select.select([stop.descriptor], [], [], 0)[0] == []
        os.kill(os.getpid(), number)
        assert stop.received is number
        for _ in range(2):
            assert select.select([stop.descriptor], [], [], 0)[0] == [stop.descriptor]
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup, a hang-up is no reason to stop."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal.installed() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received is None
    finally:
        signal.signal(signal.SIGHUP, before)
