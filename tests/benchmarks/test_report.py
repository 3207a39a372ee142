from pathlib import Path

import pytest

from benchmarks.figures import Floor
from benchmarks.report import BEGIN, END, Table, markdown, plain, write_markdown


def table_with_a_missed_floor() -> Table:
    table = Table("Speed", ("what", "floor"), "A note.")
    table.add("quick", Floor(0.5, at_least=True).verdict(0.7))
    table.add("slow", Floor(0.5, at_least=True).verdict(0.3))
    return table


def test_a_table_counts_its_missed_floors() -> None:
    """Each missed floor counts, a kept one does not."""
    assert table_with_a_missed_floor().missed == 1


def test_plain_text_aligns_the_columns() -> None:
    """A terminal gets columns without Markdown's marks."""
    lines = plain([table_with_a_missed_floor()]).splitlines()
    assert lines == ["Speed", "what   floor", "quick  ≥ 0.5: met", "slow   ≥ 0.5: MISSED", "A note."]


def test_a_row_must_fit_the_header() -> None:
    """A cell too few is a mistake of the program, and said."""
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        table_with_a_missed_floor().add("one")


def test_markdown_replaces_only_the_marked_block_of_a_document(tmp_path: Path) -> None:
    """What stands around the marks stays, what an earlier run wrote between them goes."""
    document = tmp_path / "performance.md"
    document.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_markdown(document, markdown([table_with_a_missed_floor()], "A machine."))
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"# Before\n{BEGIN}\nA machine.\n")
    assert "| slow | ≥ 0.5: **MISSED** |" in text
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text


def test_markdown_without_marks_becomes_the_whole_file(tmp_path: Path) -> None:
    """A file of one's own is simply written."""
    write_markdown(tmp_path / "new.md", "text\n")
    assert (tmp_path / "new.md").read_text(encoding="utf-8") == "text\n"


def test_performance_page_has_the_marks() -> None:
    """The page that `make bench` fills has exactly one marked block."""
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page.index(BEGIN) < page.index(END)
