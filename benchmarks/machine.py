"""What the figures were measured on."""

import os
import platform
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

from roller_capture import __version__

_FILES = 200
_SLOW_NEW_FILE = 100
"""Microseconds; usual on a disk of its own are 10 to 40."""


def describe(directory: Path) -> str:
    """One paragraph: processors, their load before the run, memory, system, versions, and where the files lay.

    Says on stderr when new files are slow there, since the proxy's figures are then the disk's.
    """
    load = os.getloadavg()[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    new_file = _new_file_cost(directory)
    if new_file > _SLOW_NEW_FILE:
        sys.stderr.write(
            f"a new file takes {new_file:.0f} microseconds in {directory}: ext4 searches past files that were deleted "
            "in the last minutes, so wait five minutes or choose another --directory\n"
        )
    return (
        f"{os.cpu_count()} processors ({_processor()}), load {load:.1f} before the run, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, files on {_filesystem(directory)} "
        f"({new_file:.0f} microseconds for a new one), "
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


def _new_file_cost(directory: Path) -> float:
    """Microseconds for one, of 200 in a folder of their own."""
    folder = directory / "new-files"
    folder.mkdir()
    started = time.perf_counter()
    for number in range(_FILES):
        os.close(os.open(folder / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    cost = (time.perf_counter() - started) / _FILES * 1e6
    shutil.rmtree(folder)
    return cost
