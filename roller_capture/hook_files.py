"""Where our hooks are, and how a harness that is started by hand is told of them (`roller-capture hooks NAME`).

`collect` installs them itself. Whoever has a runner of their own, and a hand-started `mitmdump`, needs the path and the
environment.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.shipped import shipped_path


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook: its file or folder below `hooks/`, and what to do with it. `{path}` stands for where it is."""

    parts: tuple[str, ...]
    steps: tuple[str, ...]


HOOKS: Final[dict[str, Hook]] = {
    "opencode": Hook(
        ("opencode", "roller-headers.js"),
        (
            'put it into the "plugin" list of opencode.json, as "file://{path}"',
            "do not start OpenCode with --pure: that turns plugins off",
        ),
    ),
    "hermes": Hook(
        ("hermes", "roller_capture"),
        (
            "copy the folder to ~/.hermes/plugins/ (or: roller-capture hooks hermes --install ~/.hermes/plugins)",
            "add to ~/.hermes/config.yaml: plugins: {{enabled: [roller_capture]}}",
        ),
    ),
    "openclaw": Hook(
        ("openclaw",),
        (
            'put the folder into "plugins.load.paths" of openclaw.json, name the provider "roller"',
            "start the gateway with ROLLER_HOOK_LOG=STATE_DIR/roller-hook.jsonl",
        ),
    ),
    "pi": Hook(("pi", "roller-capture.js"), ("start it with: pi -e {path} …",)),
}
"""By harness. The others need none: their own headers and logs prove who made a call."""


def hook_path(harness: str) -> Path | None:
    """The shipped file or folder; `None` where the harness needs no hook. Raises `RollerError` for an unknown name."""
    if harness not in HARNESSES:
        raise RollerError(f"{harness!r} is no known harness: use one of {', '.join(HARNESSES)}", exit_code=2)
    return shipped_path("hooks", *HOOKS[harness].parts) if harness in HOOKS else None


def install_hook(harness: str, folder: Path) -> Path:
    """Copies the hook into a folder that is there, over an older copy; its new path.

    Raises `RollerError` (exit 2) when the harness needs none, or the folder cannot be written to.
    """
    source = hook_path(harness)
    if source is None:
        raise RollerError(f"{harness} needs no hook: there is nothing to install", exit_code=2)
    if not folder.is_dir():
        raise RollerError(f"{folder}: is no folder: make it, or name another one", exit_code=2)
    target = folder.absolute() / source.name
    try:
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copyfile(source, target)
    except OSError as error:
        raise RollerError(f"{target}: cannot be written ({error.strerror}): name another folder", exit_code=2) from None
    return target


def steps(harness: str, path: Path) -> list[str]:
    """What to do with the hook at `path`."""
    return [step.format(path=path) for step in HOOKS[harness].steps]
