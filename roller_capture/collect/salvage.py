"""What the watchdog does for an attempt whose `collect` was killed: what `collect` itself would have done, in the same
order, up to the point where the attempt can be finalized."""

import contextlib
import select
import signal
from pathlib import Path
from typing import Any, Final

from roller_capture.collect import native_logs
from roller_capture.collect.private_folder import remove_private_folder
from roller_capture.collect.process_family import end_members
from roller_capture.collect.turns import GRACE_SECONDS
from roller_capture.collect.waiting import Cause
from roller_capture.launchers import find_launcher
from roller_capture.terminal import say
from roller_capture.vocabulary import ExecutionStatus

_PROXY_SECONDS: Final = 30.0


def put_in_order(attempt: dict[str, Any], proxy: int | None) -> None:
    """Ends the harness, saves its logs, ends the proxy. `attempt` is a `Guarded` as JSON, `proxy` a descriptor."""
    # Before a harness was started, there is nothing to save and nothing to publish.
    place = attempt["attempt"] if attempt["leader"] is not None else None
    end_members(attempt["leader"], Path(attempt["home"]), GRACE_SECONDS)
    if place is not None:
        with contextlib.suppress(Exception):  # the proxy must be stopped whatever happens here
            _save_native_logs(attempt)
    if proxy is not None:
        _stop(proxy)
    for folder in attempt["private"]:
        remove_private_folder(Path(folder))
    with contextlib.suppress(OSError):  # the terminal may be gone with it
        say("collect ended before its harness and proxy: these have been stopped now")
        if place is not None:
            say(f"to publish what was recorded: roller-capture finalize {place}")


def _save_native_logs(attempt: dict[str, Any]) -> None:
    place = Path(attempt["attempt"])
    launcher = find_launcher(attempt["harness"])
    folder = native_logs.native_folder(place)
    if (folder / native_logs.LAUNCHER_FILE).exists():
        return  # the kill came after the run: all is there
    announced = launcher.session_ids(folder / native_logs.STDOUT)
    calls = native_logs.settled_calls(place)
    gaps = native_logs.copy_native_logs(launcher, Path(attempt["home"]), folder, calls, announced)
    facts = {
        "root_native_id": announced[0] if announced else None,
        "from": native_logs.STDOUT,
        "execution_status": ExecutionStatus.INTERRUPTED,
        "ended_by": Cause.COLLECT_FAILED,
        "harness_version": attempt["harness_version"],
        "turns": attempt["turns"],
        "errors": [native_logs.launcher_error(gap) for gap in gaps],
    }
    native_logs.write_launcher_file(folder, facts)


def _stop(proxy: int) -> None:
    """SIGTERM, by which the recorder closes, and SIGKILL if that is not enough."""
    poller = select.poll()
    poller.register(proxy, select.POLLIN)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(proxy, signal.SIGTERM)
        if not poller.poll(_PROXY_SECONDS * 1000):
            signal.pidfd_send_signal(proxy, signal.SIGKILL)
