"""`roller-capture decode`: what the decoder makes of a raw response body in a file."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.model_protocols import decode_response
from roller_capture.model_protocols.content_coding import ContentDecoding
from roller_capture.vocabulary import HttpEnd, Protocol

_CHUNK_BYTES = 1024 * 1024


def decode_file(
    path: str | os.PathLike[str], protocol: Protocol, content_encoding: str | None = None
) -> dict[str, Any]:
    """The decoded body, as if its response had ended normally with status 200.

    Keys, in order: `output`, `usage`, `response_id`, `tool_refs` (objects with `tool_call_id`, `item_id`, `name`),
    `execution_status`, `response_capture_status`, `export_blockers`, `output_warnings` (objects with `code`, `detail`).

    Raises `RollerError` for a file that cannot be read and for an unknown content coding.
    """
    unknown = ContentDecoding(content_encoding).unknown
    if unknown is not None:
        raise RollerError(f"unknown content encoding {unknown!r}: use gzip, deflate, br, zstd or identity", exit_code=2)
    decoded = decode_response(
        protocol,
        status=200,
        content_type=None,
        content_encoding=content_encoding,
        body=_chunks(Path(path)),
        http_end=HttpEnd.COMPLETE,
    )
    return {
        "output": decoded.output,
        "usage": decoded.usage,
        "response_id": decoded.response_id,
        "tool_refs": [asdict(ref) for ref in decoded.tool_refs],
        "execution_status": decoded.execution_status,
        "response_capture_status": decoded.response_capture_status,
        "export_blockers": list(decoded.blockers),
        "output_warnings": [asdict(warning) for warning in decoded.warnings],
    }


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise RollerError(f"{path}: cannot be read: {error.strerror}", exit_code=2) from None


def render(decoded: dict[str, Any]) -> str:
    """One line of ASCII JSON."""
    return json_text.dumps_ascii(decoded)
