"""Tasks of the tests: they run in the processes of a pool."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.pool import Ask, RefusedError, Task


def double(number: int, _ask: Ask) -> int:
    """With something on stdout, which is no answer."""
    print("noise", flush=True)
    os.write(1, b"more noise\n")
    return 2 * number


def slow_for_small(number: int, _ask: Ask) -> int:
    """The first jobs end last."""
    time.sleep(0.3 if number < 2 else 0)
    return number


def process_id(_ask: Ask) -> int:
    return os.getpid()


def session(_ask: Ask) -> tuple[int, int]:
    return os.getsid(0), os.getpid()


def asking(words: str, ask: Ask) -> str:
    """Puts a question, and says what came of it."""
    try:
        return f"{words} {ask(words)}"
    except RefusedError:
        return f"{words} refused"


def wrong(kind: str, _ask: Ask) -> None:
    """Raises."""
    raise RollerError("no such thing", exit_code=2) if kind == "clear" else LookupError("a bug")


def die(mark: Path, times: int, _ask: Ask) -> str:
    """Kills its own process, so many times; `mark` counts them."""
    with mark.open("ab") as stream:
        stream.write(b"x")
    if mark.stat().st_size <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def leave(code: int, _ask: Ask) -> None:
    """Ends its process as a crash in C would: without a word."""
    os._exit(code)


def wait_for_ever(started: Path, _ask: Ask) -> None:
    """Until somebody ends it."""
    started.write_text(str(os.getpid()))
    time.sleep(600)


def descriptor_is_open(number: int, _ask: Ask) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


def with_environment(variables: Mapping[str, str], task: Task, ask: Ask) -> object:
    """Does it as where these are set."""
    os.environ.update(variables)
    return task(ask)
