"""What a check says is wrong."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from roller_capture import json_text


class Finding(NamedTuple):
    """One thing that is wrong: the file, where in it, and what."""

    file: str
    message: str


def guarded(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Runs a check over a file of lines; a damaged line ends it with a finding."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (json_text.JsonError, OSError) as error:
        found.append(Finding(name, str(error)))
    return found
