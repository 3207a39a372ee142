"""A small process between `collect` and a process of the harness, which keeps all that this one starts.

What a program leaves behind, in whatever session and with whatever environment, becomes the child of the keeper when
its own parent ends (`PR_SET_CHILD_SUBREAPER`), and not of init; so it can be found: it is a descendant of the keeper.
That holds when `collect` is killed too. The keeper itself ends when nothing is left to keep.

Run as a script, standard library only: `keeper.py DESCRIPTOR PROGRAM ARGUMENT…`. It tells on the descriptor, as one
line, the exit code of the program (negative for a signal), or `error N` when it cannot be started (N is an errno).
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main(descriptor: int, command: list[str]) -> None:
    """Starts the program in a session of its own, tells how it ended, and stays until all of its descendants ended."""
    os.set_inheritable(descriptor, False)
    _adopt_orphans()
    leader = _start(descriptor, command)
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


def _tell(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(descriptor, f"{text}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
