"""What OpenClaw's client prints: one indented JSON object for each turn, perhaps with other text around."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LARGEST_OUTPUT: Final = 64 * 1024 * 1024
"""Bytes that are looked at; a client prints a few kilobytes for each turn."""


def documents(stdout: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The JSON objects from byte `start` on; whatever else stands there says nothing. Raises nothing."""
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            yield from documents_in(stream.read(LARGEST_OUTPUT))
    except OSError:
        return


def documents_in(output: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects in an output."""
    text = output.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    place = _next_object(text, 0)
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield value
        place = _next_object(text, end)


def _next_object(text: str, start: int) -> int:
    """Where the next line begins that opens an object, or -1."""
    if text.startswith("{", start) and (start == 0 or text[start - 1] == "\n"):
        return start
    place = text.find("\n{", start)
    return place + 1 if place >= 0 else -1
