"""Strikes at one chosen file system call of this process: kills it there, signals it, or makes the call fail.

The functions of `os` are wrapped, in a process that exists for one fault only, so the product holds no failpoints of
its own. What is written through a buffered stream is seen at `HashingWriter.write`, and the exchange of two names (a
system call that `os` does not have) at `publication.exchange`.
"""

import errno
import fnmatch
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from roller_capture import publication

_BY_DESCRIPTOR: Final = ("write", "pwrite", "ftruncate", "posix_fallocate", "fsync", "fdatasync", "fchmod")
_BY_NAME: Final = ("open", "rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir", "chmod")
_CHANGES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENT: Final = b'{"type":"'


class Moment(StrEnum):
    """Where in the call."""

    BEFORE = "before"
    TORN = "torn"
    """A write that has taken half of its bytes; other calls: before."""
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Strike:
    """What is done at the `nth` call (from 1) whose name matches the pattern `site`.

    `number` is a signal, or with `fails` the `errno` with which this call and all later matching ones fail. A name is
    the function and what it touches: `write response` (an event of this type), `write bodies/000001.response`,
    `rename manifest.json`, `fsync calls.jsonl`, …
    """

    site: str
    nth: int = 1
    moment: Moment = Moment.BEFORE
    number: int = signal.SIGKILL
    fails: bool = False


class Failpoints:
    """The wrapped calls in and beside one attempt. `steps` are the names of those that were made, in their order."""

    def __init__(self, attempt: Path, strike: Strike | None) -> None:
        self.steps: list[str] = []
        self._root = str(attempt.parent)
        self._attempt = attempt.name
        self._strike = strike
        self._matched = 0

    def install(self) -> None:
        """Wraps them, for the rest of this process's life."""
        for name in _BY_DESCRIPTOR:
            setattr(os, name, self._wrapped(name, getattr(os, name), self._of_descriptor))
        for name in _BY_NAME:
            setattr(os, name, self._wrapped(name, getattr(os, name), self._of_name))
        writer: Any = publication.HashingWriter
        writer.write = self._wrapped("write", writer.write, lambda *_: "staged bytes")
        publication.exchange = self._wrapped("exchange", publication.exchange, lambda *_: "attempts")

    def _wrapped(
        self, name: str, original: Callable[..., Any], touched: Callable[..., str | None]
    ) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            what = touched(*args, **kwargs)
            if what is None or (name == "open" and not _changes(args)):
                return original(*args, **kwargs)
            site = f"{name} {what}"
            self.steps.append(site)
            strike = self._hit(site)
            if strike is None:
                return original(*args, **kwargs)
            if strike.fails:
                raise OSError(strike.number, os.strerror(strike.number))
            if strike.moment is Moment.TORN and name == "write" and isinstance(args[1], bytes | memoryview):
                original(args[0], args[1][: len(args[1]) // 2])
            if strike.moment is not Moment.AFTER:
                _strike_self(strike.number)
            result = original(*args, **kwargs)
            _strike_self(strike.number)
            return result

        return call

    def _hit(self, site: str) -> Strike | None:
        strike = self._strike
        if strike is None or not fnmatch.fnmatchcase(site, strike.site):
            return None
        self._matched += 1
        due = self._matched >= strike.nth if strike.fails else self._matched == strike.nth
        return strike if due else None

    def _of_descriptor(self, descriptor: Any, *args: Any, **_: Any) -> str | None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - pathlib would call the wrapped functions
        if not path.startswith(self._root):
            return None
        data = bytes(args[0][:60]).lstrip(b"\n") if args and isinstance(args[0], bytes | memoryview) else b""
        if data.startswith(_EVENT):
            return data.removeprefix(_EVENT).partition(b'"')[0].decode("ascii", "replace")
        return self._short(path)

    def _of_name(self, path: Any, *args: Any, **kwargs: Any) -> str | None:
        if isinstance(path, int):
            return self._of_descriptor(path)
        text = os.fsdecode(path)
        is_relative = any(name in kwargs for name in ("dir_fd", "src_dir_fd"))
        if not text.startswith(self._root) and not is_relative:
            return None
        target = args[0] if args and isinstance(args[0], str | os.PathLike) else path
        return self._short(os.fsdecode(target))

    def _short(self, path: str) -> str:
        """The part of a path that says what it is; random parts of names are left out."""
        inside = path.removeprefix(self._root).lstrip("/") or "."
        parts = [part for part in Path(inside).parts if not part.startswith(".") and part != self._attempt]
        return "/".join(parts) or "."


def _changes(args: tuple[Any, ...]) -> bool:
    return len(args) > 1 and isinstance(args[1], int) and bool(args[1] & _CHANGES)


def _strike_self(number: int) -> None:
    os.kill(os.getpid(), number)


DISK_FAULTS: Final = {errno.ENOSPC: "no space", errno.EROFS: "read-only", errno.EIO: "I/O error", errno.EDQUOT: "quota"}
