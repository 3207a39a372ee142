"""The schema files are the law; they must be what the code says, and as closed as promised."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from roller_capture import vocabulary
from roller_capture.schemas import SCHEMAS, main, schema_findings, schema_text, stale_schemas
from roller_capture.shipped import shipped_path

FILES = sorted(SCHEMAS)


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_a_valid_schema_and_what_the_models_say(name: str) -> None:
    """`make schemas` was run after the last change."""
    text = shipped_path("schemas", name).read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    assert text == schema_text(name)


def objects(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            found.append(schema)
        found += [one for value in schema.values() for one in objects(value)]
    elif isinstance(schema, list):
        found += [one for value in schema for one in objects(value)]
    return found


@pytest.mark.parametrize("name", FILES)
def test_our_own_objects_are_closed_and_every_field_of_the_record_is_required(name: str) -> None:
    """Left out may be: `context_raw` of a JSON body, a cut's side, `supersedes` of a first publication, and
    `calls_compression` of plain calls."""
    schema = json.loads(shipped_path("schemas", name).read_text(encoding="utf-8"))
    assert all(one["additionalProperties"] is False for one in objects(schema))
    optional = {"calls_compression", "context_raw", "migrated_from", "supersedes"}
    assert set(schema["properties"]) - set(schema["required"]) <= optional


def test_closed_lists_are_shared_with_the_schemas() -> None:
    """Every word of the lists that records use stands in a schema file, so code and schema cannot drift apart."""
    text = "".join(shipped_path("schemas", name).read_text(encoding="utf-8") for name in FILES)
    unused = {"HttpEnd"}  # the recorder's word; published as cut_by and errors
    for name, words in vars(vocabulary).items():
        if isinstance(words, type) and issubclass(words, vocabulary.StrEnum) and name not in {*unused, "StrEnum"}:
            missing = [word for word in words if word.value not in text]
            assert missing == [], name


def test_a_violation_is_told_with_its_place() -> None:
    """A short line with a JSON Pointer, a few at most."""
    found = list(schema_findings("roller.relation.v1.json", {"schema": 1}))
    assert 0 < len(found) <= 5
    assert any(line.startswith("/") for line in found)


def test_stale_schema_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lint fails until `make schemas` was run."""
    assert stale_schemas(tmp_path) == list(SCHEMAS)
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""
