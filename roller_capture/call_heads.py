"""Reads the heads of calls.jsonl, plain or compressed, and passes over the contexts.

A context grows with its session, so its bytes are nearly all of the file. `context` stands last in a line (design
section 5), so the head is what stands before it. Where the client told the length of its body (`content-length`), the
end of the line is looked for at that distance, and taken only if a line really ends there; else it is searched for.
Memory is bounded by the largest head.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from roller_capture import json_text
from roller_capture.calls_file import FrameCache, open_calls

_WINDOW: Final = 32 * 1024
_LARGEST_HEAD: Final = 512 * 1024 * 1024
_MOST_CUTS: Final = 16
_OWN_MARK: Final = re.compile(rb',"context_exact":(?:true|false),"context":')
_ENDS: Final = (b"}\n{", b"}\n")
_ANY_MARK: Final = re.compile(rb',"context":')


class Place(NamedTuple):
    """Where a line stands in the file, as offsets. `context` is `None` where only the whole line tells where it is."""

    start: int
    context: int | None
    end: int


class Head(NamedTuple):
    """One line of calls.jsonl without its context. With a `problem`, `head` may be there and good all the same."""

    number: int
    head: dict[str, Any] | None
    problem: str | None
    place: Place | None = None


@dataclass(slots=True)
class Cut:
    """A head, and where in the text its context starts."""

    head: dict[str, Any]
    context_start: int


class CallFile:
    """calls.jsonl, opened. Raises `OSError` when it is missing, a link, no regular file, or a damaged compressed one.

    Offsets, also those of a `Place`, are those of the expansion. `cache` and `size` are those of `open_calls`.
    """

    def __init__(self, path: Path, cache: FrameCache | None = None, size: int | None = None) -> None:
        self._calls = open_calls(path, cache, size)
        self.status = self._calls.status
        self.size = self._calls.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file back."""
        self._calls.close()

    def heads(self, *, trust_lengths: bool = True, ends: Iterable[int] = ()) -> Iterator[Head]:
        """Every line in order. `trust_lengths=False` searches for every line end.

        `ends` are the offsets behind the lines, in order, of whoever wrote the file. One at which no line ends is
        passed over.
        """
        start, number = 0, 0
        known = iter(ends)
        while start < self.size:
            number += 1
            head, problem, place = self._line(start, next(known, None), trust_lengths=trust_lengths)
            yield Head(number, head, problem, place)
            start = place.end + 1

    def _line(
        self, start: int, known_end: int | None, *, trust_lengths: bool
    ) -> tuple[dict[str, Any] | None, str | None, Place]:
        """Head and problem of the line that starts here; it ends at its line break or at the end of the file."""
        window = _WINDOW
        while True:
            data = self._calls.read(start, start + window)
            line_break = data.find(b"\n")
            whole = line_break >= 0 or len(data) < window
            text = data[:line_break] if line_break >= 0 else data
            cut = cut_head(text)
            if cut is None and whole:
                head, problem = _parsed_whole(text)
                return head, problem, Place(start, None, start + len(text))
            if cut is not None:
                context = start + cut.context_start
                end = (
                    start + len(text)
                    if whole
                    else self._line_end(context, known_end, cut.head if trust_lengths else {})
                )
                last = text[-1:] if whole else self._calls.read(end - 1, end)
                return cut.head, _end_problem(last), Place(start, context, end)
            if window > _LARGEST_HEAD:
                end = self._calls.line_end(start + window)
                return None, "no call record: its head is too large", Place(start, None, end)
            window *= 4

    def _line_end(self, context_start: int, known_end: int | None, head: dict[str, Any]) -> int:
        length = _body_length(head)
        told = None if length is None else context_start + length
        for brace in (None if known_end is None else known_end - 2, told):
            if brace is not None and context_start < brace and self._calls.read(brace, brace + 3) in _ENDS:
                return brace + 1
        return self._calls.line_end(context_start)


def cut_head(text: bytes) -> Cut | None:
    """The head in the beginning of a line, or None where it does not end in it.

    The mark may also stand inside an object of `output`; cut there, the braces stay open and it is no JSON. So the
    first cut that gives a JSON object is the right one. Our own writer puts `context_exact` before it: tried first.
    """
    for mark in (_OWN_MARK, _ANY_MARK):
        for tries, match in enumerate(mark.finditer(text)):
            if tries == _MOST_CUTS:
                break
            key = match.end() - len(b',"context":')
            try:
                head = json_text.parse(text[:key] + b"}")
            except json_text.JsonError:
                continue
            return Cut(head, match.end()) if isinstance(head, dict) else None
    return None


def _parsed_whole(text: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """A line in which no cut was found: another member order or spacing, or no record at all."""
    try:
        value = json_text.parse(text)
    except json_text.JsonError as error:
        return None, f"no call record: {error}"
    if not isinstance(value, dict):
        return None, "no call record: no JSON object"
    value.pop("context", None)
    return value, None


def _end_problem(last: bytes) -> str | None:
    return None if last == b"}" else "its end is missing"


def _body_length(head: dict[str, Any]) -> int | None:
    """What the client said its body has, where the context is that body: JSON, and not content-encoded."""
    if "context_raw" in head:
        return None
    http = head.get("http")
    headers = http.get("request_headers") if isinstance(http, dict) else None
    if not isinstance(headers, dict) or "content-encoding" in headers:
        return None
    values = headers.get("content-length")
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        return None
    text = values[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
