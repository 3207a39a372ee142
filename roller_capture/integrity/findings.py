"""What a check says is wrong."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that is wrong: the file, where in it, and what."""

    file: str
    message: str
