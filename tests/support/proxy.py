"""A proxy with the capture addon inside the test's own event loop, and what it leaves on disk."""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # mitmproxy's own dependencies use deprecated names of each other.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy.options import Options
    from mitmproxy.tools.dump import DumpMaster

from roller_capture.addon import CaptureAddon
from tests.support.recording import Recording
from tests.support.upstream import eventually


@dataclass(slots=True)
class Proxy(Recording):
    """A running proxy and its recording."""

    ports: list[int] = field(default_factory=list)
    master: DumpMaster | None = None
    addon: CaptureAddon | None = None
    done: "asyncio.Task[None] | None" = None

    @property
    def port(self) -> int:
        """The first listener."""
        return self.ports[0]

    async def stop(self) -> None:
        """What SIGTERM does to mitmdump."""
        assert self.master is not None
        assert self.done is not None
        self.master.shutdown()
        await self.done


@contextlib.asynccontextmanager
async def running_proxy(
    attempt: Path, *modes: str, harness: str = "generic", addons: tuple[object, ...] = (), **options: Any
) -> AsyncIterator[Proxy]:
    """A proxy in these modes, which record into `attempt`; `addons` stand before the capture addon."""
    confdir = attempt.parent / "confdir"
    master = DumpMaster(Options(mode=list(modes), confdir=str(confdir)), with_termlog=False, with_dumper=False)
    capture = CaptureAddon()
    master.addons.add(*addons, capture)
    master.options.update(roller_attempt=str(attempt), roller_harness=harness, **options)
    proxy = Proxy(attempt, master=master, addon=capture)
    proxy.done = asyncio.create_task(master.run())
    while not capture._ready.is_set():
        assert not proxy.done.done(), proxy.done
        await asyncio.sleep(0.005)
    proxy.ports = [address[1] for address in master.addons.get("proxyserver").listen_addrs()]
    try:
        yield proxy
    finally:
        await proxy.stop()
        # A real proxy's process would end here, and its connections with it.
        connections = master.addons.get("proxyserver").connections
        for handler in list(connections.values()):
            for transport in list(handler.transports.values()):
                transport.writer.transport.abort()
        await eventually(lambda: not connections)


def reverse(port: int, scheme: str = "http") -> str:
    """A reverse proxy on a free port of this machine."""
    return f"reverse:{scheme}://127.0.0.1:{port}@127.0.0.1:0"
