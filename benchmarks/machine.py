"""What the figures were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from roller_capture import __version__


def describe(directory: Path) -> str:
    """One paragraph: processors, their load before the run, memory, system, versions, and where the files lay."""
    load = os.getloadavg()[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} processors ({_processor()}), load {load:.1f} before the run, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, files on {_filesystem(directory)}, "
        f"Python {platform.python_version()}, mitmproxy {version('mitmproxy')}, "
        f"roller-capture {__version__}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _filesystem(directory: Path) -> str:
    """The type of the file system that holds `directory`: the longest mount point above it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    above = [(len(fields[1]), fields[2]) for fields in mounts if directory.resolve().is_relative_to(fields[1])]
    return max(above, default=(0, "an unknown file system"))[1]
