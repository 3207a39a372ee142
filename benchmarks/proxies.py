"""The proxies that are compared, each a mitmdump of its own before the same model service."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.shipped import shipped_path

_ROOT: Final = Path(__file__).parents[1]
_MITMDUMP: Final = "from mitmproxy.tools.main import mitmdump; mitmdump()"
_LAZY: Final = ("--set", "connection_strategy=lazy")
_STREAMED: Final = ("--set", "stream_large_bodies=1")
_START_SECONDS: Final = 60

BARE: Final = "bare"
ADDON: Final = "addon"
SAVE: Final = "-w file"
NAMES: Final = (BARE, ADDON, SAVE)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running one."""

    name: str
    port: int
    pid: int

    def resident(self) -> float:
        """Resident memory in megabytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _options(name: str, directory: Path) -> tuple[str, ...]:
    if name == BARE:
        return (*_STREAMED, *_LAZY)
    if name == SAVE:
        # mitmproxy 11 has no store_streamed_bodies, ignores it, and saves the flows without their bodies.
        return (*_STREAMED, *_LAZY, "--set", "store_streamed_bodies=true", "-w", str(directory / "flows"))
    attempt = ("--set", f"roller_attempt={directory / 'attempt'}", "--set", "roller_harness=generic")
    return ("-s", str(shipped_path("addons", "capture.py")), *attempt)


@contextlib.contextmanager
def model_service() -> Iterator[int]:
    """Starts the service; its port."""
    command = [sys.executable, "-m", "benchmarks.upstream"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextlib.contextmanager
def proxy(name: str, upstream: int, directory: Path) -> Iterator[Proxy]:
    """Starts a proxy that keeps its files in `directory`; it listens when this returns."""
    directory.mkdir(parents=True)
    port = _free_port()
    mode = f"reverse:http://127.0.0.1:{upstream}@127.0.0.1:{port}"
    private = ("--set", f"confdir={directory / 'private'}")
    command = [sys.executable, "-c", _MITMDUMP, "-q", *_options(name, directory), *private, "--mode", mode]
    log = directory / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=_ROOT
        )
    try:
        _wait_until_listening(process, port, log)
        yield Proxy(name, port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"a proxy did not start: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
