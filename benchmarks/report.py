"""Tables of results: plain for a terminal, Markdown for docs/performance.md."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- results: begin (written by make bench) -->"
END: Final = "<!-- results: end -->"
_MISSED: Final = "**MISSED**"


@dataclass(slots=True)
class Table:
    """Rows of text cells under a title; a missed floor is said in its row."""

    title: str
    header: tuple[str, ...]
    note: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """One more row."""
        if len(cells) != len(self.header):
            raise ValueError(f"{len(cells)} cells under {len(self.header)} headings")
        self.rows.append(cells)

    @property
    def missed(self) -> int:
        """How many floors were missed."""
        return sum(cell.count(_MISSED) for row in self.rows for cell in row)


def plain(tables: Iterable[Table]) -> str:
    """For a terminal: aligned columns."""
    return "\n".join(_plain_table(table) for table in tables)


def _plain_table(table: Table) -> str:
    rows = [tuple(cell.replace("**", "") for cell in row) for row in (table.header, *table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.title, *lines, *([table.note] if table.note else []), ""])


def markdown(tables: Iterable[Table], machine: str) -> str:
    """For a document: a heading of level 3 for each table."""
    parts = [machine, ""]
    for table in tables:
        parts += [f"### {table.title}", "", _markdown_row(table.header), _markdown_row("---" for _ in table.header)]
        parts += [*map(_markdown_row, table.rows), ""]
        parts += [table.note, ""] if table.note else []
    return "\n".join(parts)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def write_markdown(path: Path, text: str) -> None:
    """Writes the results: between the marks of a document that has them, else as the whole file."""
    try:
        document = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        document = ""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    whole = f"{before}{BEGIN}\n{text}{END}{after}" if begin and end else text
    path.write_text(whole, encoding="utf-8")
