"""One call on one line, in columns that stand under each other; what went wrong follows below it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from roller_capture.view.attempt import Call
from roller_capture.view.lines import BAD, FAINT, PLAIN, STRONG, WARN, Node, Piece, joined, node, status_style
from roller_capture.view.words import LONGEST_TEXT, amount, cache_words, cut, duration, listing
from roller_capture.vocabulary import Purpose, ResponseCaptureStatus

_MOST_TOOLS: Final = 6


class _Cell(NamedTuple):
    text: str
    style: str = PLAIN
    right: bool = False


class CallLines:
    """Lays out the calls of one attempt; a column that no call fills takes no room."""

    def __init__(self, calls: Sequence[Call], *, evidence: bool) -> None:
        self._evidence = evidence
        self._widths: list[int] = []
        for call in calls:
            lengths = [len(cell.text) for cell in _columns(call)]
            self._widths = list(map(max, lengths, self._widths or lengths))

    def node(self, call: Call) -> Node:
        """The call's line, with its errors, warnings and blockers below."""
        result = Node((*self._aligned(_columns(call)), *_rest(call)))
        result.children = [node(line) for line in _remarks(call)]
        if self._evidence:
            for item in call.record["native_identity"]["evidence"]:
                value = cut(item["value"] or "(absent)", LONGEST_TEXT)
                known = f"in {item['source']}" if item["source"] else "in no native log"
                result.add(Piece(f"evidence: {item['kind']} {item['name']} {value} {known}", FAINT))
        return result

    def _aligned(self, cells: Sequence[_Cell]) -> Iterator[Piece]:
        for cell, width in zip(cells, self._widths, strict=True):
            if width:
                yield Piece((cell.text.rjust(width) if cell.right else cell.text.ljust(width)) + "  ", cell.style)


def _columns(call: Call) -> tuple[_Cell, ...]:
    return (
        _Cell(f"#{call.number}", STRONG),
        _Cell(_model(call.record["model"])),
        _Cell(amount(call.tokens.input, "in"), PLAIN, True),
        _Cell(amount(call.tokens.output, "out"), PLAIN, True),
        _Cell(duration(call.milliseconds), FAINT, True),
    )


def _rest(call: Call) -> Iterator[Piece]:
    """What differs too much in length to stand in columns."""
    record, tokens = call.record, call.tokens
    yield Piece(_result(call), status_style(record["execution_status"]))
    if record["purpose"] != Purpose.AGENT:
        yield Piece(f"  purpose {record['purpose']}", WARN)
    if record["tool_refs"]:
        yield Piece(f"  calls {_tools(record['tool_refs'])}", STRONG)
    cache = cache_words(tokens.cache_read, tokens.cache_creation)
    if cache:
        yield Piece(f"  {cache}", FAINT)


def _model(model: dict[str, str | None]) -> str:
    requested, responded = model["requested"], model["responded"]
    asked = cut(requested) if requested is not None else "(no model named)"
    if responded is None or responded == requested:
        return asked
    return f"{asked} answered by {cut(responded)}"


def _result(call: Call) -> str:
    record = call.record
    status, captured = record["execution_status"], record["response_capture_status"]
    http_status = record["http"]["status"]
    bad_status = http_status is not None and not 200 <= http_status < 300
    return joined(
        [
            status,
            cut(call.finish) if call.finish and call.finish != status else "",
            f"HTTP {http_status}" if bad_status else "",
            "" if captured == ResponseCaptureStatus.COMPLETE else f"response {captured}",
        ]
    )


def _tools(refs: Iterable[dict[str, str | None]]) -> str:
    names = Counter(ref["name"] or "(no name)" for ref in refs)
    words = [cut(name) if times == 1 else f"{cut(name)} x{times}" for name, times in names.items()]
    return listing(words, _MOST_TOOLS)


def _remarks(call: Call) -> Iterator[Piece]:
    """What a reader should know of a call beyond its line."""
    record = call.record
    for error in record["errors"]:
        cut_by = f" (cut by {error['cut_by']})" if error.get("cut_by") else ""
        yield Piece(f"{error['code']}{cut_by}: {cut(error['message'], LONGEST_TEXT)}", BAD)
    if record["export_blockers"]:
        yield Piece(f"not exportable: {', '.join(record['export_blockers'])}", WARN)
    warnings = Counter(item["code"] for item in record["output_warnings"])
    if warnings:
        yield Piece(f"oddities in the response: {listing(list(warnings), 8)}", FAINT)
