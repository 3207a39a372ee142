"""The watchdog's memory: what is left to put in order."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from roller_capture.collect import salvage
from roller_capture.collect.guard import Guard, Guarded
from roller_capture.collect.watchdog import Watched


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _watch(name: str, **members: Any) -> bytes:
    return _line({"watch": name, "attempt": {"proxy": None, "name": name, **members}})


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int | None]]:
    """What was put in order."""
    found: list[tuple[dict[str, Any], int | None]] = []
    monkeypatch.setattr(salvage, "put_in_order", lambda attempt, proxy: found.append((attempt, proxy)))
    return found


def test_what_was_not_released_is_put_in_order(orders: list[tuple[dict[str, Any], int | None]]) -> None:
    """By its last word; a line that was torn by the kill says nothing."""
    watched = Watched()
    for line in (_watch("a"), _watch("b", leader=1), _watch("b", leader=2), _line({"release": "a"}), b'{"watch": "c'):
        watched.hear(line)
    watched.put_in_order()
    assert orders == [({"proxy": None, "name": "b", "leader": 2}, None)]


def test_a_proxy_is_held_from_the_first_word(orders: list[tuple[dict[str, Any], int | None]]) -> None:
    """The number of a process that has gone may belong to another one later."""
    proxy = subprocess.Popen([sys.executable, "-c", ""])
    watched = Watched()
    watched.hear(_watch("a", proxy=proxy.pid))
    proxy.wait()
    watched.hear(_watch("a", proxy=proxy.pid, leader=5))
    watched.put_in_order()
    (_, descriptor), *_ = orders
    assert descriptor is not None
    os.close(descriptor)


def test_a_proxy_that_has_gone_is_no_fault(orders: list[tuple[dict[str, Any], int | None]]) -> None:
    """There is nothing to stop then."""
    watched = Watched()
    watched.hear(_watch("a", proxy=2**22 - 1))
    watched.hear(_line({"release": "nobody"}))
    watched.put_in_order()
    assert [proxy for _, proxy in orders] == [None]


def test_a_watchdog_that_was_killed_disturbs_nobody() -> None:
    """It is needed only when its collect is killed too."""
    with Guard() as guard:
        assert guard._process is not None
        guard._process.kill()
        guard._process.wait()
        guard.watch("a", Guarded("claude-code", "1", 1, ("/tmp/x",), "/tmp/x/home"))
        guard.release("a")
