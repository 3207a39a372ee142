"""JSON Lines as harnesses leave them: huge, torn, damaged in the middle, still read line by line in constant memory.

Lines are counted from 1 and separated by LF alone, as evidence locators count them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from roller_capture import json_text

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line that is parsed. A longer one is a named gap; what follows it is read."""


class LineProblem(Enum):
    """Why a line could not be read; the value is the reason in words."""

    NOT_JSON = "is no JSON"
    NOT_AN_OBJECT = "is no JSON object"
    TOO_LONG = f"is longer than {MAX_LINE_BYTES // (1024 * 1024)} MiB"
    TOO_DEEP = "nests too deep"
    TORN = "is torn off at the end of the file"


@dataclass(frozen=True, slots=True)
class NativeLine:
    """One line that is not blank: its object, or why there is none (then `record` is empty)."""

    number: int
    record: dict[str, json_text.JsonValue]
    problem: LineProblem | None = None


def read_lines(stream: BinaryIO, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[NativeLine]:
    """The lines of a JSON Lines file that hold anything.

    Raises `OSError` when the file cannot be read on.
    """
    number = 0
    while raw := stream.readline(max_line_bytes + 1):
        number += 1
        if len(raw) > max_line_bytes:
            _skip_rest_of_line(stream, raw, max_line_bytes)
            yield NativeLine(number, {}, LineProblem.TOO_LONG)
        elif not raw.isspace():
            yield _parse_line(number, raw)


def _skip_rest_of_line(stream: BinaryIO, raw: bytes, chunk_bytes: int) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(min(chunk_bytes + 1, 1 << 20))


def _parse_line(number: int, raw: bytes) -> NativeLine:
    try:
        value = json_text.parse(raw)
    except json_text.JsonError as error:
        if error.too_deep:
            return NativeLine(number, {}, LineProblem.TOO_DEEP)
        return NativeLine(number, {}, LineProblem.NOT_JSON if raw.endswith(b"\n") else LineProblem.TORN)
    if not isinstance(value, dict):
        return NativeLine(number, {}, LineProblem.NOT_AN_OBJECT)
    return NativeLine(number, value)
