"""The documents say what the code does."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from roller_capture import vocabulary
from roller_capture.cli import app
from roller_capture.harnesses import HARNESSES
from roller_capture.records import CallRecord, Manifest, RelationRecord

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
WORKING_FILES = (ROOT / "docs" / "working-files.md").read_text(encoding="utf-8")

LISTS = [
    words
    for name, words in vars(vocabulary).items()
    if isinstance(words, type) and issubclass(words, vocabulary.StrEnum) and name not in ("StrEnum", "HttpEnd")
]


@pytest.mark.parametrize("words", LISTS, ids=lambda words: words.__name__)
def test_every_word_of_the_closed_lists_is_explained(words: type[vocabulary.StrEnum]) -> None:
    """A new word without a line in docs/protocol.md is a word that no reader can know."""
    assert [word.value for word in words if f"`{word.value}`" not in PROTOCOL] == []


@pytest.mark.parametrize("record", [CallRecord, RelationRecord, Manifest])
def test_every_field_is_named(record: type) -> None:
    """In docs/protocol.md, so that a reader of the files finds it."""
    fields = {field.alias or name for name, field in record.model_fields.items()}  # type: ignore[attr-defined]
    assert fields <= set(re.findall(r"`([a-z_0-9]+)`", PROTOCOL))


def test_readme_lists_every_command_and_every_harness() -> None:
    """And no command that does not exist."""
    commands = {name for name, command in get_command(app).commands.items() if not command.hidden}  # type: ignore[attr-defined]
    assert set(re.findall(r"^\| `roller-capture ([a-z-]+)", README, re.MULTILINE)) == commands
    assert [name for name in HARNESSES if f"`{name}`" not in README] == []


def test_make_targets_that_the_readme_names_exist() -> None:
    """`make help` shows each."""
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= {f"harness-{path.parent.name}" for path in ROOT.glob("harnesses/*/harness.sh")}
    assert set(re.findall(r"`?make ([a-z0-9-]+)", README)) - {"help"} <= targets


@pytest.mark.parametrize("path", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"], ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    """Relative links only name files that are there."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []
