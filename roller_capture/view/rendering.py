"""Two dresses for the same lines: a rich tree on a terminal, indented text elsewhere.

Every text goes through `terminal.safe` here and is never read as markup, so data drives neither a terminal nor rich.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from roller_capture.terminal import safe
from roller_capture.view.lines import STRONG, Node, Piece

_INDENT: Final = "  "
_BRANCH: Final = 4
_LEAST_TEXT: Final = 40
_BETWEEN: Final = 2


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


def fitting_table(header: Sequence[str], rows: Sequence[Sequence[Piece]], width: int) -> RenderableType:
    """The same for a terminal of `width` columns: the last column is folded. Where that is too wide, the first cell of
    a row stands on a line of its own, and the others below it, each with its heading but for the last."""
    table = [[Piece(word, STRONG) for word in header], *rows]
    widths = [max(cell_len(safe(row[column].text)) for row in table) for column in range(len(header))]
    room = width - sum(widths[:-1]) - _BETWEEN * (len(header) - 1)
    if room < min(widths[-1], _LEAST_TEXT):
        return Group(*(line for row in rows for line in _block(header, row)))
    grid = Table.grid(padding=(0, _BETWEEN, 0, 0), pad_edge=False)
    for column_width in widths[:-1]:
        grid.add_column(no_wrap=True, min_width=column_width)
    grid.add_column(overflow="fold", max_width=room)
    for row in table:
        grid.add_row(*(styled([piece]) for piece in row))
    return grid


def _block(header: Sequence[str], row: Sequence[Piece]) -> Iterator[RenderableType]:
    """A row on several lines, folded where it has to be."""
    first, *middle, last = row
    cells = [styled([Piece(f"{name} "), piece]) for name, piece in zip(header[1:], middle, strict=False) if piece.text]
    yield _folding(styled([first]))
    for line in (Text("; ").join(cells), styled([last])):
        if line:
            yield Padding(_folding(line), (0, 0, 0, len(_INDENT)), expand=False)


def _folding(line: Text) -> Text:
    line.overflow = "fold"
    return line


def table_lines(header: Sequence[str], rows: Sequence[Sequence[Piece]]) -> Iterator[Text]:
    """Columns that stand under each other, two spaces apart, one line a row, however wide."""
    table = [[Piece(word, STRONG) for word in header], *rows]
    widths = [max(cell_len(safe(row[column].text)) for row in table) for column in range(len(header))]
    for row in table:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            text = safe(cell.text)
            line.append(text, cell.style)
            line.append(" " * (width - cell_len(text) + _BETWEEN))
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
