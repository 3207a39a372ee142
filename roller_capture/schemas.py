"""The JSON Schemas: written from the models (`make schemas`), read from the shipped files for every check."""

import functools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from roller_capture.export.main.actf import TRAJECTORIES
from roller_capture.json_text import pointer
from roller_capture.records import RECORDS, Record
from roller_capture.shipped import shipped_path
from roller_capture.terminal import say

SCHEMAS: Final[Mapping[str, type[Record]]] = {**RECORDS, **TRAJECTORIES}
"""The schema files and the models they come from."""


def schema_text(file_name: str) -> str:
    """The schema file's text, as the models say it should be."""
    model = SCHEMAS[file_name]
    schema = model.model_json_schema(by_alias=True, mode="validation", schema_generator=GenerateJsonSchema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:roller-capture:{file_name.removesuffix('.json')}",
    }
    return json.dumps({**head, **schema}, indent=1, ensure_ascii=False) + "\n"


def write_schemas(directory: Path) -> None:
    """Writes every schema file into `directory`."""
    for file_name in SCHEMAS:
        (directory / file_name).write_text(schema_text(file_name), encoding="utf-8")


@functools.cache
def _validator(file_name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(shipped_path("schemas", file_name).read_text(encoding="utf-8")))


@functools.cache
def _quick_check(file_name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        json.loads(shipped_path("schemas", file_name).read_text(encoding="utf-8"))
    )


def _is_certainly_valid(file_name: str, value: Any) -> bool:
    """The same check in compiled code, a hundred times faster: thousands of valid lines are the normal case."""
    try:
        return bool(_quick_check(file_name).is_valid(value))
    except (
        ValueError,
        TypeError,
        UnicodeError,
        OverflowError,
    ):  # values beyond its types: lone surrogates, huge numbers
        return False


def schema_findings(file_name: str, value: Any) -> Iterator[str]:
    """One short line per violation, with a JSON Pointer to the place; at most a few."""
    if _is_certainly_valid(file_name, value):
        return
    for index, error in enumerate(_validator(file_name).iter_errors(value)):
        if index == 5:
            return
        yield f"{pointer(*error.absolute_path) or '/'}: {_message(error)}"


def _message(error: ValidationError) -> str:
    return error.message if len(error.message) <= 200 else error.message[:197] + "…"


def stale_schemas(directory: Path) -> list[str]:
    """Names of the schema files that are not what the models say."""
    return [
        name
        for name in SCHEMAS
        if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != schema_text(name)
    ]


def main(arguments: list[str]) -> int:
    """`python -m roller_capture.schemas [--check]`: writes the files, or tells which of them are stale."""
    directory = Path(__file__).resolve().parent.parent / "schemas"
    if arguments != ["--check"]:
        write_schemas(directory)
        return 0
    stale = stale_schemas(directory)
    if stale:
        say(f"stale schema files: {', '.join(stale)}: run make schemas")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
