"""Whether a program can be started, as far as its first line tells: a script names its interpreter there."""

import os
import shutil
from pathlib import Path
from typing import Final

_LONGEST: Final = 256
"""Bytes of a first line that Linux reads."""

_MARK: Final = b"#!"
_ENV: Final = "env"
_EXAMPLE: Final = "#!/usr/bin/env python3"
_PLAIN_OPTIONS: Final = ("-S", "-i", "-")
"""Options of `env` that take no word of their own."""


def start_problem(program: Path) -> str | None:
    """What keeps this file from being started, and what to do; `None` where nothing is seen, also for other formats
    than scripts, which are the system's business."""
    try:
        with program.open("rb") as stream:
            start = stream.read(_LONGEST)
    except OSError:  # a program may be run and not read
        return None
    if start.startswith(_MARK):
        return _interpreter_problem(os.fsdecode(start[len(_MARK) :].partition(b"\n")[0]))
    if _is_text(start):
        return f"it is a text without a first line that names its interpreter: write one, such as {_EXAMPLE}"
    return None


def _is_text(start: bytes) -> bool:
    """Programs in a machine's format begin with bytes that no text has."""
    return not any(byte < 0x20 and byte not in b"\t\n\r\f\v" for byte in start)


def _interpreter_problem(line: str) -> str | None:
    words = line.strip(" \t").split()
    if line.endswith("\r"):
        return "a carriage return ends its first line, and counts as part of the name: save it with Unix line ends"
    if not words:
        return f"its first line names no interpreter: write one, such as {_EXAMPLE}"
    interpreter = Path(words[0])
    if not interpreter.is_file() or not os.access(interpreter, os.X_OK):
        return f"the interpreter in its first line, {words[0]!r}, is not there or cannot be run"
    wanted = _through_env(words[1:]) if interpreter.name == _ENV else None
    if wanted is not None and shutil.which(wanted) is None:
        return f"the interpreter in its first line, {wanted!r}, is not on PATH"
    return None


def _through_env(words: list[str]) -> str | None:
    """The program that `env` is to start; `None` where an option that is not known here stands before it."""
    for word in words:
        if word.startswith("-") and word not in _PLAIN_OPTIONS:
            return None
        if not word.startswith("-") and "=" not in word:
            return word
    return None
