"""What the watchdog does for an attempt whose `collect` was killed: what `collect` itself would have done, in the same
order, up to the point where the attempt can be finalized."""

import contextlib
import os
import select
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.collect import native_logs
from roller_capture.collect.native_logs import NativeStore, NotSavedError
from roller_capture.collect.private_folder import remove_private_folder
from roller_capture.collect.process_family import GRACE_SECONDS, end_members
from roller_capture.collect.waiting import Cause
from roller_capture.launchers import find_launcher
from roller_capture.runs.outside_books import note_killed
from roller_capture.terminal import say
from roller_capture.vocabulary import ExecutionStatus

_PROXY_SECONDS: Final = 30.0
_FOLDER: Final = b"confdir="


def put_in_order(attempt: dict[str, Any], descriptors: Mapping[int, int]) -> None:
    """Ends the harness, saves its logs, ends the proxy, and brings the books up to date.

    `attempt` is a `Guarded` as JSON; `descriptors` are those of its processes, by process id.
    """
    place, private = Path(attempt["attempt"]), Path(attempt["private"])
    keepers = [pid for pid in attempt["keepers"] if pid in descriptors and _is_alive(descriptors[pid])]
    end_members(keepers, Path(attempt["home"]), GRACE_SECONDS)
    told, status, keeps_private = None, ExecutionStatus.INTERRUPTED, False
    try:
        status = _save_native_logs(attempt)
    except NotSavedError as error:
        told = error.told(place, private, Path(attempt["home"]), status, captured=attempt["captured"])
        keeps_private = not error.is_gone
    except Exception as error:  # noqa: BLE001 - the proxy must be stopped whatever happens here
        told = NotSavedError(type(error).__name__).told(place, private, Path(attempt["home"]), status)
        keeps_private = True
    _end_proxy(attempt, descriptors)
    if not keeps_private:
        remove_private_folder(private)
    note_killed(place, status, private if keeps_private else None)
    _tell(attempt, told)


def _tell(attempt: dict[str, Any], told: str | None) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone with it
        say("collect ended before its harness and proxy: these have been stopped now")
        if told is not None:
            say(f"error: {told}")
        elif attempt["captured"] and attempt["keepers"]:
            say(f"to publish what was recorded: roller-capture finalize {shlex.quote(attempt['attempt'])}")
        elif attempt["captured"]:
            say("the harness had not been started: run it by the same command and --resume")
        else:
            say(f"what it said until then is in {attempt['attempt']}")


def _save_native_logs(attempt: dict[str, Any]) -> ExecutionStatus:
    """Raises `NotSavedError`. Before a harness was started there is nothing to save."""
    place = Path(attempt["attempt"])
    if not attempt["keepers"]:
        return ExecutionStatus.INTERRUPTED
    launcher = find_launcher(attempt["harness"])
    try:
        folder = native_logs.native_folder(place) if attempt["captured"] else place
    except FileNotFoundError:
        raise NotSavedError("it is gone", is_gone=True) from None
    except OSError as error:
        raise NotSavedError(error.strerror or type(error).__name__) from None
    if (folder / native_logs.LAUNCHER_FILE).is_file():
        return _status_in(folder / native_logs.LAUNCHER_FILE)  # the kill came after the run: all is there
    announced = launcher.session_ids(folder / native_logs.STDOUT)
    calls = native_logs.settled_calls(place) if attempt["captured"] else ()
    facts = {
        "root_native_id": announced[0] if announced else None,
        "from": native_logs.STDOUT,
        "execution_status": ExecutionStatus.INTERRUPTED,
        "ended_by": Cause.COLLECT_FAILED,
        "harness_version": attempt["harness_version"],
        "turns": attempt["turns"],
    }
    store = NativeStore(launcher, Path(attempt["home"]), folder, tuple(attempt["real_keys"]))
    store.save(calls, announced, facts, [])
    return ExecutionStatus.INTERRUPTED


def _status_in(launcher_file: Path) -> ExecutionStatus:
    try:
        return ExecutionStatus(json_text.parse(launcher_file.read_bytes())["execution_status"])
    except (OSError, ValueError, KeyError, TypeError, json_text.JsonError):
        return ExecutionStatus.INTERRUPTED


def _end_proxy(attempt: dict[str, Any], descriptors: Mapping[int, int]) -> None:
    proxy, folder = descriptors.get(attempt["proxy"]), attempt["proxy_folder"]
    if attempt["proxy"] is None:  # the kill may have come between its start and the word about it
        proxy, folder = _find_proxy(attempt["attempt"])
    if proxy is not None:
        _stop(proxy)
    if folder is not None:
        remove_private_folder(Path(folder))


def _find_proxy(attempt: str) -> tuple[int | None, str | None]:
    """A descriptor of the proxy that records this attempt, told by its arguments, and its folder."""
    mark = b"roller_attempt=" + os.fsencode(attempt)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if mark in arguments:
                folders = [word.removeprefix(_FOLDER) for word in arguments if word.startswith(_FOLDER)]
                return os.pidfd_open(int(entry.name)), os.fsdecode(folders[0]) if folders else None
    return None, None


def _is_alive(descriptor: int) -> bool:
    return not select.select([descriptor], [], [], 0)[0]


def _stop(proxy: int) -> None:
    """SIGTERM, by which the recorder closes, and SIGKILL if that is not enough."""
    poller = select.poll()
    poller.register(proxy, select.POLLIN)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(proxy, signal.SIGTERM)
        if not poller.poll(_PROXY_SECONDS * 1000):
            signal.pidfd_send_signal(proxy, signal.SIGKILL)
