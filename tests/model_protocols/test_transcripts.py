"""Every transcript: decoded as reviewed, however it is cut into pieces, and honest about every truncation."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.decode_command import decode_file, render
from roller_capture.vocabulary import ExecutionStatus, HttpEnd, Protocol, ResponseCaptureStatus
from tests.model_protocols.transcripts import (
    ALL,
    ANTHROPIC,
    CHAT,
    STREAMS,
    bytewise,
    decode,
    label,
    plain,
    protocol_of,
)

DELTAS_CONTRADICT_THE_END = {"openai-responses/delta_mismatch"}


@pytest.mark.parametrize("path", ALL, ids=label)
def test_transcript_decodes_as_reviewed(path: Path) -> None:
    """The line of `roller-capture decode` is exactly the one that was reviewed."""
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    line = render(decode_file(path, protocol_of(path)))
    assert json.loads(line) == expected
    assert line.isascii()
    assert "\n" not in line


@pytest.mark.parametrize("path", ALL, ids=label)
def test_pieces_do_not_matter(path: Path) -> None:
    """One byte at a time, characters and line ends cut in two, gives the same as one piece (H2)."""
    data, protocol = path.read_bytes(), protocol_of(path)
    assert decode(protocol, bytewise(data)) == decode(protocol, data)


def test_line_ends_comments_and_missing_event_lines_do_not_matter() -> None:
    """CRLF, comments, `retry:`, pings, a byte order mark, no `event:` lines: the same message (H1, H3)."""
    plain_text, *variants = (
        decode_file(path, ANTHROPIC) for path in sorted(STREAMS) if label(path).startswith("anthropic-messages/text")
    )
    assert len(variants) == 2
    assert all(variant == plain_text for variant in variants)


@pytest.mark.parametrize("path", STREAMS, ids=label)
@pytest.mark.parametrize("http_end", [HttpEnd.CUT_BY_UPSTREAM, HttpEnd.COMPLETE], ids=str)
def test_truncated_stream_is_never_called_whole(path: Path, http_end: HttpEnd) -> None:
    """Before its terminal marker no truncation is completed and complete, and its text is the beginning of the text."""
    data, protocol = path.read_bytes(), protocol_of(path)
    marker, whole_texts = _marker_end(data, protocol, http_end), _texts(decode(protocol, data).output)
    for cut in _cuts(data):
        decoded = decode(protocol, data[:cut], http_end=http_end)
        if cut < marker:
            whole = (ExecutionStatus.COMPLETED, ResponseCaptureStatus.COMPLETE)
            assert (decoded.execution_status, decoded.response_capture_status) != whole, cut
            assert not decoded.ended
        if label(path) not in DELTAS_CONTRADICT_THE_END:
            for place, text in _texts(plain(decoded.output)).items():
                assert whole_texts.get(place, "").startswith(text), (cut, place)


@pytest.mark.parametrize("path", STREAMS, ids=label)
def test_marker_counts_whoever_breaks_off_behind_it(path: Path) -> None:
    """From the terminal marker on, the client's or the service's leaving changes nothing."""
    data, protocol = path.read_bytes(), protocol_of(path)
    whole = decode(protocol, data)
    marker = _marker_end(data, protocol, HttpEnd.CUT_BY_CLIENT)
    for http_end in (HttpEnd.CUT_BY_CLIENT, HttpEnd.CUT_BY_UPSTREAM, HttpEnd.PROXY_STOPPED, HttpEnd.PROXY_KILLED):
        if whole.ended:
            assert decode(protocol, data[:marker], http_end=http_end) == _with_size(whole, marker)


def _with_size(decoded: Any, size: int) -> Any:
    return dataclasses.replace(decoded, decoded_bytes=size)


def _cuts(data: bytes) -> list[int]:
    ends = [end + offset for end in _all(data, b"\n\n") for offset in (0, 1, 2)]
    return sorted({*range(0, len(data), 3), *ends})


def _all(data: bytes, mark: bytes) -> list[int]:
    found, start = [], 0
    while (position := data.find(mark, start)) >= 0:
        found.append(position)
        start = position + 1
    return found


def _marker_end(data: bytes, protocol: Protocol, http_end: HttpEnd) -> int:
    """Where the terminal marker's last byte stands; behind the end where there is none."""
    if protocol is CHAT:
        reasons = _all(data, b'"finish_reason":"')
        if not reasons:
            return len(data) + 1
        if http_end is HttpEnd.COMPLETE:
            return data.index(b"}\n\n", reasons[-1])
        marks = _all(data, b"[DONE]")
        return marks[0] + len(b"[DONE]") if marks else len(data) + 1
    words = (
        [b'"type":"message_stop"']
        if protocol is ANTHROPIC
        else [b'data: {"type":"response.' + word for word in (b"completed", b"incomplete", b"failed")]
    )
    found = [position for word in words for position in _all(data, word)]
    if not found:
        return len(data) + 1
    ends = [end for end in (data.find(b"\n", found[0]), data.find(b"\r", found[0])) if end >= 0]
    return min(ends)


def _texts(value: Any, place: str = "") -> dict[str, str]:
    """Streamed texts by place: members that grow."""
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in ("text", "thinking", "content", "refusal", "reasoning_content"):
                found[f"{place}/{key}"] = item
            else:
                found |= _texts(item, f"{place}/{key}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            own = item.get("index", position) if isinstance(item, dict) else position
            found |= _texts(item, f"{place}/{own}")
    return found
