"""What is asked of an export."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class MainExport:
    """What is asked for of main trajectories."""

    paths: Sequence[Path]
    output: Path
    form: MainForm = MainForm.ACTF
    overwrite: bool = False
    as_json: bool = False
