"""Being told to stop is an exception, so that nothing half-written stays."""

import signal
import threading
from pathlib import Path

import pytest

from roller_capture.clean_stop import stops_cleanly
from roller_capture.export.output_files import OutputFiles


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_becomes_an_exit_and_handlers_come_back(number: signal.Signals, code: int) -> None:
    """With the code that a shell gives it."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as caught, stops_cleanly():
            signal.raise_signal(number)
        assert caught.value.code == code
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stops_cleanly():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_changes_nothing() -> None:
    """Python tells signals to the main thread alone."""
    seen: list[object] = []

    def look() -> None:
        with stops_cleanly():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_an_export_that_is_told_to_stop_leaves_nothing(tmp_path: Path) -> None:
    """Also under no other name."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    files = OutputFiles((tmp_path / "one",), overwrite=False)

    def write() -> None:
        with files.writing(), files.open(tmp_path / "one") as stream:
            stream.write(b"half")
            assert len(list(tmp_path.iterdir())) == 1
            signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.raises(SystemExit):
            write()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert list(tmp_path.iterdir()) == []
