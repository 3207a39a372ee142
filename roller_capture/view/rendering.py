"""Two dresses for the same lines: a rich tree on a terminal, indented text elsewhere.

Every text goes through `terminal.safe` here and is never read as markup, so data drives neither a terminal nor rich.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from roller_capture.terminal import safe
from roller_capture.view.lines import STRONG, Node, Piece

_INDENT: Final = "  "
_BRANCH: Final = 4
_LEAST_TEXT: Final = 40


def plain_lines(nodes: Sequence[Node]) -> Iterator[str]:
    """Indented lines, an empty one between the top ones; no width, so that one line stays one line for grep."""
    stack = [(item, 0) for item in reversed(nodes)]
    while stack:
        current, depth = stack.pop()
        if depth == 0 and current is not nodes[0]:
            yield ""
        yield _INDENT * depth + safe("".join(piece.text for piece in current.pieces))
        stack += [(child, depth + 1) for child in reversed(current.children)]


def rich_trees(nodes: Sequence[Node]) -> Iterator[Tree | Text]:
    """One tree for each top line."""
    for top in nodes:
        if top is not nodes[0]:
            yield Text()
        root = Tree(styled(top.pieces), guide_style="dim")
        stack = [(child, root) for child in reversed(top.children)]
        while stack:
            current, parent = stack.pop()
            branch = parent.add(styled(current.pieces))
            stack += [(child, branch) for child in reversed(current.children)]
        yield root


def least_width(nodes: Sequence[Node]) -> int:
    """Columns that the deepest line needs so that its words are not squeezed out by the branches before it."""
    deepest, level = 0, list(nodes)
    while level:
        deepest += 1
        level = [child for item in level for child in item.children]
    return _BRANCH * deepest + _LEAST_TEXT


def styled(pieces: Iterable[Piece]) -> Text:
    """A line as rich text; the words are never markup."""
    return Text.assemble(*((safe(piece.text), piece.style) for piece in pieces))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[Piece]]) -> Iterator[Text]:
    """Columns that stand under each other, two spaces apart, one line a row: a terminal folds what is too long."""
    table = [[Piece(word, STRONG) for word in header], *rows]
    widths = [max(cell_len(safe(row[column].text)) for row in table) for column in range(len(header))]
    for row in table:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            text = safe(cell.text)
            line.append(text, cell.style)
            line.append(" " * (width - cell_len(text) + 2))
        line.rstrip()
        yield line


def terminal_console(stream: TextIO, *, width: int | None, color: bool) -> Console:
    """A console that highlights nothing by itself; without `color`, or with NO_COLOR in the environment, it only writes
    text: who wants no colours wants no bold type either."""
    plain = not color or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=stream,
        width=width,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )
