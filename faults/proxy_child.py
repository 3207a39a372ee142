"""In a forked child: mitmdump with the shipped addon, with a strike, a limit or a false clock of its own."""

import resource
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

with warnings.catch_warnings():
    # mitmproxy's own dependencies use deprecated names of each other.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy.tools import dump, main

import roller_capture.addon
from faults.failpoints import Failpoints, Strike
from roller_capture.shipped import shipped_path

assert dump
assert roller_capture.addon  # so that it is imported before the fork


@dataclass(frozen=True, slots=True)
class ProxyOrder:
    """What to run. `clock_back` takes so many seconds from the wall clock after the first `clock_after` looks at it."""

    attempt: Path
    confdir: Path
    upstream_port: int
    strike: Strike | None = None
    file_limit: int | None = None
    clock_back: float = 0.0
    clock_after: int = 0


def run(order: ProxyOrder) -> None:
    """Runs it to its end."""
    warnings.simplefilter("ignore")
    if order.strike is not None:
        Failpoints(order.attempt, order.strike).install()
    if order.file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.file_limit, order.file_limit))
    if order.clock_back:
        _set_clock_back(order.clock_back, order.clock_after)
    mode = f"reverse:http://127.0.0.1:{order.upstream_port}@127.0.0.1:0"
    options = ["-q", "-s", str(shipped_path("addons", "capture.py")), "--mode", mode]
    for setting in (f"roller_attempt={order.attempt}", "roller_harness=generic", f"confdir={order.confdir}"):
        options += ["--set", setting]
    main.mitmdump(options)


def _set_clock_back(seconds: float, after: int) -> None:
    real, looks = time.time, 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return real() - (seconds if looks > after else 0.0)

    time.time = clock
