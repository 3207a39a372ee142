"""A small process between `collect` and a process of the harness, which keeps all that this one starts.

What a program leaves behind, in whatever session and with whatever environment, becomes the child of the keeper when
its own parent ends (`PR_SET_CHILD_SUBREAPER`), and not of init; so it can be found: it is a descendant of the keeper.
That holds when `collect` is killed too. The keeper itself ends when nothing is left to keep; and it ends all that it
keeps when both are gone that would have done so, `collect` and its watchdog.

Run as a script, standard library only: `keeper.py DESCRIPTOR LIFELINE PROGRAM ARGUMENT…`. It tells on the descriptor,
as one line, the exit code of the program (negative for a signal), or `error N` when it cannot be started (N is an
errno). `LIFELINE` are process descriptors of those two, and last one that it keeps open as long as it lives, with
commas between them.
"""

import contextlib
import ctypes
import importlib
import os
import select
import signal
import sys
import threading

_PR_SET_CHILD_SUBREAPER = 36


def main(descriptor: int, lifeline: list[int], command: list[str]) -> None:
    """Starts the program in a session of its own, tells how it ended, and stays until all of its descendants ended."""
    for number in (descriptor, *lifeline):
        os.set_inheritable(number, False)
    _adopt_orphans()
    leader = _start(descriptor, command)
    with contextlib.suppress(RuntimeError):  # no room for a thread: `collect` and its watchdog still end the program
        threading.Thread(target=_end_when_alone, args=(lifeline[:-1],), daemon=True).start()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # whoever waits for the end of the program's output waits for the program alone
        os.dup2(null, stream)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == leader:
            _tell(descriptor, str(os.waitstatus_to_exitcode(status)))


def _adopt_orphans() -> None:
    """Where the kernel or its sandbox refuses this, orphans go to init, and only home and session tell them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start(descriptor: int, command: list[str]) -> int:
    read_end, write_end = os.pipe()  # closed by a successful exec
    leader = os.fork()
    if leader == 0:
        try:
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
        except OSError as error:
            os.write(write_end, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        refused = stream.read()
    if refused:
        _tell(descriptor, f"error {refused.decode()}")
        sys.exit(127)
    return leader


def _end_when_alone(processes: list[int]) -> None:
    """Ends all descendants once nobody is left who would, in the way in which those would have."""
    for process in processes:
        poller = select.poll()
        poller.register(process, select.POLLIN)
        poller.poll()
    # Only now: waiting should cost no more than it must.
    family = importlib.import_module("runpy").run_path(f"{__file__.removesuffix('keeper.py')}process_family.py")
    family["end_members"]((os.getpid(),), None, family["GRACE_SECONDS"])


def _tell(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(descriptor, f"{text}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")], sys.argv[3:])
