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

Orders = list[tuple[dict[str, Any], dict[int, int]]]


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _watch(name: str, **members: Any) -> bytes:
    return _line({"watch": name, "attempt": {"proxy": None, "keepers": [], "name": name, **members}})


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Orders:
    """What was put in order."""
    found: Orders = []
    monkeypatch.setattr(salvage, "put_in_order", lambda attempt, held: found.append((attempt, held)))
    return found


def test_what_was_not_released_is_put_in_order(orders: Orders) -> None:
    """By its last word; a line that was torn by the kill says nothing."""
    watched = Watched()
    for line in (_watch("a"), _watch("b", turns=1), _watch("b", turns=2), _line({"release": "a"}), b'{"watch": "c'):
        watched.hear(line)
    watched.put_in_order()
    assert orders == [({"proxy": None, "keepers": [], "name": "b", "turns": 2}, {})]


def test_processes_are_held_from_the_first_word(orders: Orders) -> None:
    """The number of a process that has gone may belong to another one later."""
    proxy = subprocess.Popen([sys.executable, "-c", ""])
    watched = Watched()
    watched.hear(_watch("a", proxy=proxy.pid))
    proxy.wait()
    watched.hear(_watch("a", proxy=proxy.pid, keepers=[os.getpid()]))
    watched.put_in_order()
    ((_, held),) = orders
    assert held.keys() == {proxy.pid, os.getpid()}
    for descriptor in held.values():
        os.close(descriptor)


def test_a_proxy_that_has_gone_is_no_fault(orders: Orders) -> None:
    """There is nothing to stop then."""
    watched = Watched()
    watched.hear(_watch("a", proxy=2**22 - 1))
    watched.hear(_line({"release": "nobody"}))
    watched.put_in_order()
    assert [held for _, held in orders] == [{}]


def test_a_watchdog_that_was_killed_disturbs_nobody() -> None:
    """It is needed only when its collect is killed too."""
    with Guard() as guard:
        assert guard._process is not None
        guard._process.kill()
        guard._process.wait()
        guard.watch("a", Guarded("claude-code", "1", 1, "/tmp/x", "/tmp/x/home", "/tmp/a", True, ()))
        guard.release("a")
