"""What is asked of an export."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roller_capture.errors import RollerError
from roller_capture.pool import THIS_PROCESS, Workers
from roller_capture.vocabulary import Blocker, Purpose

if TYPE_CHECKING:  # the command line is read without it
    from roller_capture.remote.elsewhere import Input


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


ENDINGS: Final[dict[Format, tuple[str, ...]]] = {
    Format.JSONL: (".jsonl", ".ndjson"),
    Format.PARQUET: (".parquet",),
}
_FORMATS: Final = {ending: file_format for file_format, endings in ENDINGS.items() for ending in endings}
_PROMISES: Final = frozenset(
    (
        *(".gz", ".tgz", ".zst", ".bz2", ".xz", ".lz4", ".br", ".7z", ".zip", ".tar"),
        *(".csv", ".tsv", ".xlsx", ".parquet", ".arrow", ".feather", ".orc", ".avro", ".db", ".sqlite", ".duckdb"),
        *(".json", ".jsonl", ".ndjson", ".har", ".html", ".xml", ".yaml", ".yml", ".toml", ".pb", ".pkl", ".npy"),
    )
)
"""Endings of names that promise a form of their own."""


def check_name(output: Path, writes: str, endings: Collection[str]) -> None:
    """Raises `RollerError` (exit 2) for a name that promises another form than that of `endings`: readers go by it.

    `writes` says what the command writes; a name without such an ending promises nothing.
    """
    ending = output.suffix.lower()
    if ending in _PROMISES and ending not in endings:
        raise RollerError(f"--output {output.name}: {writes}, and no {ending}: change the name", exit_code=2)


def format_of(output: Path, asked: Format | None) -> Format:
    """The format that is asked for, else that of the file's name, else JSON lines.

    Raises `RollerError` (exit 2) where the two contradict each other: a reader goes by the name.
    """
    named = _FORMATS.get(output.suffix.lower())
    if asked is not None and named is not None and asked is not named:
        raise RollerError(f"--format {asked}: {output.name} is the name of a {named} file: change one", exit_code=2)
    return asked or named or Format.JSONL


@dataclass(frozen=True, slots=True)
class Export:
    """What is asked of every export."""

    paths: "Sequence[Input]"
    overwrite: bool = field(default=False, kw_only=True)
    as_json: bool = field(default=False, kw_only=True)
    """The summary also for programs."""
    all_attempts: bool = field(default=False, kw_only=True)
    """Also those of a run that were made again."""


@dataclass(frozen=True, slots=True)
class CallExport(Export):
    """What is asked for of calls."""

    output: Path
    file_format: Format = Format.JSONL
    form: Form = Form.NATIVE
    purposes: Collection[Purpose] = (Purpose.AGENT,)
    allow: Collection[Blocker] = ()
    nested: bool = False
    workers: Workers = THIS_PROCESS


@dataclass(frozen=True, slots=True)
class MainExport(Export):
    """What is asked for of main trajectories."""

    output: Path
    form: MainForm = MainForm.ACTF
    workers: Workers = THIS_PROCESS
    file_format: Format = Format.JSONL
