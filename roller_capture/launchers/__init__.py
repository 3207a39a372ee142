"""What `collect` needs to know of a harness, and nothing that is the same for all of them.

A launcher is one module per harness, named in the harness's registry row (`roller_capture.harnesses`). It says which
options the harness takes, lays down its configuration in a private home, gives the command of each turn, and knows
which native files are evidence. Processes, signals, time limits, the proxy, the run directory and credentials are the
business of `roller_capture.collect`.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.vocabulary import Protocol as ModelProtocol

__all__ = [
    "ByHand",
    "HarnessCommand",
    "HarnessService",
    "LaunchSettings",
    "Launcher",
    "LauncherTraits",
    "find_launcher",
]


@dataclass(frozen=True, slots=True)
class ByHand:
    """How a harness is recorded that the user starts (`roller-capture hooks NAME`), a line each; what is to be typed is
    indented, words in capitals stand for what only the user knows, `{path}` for where our hook is.

    `setup` comes before the recorder is started and `work` after it; below `logs` are the native logs then. `hook` is
    the file or folder of our hook below `hooks/`; empty where the harness's own headers and logs say who made a call.
    """

    work: tuple[str, ...]
    logs: str
    setup: tuple[str, ...] = ()
    hook: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LauncherTraits:
    """What is fixed about a harness.

    `executable` is its name on PATH; `installed_as` a glob below `.harnesses/NAME/VERSION/`, where `make harness-NAME`
    puts the pinned versions; `install_hint` says in one clause how to get it. `key_variables` are the environment
    variables in which the harness takes a credential, the usual one first. `session_headers` are the request headers,
    in lower case, whose values name sessions: only sessions seen there, or announced by the harness, are copied.
    `needs_model`: it has no model of its own, so `--model` has to name one. `by_hand` is for users who do without
    `collect`.
    """

    executable: str
    installed_as: str
    install_hint: str
    tested_versions: frozenset[str]
    protocols: tuple[ModelProtocol, ...]
    profiles: tuple[str, ...]
    key_variables: tuple[str, ...]
    session_headers: tuple[str, ...]
    by_hand: ByHand
    needs_model: bool = False


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """One attempt, as the harness is to see it.

    `base_url` has no trailing `/v1`; it is `None` only in an uncaptured run without `--api-base`. `home`, `temporary`
    and `workdir` exist; the first two are this attempt's own. `drain_timeout` is in seconds. `captured` says whether
    the calls are recorded: what the protocol permits only then must be off without it.
    """

    binary: Path
    home: Path
    temporary: Path
    workdir: Path
    base_url: str | None
    key_variable: str
    key: str | None
    model: str | None
    protocol: ModelProtocol
    profile: str | None
    drain_timeout: float
    arguments: tuple[str, ...]
    captured: bool = True


@dataclass(frozen=True, slots=True)
class HarnessCommand:
    """A process to start: its arguments, what its environment has beyond the common allow-list, and what it reads from
    its standard input (`None`: nothing)."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    standard_input: str | None = None


class HarnessService(Protocol):
    """A process that works for all turns of an attempt, such as a gateway: started before the first, ended after the
    last. Methods raise nothing on what the harness wrote."""

    @property
    def command(self) -> HarnessCommand:
        """What starts it. It stays in the foreground."""

    def is_ready(self, output: Path) -> bool:
        """Whether turns can be sent to it; `output` is what it has printed. Asked several times a second."""

    def is_settled(self) -> bool:
        """Whether every subtask that it knows of has ended, and its result has been delivered and answered. Asked after
        each turn, once a second, until it is or the drain timeout is over."""


class Launcher(Protocol):
    """One harness. Methods raise `RollerError` for what the user can mend, and nothing on what the harness wrote."""

    @property
    def traits(self) -> LauncherTraits:
        """What is fixed."""

    def check_arguments(self, arguments: Sequence[str]) -> None:
        """Refuses (exit 2) extra arguments that `collect` sets itself or that would break the capture."""

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        """A command that prints the version."""

    def version_in(self, output: str) -> str | None:
        """The version in that output, or `None` when it is none of this harness."""

    def prepare(self, settings: LaunchSettings) -> None:
        """Lays down the harness's configuration, and our hook where it needs one, before the first turn. Raises
        `RollerError` when the hook does not fit this version of the harness."""

    def service(self, settings: LaunchSettings) -> HarnessService | None:
        """The process that has to run beside the turns; `None` where each turn is a process of its own."""

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        """The process of one turn; `session_id` is the confirmed root session of the turns before, or `None`."""

    def session_ids(self, stdout: Path) -> list[str]:
        """The root session ids that the harness itself announced on its output, in order, each once."""

    def has_answered(self, stdout: Path) -> bool:
        """Whether the output holds anything that a model must have said."""

    def answered_itself(self, stdout: Path) -> bool:
        """Whether the output says, in the harness's own words, that it answered a prompt without asking a model, as it
        does with a command of its own."""

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        """Whether the root has given its answer since byte `start` of the output, also when the process still waits for
        its subtasks."""

    def turn_failed(self, stdout: Path, start: int) -> bool:
        """Whether the output since byte `start` says, in the harness's own words, that the root's turn failed: for
        harnesses that then end with exit code 0, too. What reached the proxy is never asked."""

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        """Copies the native logs of these sessions and their descendants, by allow-list, so that the adapter finds them
        below `target`. A second call replaces what the first one copied. What could not be copied is told."""


def find_launcher(harness: str) -> Launcher:
    """The launcher of a harness. Raises `RollerError` (exit 2) for an unknown name, and where there is none yet."""
    if harness not in HARNESSES:
        raise RollerError(f"{harness!r} is no known harness: use one of {', '.join(HARNESSES)}", exit_code=2)
    place = HARNESSES[harness].launcher
    if place is None:
        able = ", ".join(name for name, row in HARNESSES.items() if row.launcher is not None)
        raise RollerError(
            f"collect cannot start {harness} yet (only {able}): "
            "run it yourself behind mitmdump -s addons/capture.py, then roller-capture finalize",
            exit_code=2,
        )
    module, _, name = place.partition(":")
    launcher: Launcher = getattr(importlib.import_module(module), name)
    return launcher
