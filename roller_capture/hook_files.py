"""Where our hooks are, and how a harness that is started by hand is recorded (`roller-capture hooks NAME`).

`collect` does all of it itself. Whoever has a runner of their own, and a hand-started `mitmdump`, needs the path of the
hook, the environment and the commands. What differs between harnesses is in their launchers (`launchers.ByHand`).
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.launchers import find_launcher
from roller_capture.shipped import shipped_path


def hook_path(harness: str) -> Path | None:
    """The shipped file or folder; `None` where the harness needs no hook. Raises `RollerError` for an unknown name."""
    hook = find_launcher(harness).traits.by_hand.hook
    return shipped_path("hooks", *hook) if hook else None


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


def steps(harness: str, path: Path | None) -> list[str]:
    """What to type, and the words between; `path` is the hook's, where the harness has one."""
    by_hand = find_launcher(harness).traits.by_hand
    lines = [*by_hand.setup, *_recorder(harness), *by_hand.work, *_publisher(by_hand.logs)]
    return [line.format(path=path) for line in lines]


def _recorder(harness: str) -> Iterator[str]:
    """How calls are recorded. mitmproxy's certificates, which this mode has no use for, stay out of the user's home."""
    yield "record into a new folder ATTEMPT, as long as you like (ORIGIN: the model service, such as https://HOST):"
    yield f'  mitmdump -q -s "$(roller-capture addon-path)" --set roller_harness={harness} \\'
    yield '    --set roller_attempt=ATTEMPT --set confdir="$(mktemp -d)" --mode reverse:ORIGIN@127.0.0.1:PORT'


def _publisher(logs: str) -> Iterator[str]:
    """What comes after the work."""
    yield "then stop mitmdump (Ctrl-C), and publish what was recorded:"
    yield f"  roller-capture finalize ATTEMPT --native {logs}"
