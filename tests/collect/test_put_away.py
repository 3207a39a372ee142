"""The private folder of an attempt is removed while the watchdog still holds it."""

from pathlib import Path

import pytest

from roller_capture.collect.attempt import AttemptRunner
from roller_capture.collect.private_folder import make_private_folder


def test_the_watchdog_lets_go_after_the_folder_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in between, nobody would remove it, and Resume would read what is left of it as the harness's logs."""
    private = make_private_folder()
    seen: list[bool] = []
    runner = object.__new__(AttemptRunner)
    monkeypatch.setattr(runner, "_release", lambda: seen.append(Path(private.root).exists()))
    runner._put_away(private)
    assert seen == [False]
