"""`python -m faults`: injects faults, prints what survived, and exits with 1 if an invariant is broken."""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks import report as tables
from faults import collect_faults, disk_faults, peers, proxy_kills, publication_faults, recorder_faults, report
from faults.children import start_server
from faults.ground import Ground, Ledger
from faults.talks import Service
from roller_capture import __version__
from tests.support.upstream import upstream

KINDS: Final[Mapping[str, Callable[[Ground], Awaitable[None]]]] = {
    "proxy-kills": proxy_kills.run,
    "publication": publication_faults.run,
    "upstreams": peers.run_upstreams,
    "clients": peers.run_clients,
    "signals": recorder_faults.run_signals,
    "proxies-in-a-row": recorder_faults.run_proxies_in_a_row,
    "clock": recorder_faults.run_clocks,
    "disk": disk_faults.run,
    "collect": collect_faults.run,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--only", choices=KINDS, action="append", help="these kinds; may be given several times")
    parser.add_argument("--seed", type=int, help="of all choices (the time)")
    parser.add_argument("--times", type=float, default=1.0, help="how many of each; 0.1 tries it out")
    parser.add_argument("--directory", type=Path, help="where to work (the system's temporary folder)")
    parser.add_argument("--markdown", type=Path, help="also write the tables between the marks of this document")
    return parser.parse_args()


async def inject(ground: Ground, kinds: list[str]) -> None:
    """All faults of these kinds."""
    async with upstream(ground.service) as service:
        ground.service.port = service.port
        for name in kinds:
            started = time.monotonic()
            await KINDS[name](ground)
            sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")


def main() -> int:
    """The exit code."""
    arguments = _arguments()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    sys.stderr.write(f"seed {seed}\n")
    started = time.monotonic()
    start_server()
    ledger = Ledger()
    with tempfile.TemporaryDirectory(prefix="roller-faults-", dir=arguments.directory) as directory:
        # Copies that validation makes belong there too.
        tempfile.tempdir = directory
        ground = Ground(Path(directory), seed, ledger, Service(), arguments.times)
        asyncio.run(inject(ground, arguments.only or list(KINDS)))
        tempfile.tempdir = None
    about = (
        f"Seed {seed}, {time.monotonic() - started:.0f} s on {os.cpu_count()} processors with a load of "
        f"{os.getloadavg()[0]:.0f}, Python {platform.python_version()}, mitmproxy {version('mitmproxy')}, "
        f"roller-capture {__version__}."
    )
    found = report.tables(ledger, "Faults")
    sys.stdout.write(f"{about}\n\n{tables.plain(found)}\n")
    if arguments.markdown is not None:
        report.write_markdown(arguments.markdown, found, about)
    broken = report.problems(ledger)
    for line in broken:
        sys.stdout.write(f"BROKEN {line}\n")
    injected = sum(row.injected for row in ledger.rows.values())
    sys.stdout.write(f"{injected} faults, {len(broken)} invariants broken\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
