"""The threat model and the tests know each other."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
TEXT = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([a-z_/]+\.py)(?:::(test_[a-z_0-9]+))?`", TEXT)


def defined(path: Path) -> set[str]:
    """The tests in a file."""
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_test_that_is_named_exists() -> None:
    """A line without a test is a wish."""
    named = [(file, test) for file, test in NAMED if not file.startswith("tests/")]
    assert len(named) > 50
    assert [(file, test) for file, test in named if not (TESTS / file).is_file()] == []
    assert [(file, test) for file, test in named if test and test not in defined(TESTS / file)] == []


def test_every_test_of_this_folder_is_named() -> None:
    """And every line of a table names one."""
    here = [path for path in sorted((TESTS / "security").glob("test_*.py")) if path.name != "test_docs.py"]
    named = {test for _, test in NAMED}
    assert [test for path in here for test in sorted(defined(path)) if test not in named] == []
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and line.count("|") == 4]
    assert [
        line for line in rows if "`" not in line.split("|")[3] and not line.startswith(("| it can", "| they can"))
    ] == []
