"""Finds the harness's program, and asks it for its version in an empty home."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher
from roller_capture.launchers.environment import harness_environment
from roller_capture.launchers.first_line import start_problem
from roller_capture.paths import full_path

_VERSION_SECONDS: Final = 60
_VERSIONS: Final[dict[tuple[Path, tuple[int, ...]], str]] = {}
"""What programs have told, by path and state: asked once in a process, since some need a second for the answer."""
_CHECKOUT: Final = Path(__file__).resolve().parent.parent.parent


class Binary(NamedTuple):
    """A harness's program and what it says its version is."""

    path: Path
    version: str


def find_binary(harness: str, launcher: Launcher, given: Path | None) -> Binary:
    """The program: as given, else the newest installed in `.harnesses/` of the working directory and of the checkout
    taken together, else the one on PATH.

    Raises `RollerError` (exit 2) when there is none, when its first line says that it cannot be started, and when it
    does not tell its version.
    """
    path = _given(given) if given is not None else _installed(harness, launcher) or _on_path(launcher)
    if path is None:
        raise RollerError(f"{harness} is not installed: {launcher.traits.install_hint}", exit_code=2)
    problem = start_problem(path)
    if problem is not None:
        raise RollerError(f"{path}: cannot be started: {problem}", exit_code=2)
    key = (path, program_state(path))
    if key not in _VERSIONS:
        _VERSIONS[key] = _version(harness, launcher, path)
    return Binary(path, _VERSIONS[key])


def _given(path: Path) -> Path:
    path = full_path(path)
    if not path.is_file():
        raise RollerError(f"--harness-bin {path}: is no file: name the harness's program", exit_code=2)
    if not os.access(path, os.X_OK):
        raise RollerError(f"--harness-bin {path}: cannot be run: chmod +x it", exit_code=2)
    return path


def _installed(harness: str, launcher: Launcher) -> Path | None:
    places = dict.fromkeys(base / ".harnesses" / harness for base in (Path.cwd(), _CHECKOUT))
    versions = [folder for place in places if place.is_dir() for folder in place.iterdir()]
    for folder in sorted(versions, key=lambda folder: _number(folder.name), reverse=True):
        for program in sorted(folder.glob(launcher.traits.installed_as)):
            if program.is_file() and os.access(program, os.X_OK):
                return program
    return None


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall("[0-9]+", version)]


def _on_path(launcher: Launcher) -> Path | None:
    found = shutil.which(launcher.traits.executable)
    return None if found is None else Path(found).absolute()


def _version_home() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="roller-version-")
    except OSError as error:
        raise RollerError(
            f"no temporary folder can be made ({error.strerror}): make room, or name another one with TMPDIR",
            exit_code=2,
        ) from None


def program_state(path: Path) -> tuple[int, ...]:
    """What changes with a program."""
    try:
        status = path.stat()
    except OSError:  # it cannot be run either, which is told then
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _version(harness: str, launcher: Launcher, path: Path) -> str:
    output = "nothing"
    with _version_home() as home:
        command = launcher.version_command(path, Path(home))
        try:
            process = subprocess.run(
                command.arguments,
                env=harness_environment(command, Path(home)),
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
            output = process.stdout.decode("utf-8", "replace").strip()
        except OSError as error:
            raise RollerError(f"{path}: cannot be run ({error.strerror}): is it {harness}?", exit_code=2) from None
        except subprocess.TimeoutExpired:
            pass
    version = launcher.version_in(output)
    if version is None:
        said = " ".join(output.split())[:100] or "nothing"
        raise RollerError(f"{path}: is no {harness}: asked for its version, it says {said!r}", exit_code=2)
    return version
