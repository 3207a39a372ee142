"""The wire transcripts in tests/fixtures/wire, and ways to feed them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from roller_capture import json_text
from roller_capture.model_protocols import DecodedResponse, decode_response
from roller_capture.vocabulary import HttpEnd, Protocol

ROOT = Path(__file__).parents[1] / "fixtures" / "wire"
ANTHROPIC = Protocol.ANTHROPIC_MESSAGES
CHAT = Protocol.OPENAI_CHAT_COMPLETIONS
RESPONSES = Protocol.OPENAI_RESPONSES

STREAMS = sorted(ROOT.glob("*/*.sse"))
BODIES = sorted(path for path in ROOT.glob("*/*.json") if not path.name.endswith(".expected.json"))
ALL = STREAMS + BODIES


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def protocol_of(path: Path) -> Protocol:
    return Protocol(path.parent.name)


def wire(protocol: Protocol, name: str) -> bytes:
    return (ROOT / protocol / name).read_bytes()


def decode(
    protocol: Protocol,
    body: bytes | Iterable[bytes],
    *,
    status: int | None = 200,
    http_end: HttpEnd = HttpEnd.COMPLETE,
    content_type: str | None = None,
    content_encoding: str | None = None,
    **options: Any,
) -> DecodedResponse:
    return decode_response(
        protocol,
        status=status,
        content_type=content_type,
        content_encoding=content_encoding,
        body=[body] if isinstance(body, bytes) else body,
        http_end=http_end,
        **options,
    )


def sse(*events: Any) -> bytes:
    """An event stream of JSON payloads; bytes stand for themselves."""
    parts = [
        event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n" for event in events
    ]
    return b"".join(parts)


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[position : position + 1] for position in range(len(data)))


def plain(value: Any) -> Any:
    """The value as a reader of the published line sees it. Fails where the line is no strict JSON."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(json_text.dumps(value), parse_constant=refuse)


def codes(decoded: DecodedResponse) -> list[str]:
    return [warning.code for warning in decoded.warnings]


def errors(decoded: DecodedResponse) -> list[str]:
    return [error.code for error in decoded.errors]
