"""A line is a few pieces of text with a style each; lines nest. The forms share this, and it holds no layout."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

GOOD: Final = "green"
BAD: Final = "red"
WARN: Final = "yellow"
FAINT: Final = "dim"
STRONG: Final = "bold"
PLAIN: Final = ""


class Piece(NamedTuple):
    """Text, taken from data as it is, and a rich style. Style only repeats what the words say."""

    text: str
    style: str = PLAIN


@dataclass(slots=True)
class Node:
    """One line and the lines below it."""

    pieces: tuple[Piece, ...]
    children: list["Node"] = field(default_factory=list)

    def add(self, *pieces: Piece | str) -> "Node":
        """A new line below this one."""
        child = node(*pieces)
        self.children.append(child)
        return child


def node(*pieces: Piece | str) -> Node:
    """A line of pieces; plain strings have no style."""
    return Node(tuple(Piece(item) if isinstance(item, str) else item for item in pieces))


def joined(parts: Iterable[str], separator: str = ", ") -> str:
    """The parts that are not empty."""
    return separator.join(part for part in parts if part)


def status_style(word: str) -> str:
    """Green, yellow or red for one of the protocol's status words."""
    if word in ("completed", "complete", "exportable", "resolved"):
        return GOOD
    if word in ("failed", "missing", "unattributed"):
        return BAD
    return WARN
