"""What is asked of an export."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.pool import THIS_PROCESS, Workers
from roller_capture.vocabulary import Blocker, Purpose


class Form(StrEnum):
    """How a row tells what was said."""

    NATIVE = "native"
    CHAT = "chat"


class MainForm(StrEnum):
    """How a main trajectory is told."""

    ACTF = "actf"
    SFT = "sft"


class Format(StrEnum):
    """File formats of rows."""

    JSONL = "jsonl"
    PARQUET = "parquet"


_SUFFIXES: Final = {
    ".parquet": Format.PARQUET,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
}


def format_of(output: Path, asked: Format | None) -> Format:
    """The format that is asked for, else that of the file's name, else JSON lines.

    Raises `RollerError` (exit 2) where the two contradict each other: a reader goes by the name.
    """
    named = _SUFFIXES.get(output.suffix.lower())
    if asked is not None and named is not None and asked is not named:
        raise RollerError(f"--format {asked}: {output.name} is the name of a {named} file: change one", exit_code=2)
    return asked or named or Format.JSONL


@dataclass(frozen=True, slots=True)
class CallExport:
    """What is asked for."""

    paths: Sequence[Path]
    output: Path
    file_format: Format = Format.JSONL
    form: Form = Form.NATIVE
    purposes: Collection[Purpose] = (Purpose.AGENT,)
    allow: Collection[Blocker] = ()
    nested: bool = False
    overwrite: bool = False
    as_json: bool = False
    workers: Workers = THIS_PROCESS
    all_attempts: bool = False
    """Also those of a run that were made again."""


@dataclass(frozen=True, slots=True)
class MainExport:
    """What is asked for of main trajectories."""

    paths: Sequence[Path]
    output: Path
    form: MainForm = MainForm.ACTF
    overwrite: bool = False
    as_json: bool = False
    workers: Workers = THIS_PROCESS
    file_format: Format = Format.JSONL
    all_attempts: bool = False
