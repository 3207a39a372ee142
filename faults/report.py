"""The tables: what was injected, and what survived."""

from pathlib import Path
from typing import Final

from benchmarks.report import Table, markdown
from faults.ground import Ledger, Row

_HEADER: Final = ("what", "at", "faults", "finished", "intact", "cut", "broken", "named")
_NOTE: Final = (
    "finished, intact: calls whose end the client saw, and those of them that are there to the last byte; cut: calls "
    "that did not come so far; broken: invariants; named: what the manifest gives as reason, or the command as refusal."
)
_ALWAYS_NAMED: Final = ("coverage_unknown", "lifecycle_unknown", "errors")
"""Of an agent without a log of its own, and of every other reason."""

_MOST_NAMES: Final = 4
BEGIN: Final = "<!-- results: begin (written by make faults) -->"
END: Final = "<!-- results: end -->"


def tables(ledger: Ledger, title: str) -> list[Table]:
    """A row for each kind and place, and how the kills are spread."""
    made = Table(title, _HEADER, _NOTE)
    for (kind, place), row in sorted(ledger.rows.items()):
        made.add(
            kind, place, *map(str, (row.injected, row.finished, row.intact, row.cut, len(row.problems))), _names(row)
        )
    return [made, _spread(ledger)]


def _names(row: Row) -> str:
    names = [(name, count) for name, count in row.named.most_common() if name not in _ALWAYS_NAMED]
    return ", ".join(f"{name} {count}" for name, count in names[:_MOST_NAMES])


def _spread(ledger: Ledger) -> Table:
    made = Table("SIGKILL by victim and place", ("victim", "place", "kills"))
    total = 0
    for (kind, place), row in sorted(ledger.rows.items()):
        victim = kind.removesuffix(" gets SIGKILL")
        if victim != kind:
            made.add(victim, place, str(row.injected))
            total += row.injected
    made.add("all", "", str(total))
    return made


def problems(ledger: Ledger) -> list[str]:
    """A line for each broken invariant."""
    return [f"{kind}, {place}: {text}" for (kind, place), row in sorted(ledger.rows.items()) for text in row.problems]


def write_markdown(path: Path, text: list[Table], about: str) -> None:
    """Puts the tables between the marks of a document."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no place for the results")
    path.write_text(f"{before}{BEGIN}\n{markdown(text, about)}{END}{after}", encoding="utf-8")
