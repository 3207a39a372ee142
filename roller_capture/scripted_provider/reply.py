"""What a script tells the provider to answer."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roller_capture.scripted_provider.coding import CODINGS


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of the answer. Without `tool_id` the provider makes one that holds the answer's nonce.

    `kind` is the type of item that the Responses protocol has for it: beside functions `custom_tool_call`, whose
    `input` is the one argument of that name, and `tool_search_call`, which has no name.
    """

    name: str
    arguments: Mapping[str, Any]
    tool_id: str | None = None
    kind: str = "function_call"


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error inside a stream that began with status 200, sent after `after` ordinary events; nothing follows it."""

    after: int
    kind: str = "overloaded_error"
    message: str = "scripted overload"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. The defaults give a plain, complete one.

    `owner` is the script's own word for the agent it is talking to; it goes into the record of truth and nowhere else.
    Times are seconds. The fields that break an answer (`cut_after`, `hold`, `error_event`) apply to streams;
    `close_early` and `drop` to any answer.
    """

    text: str | None = None
    tools: tuple[ToolUse, ...] = ()
    thinking: str | None = None
    owner: str | None = None

    delay: float = 0.0
    """Before the first byte."""
    gap: float = 0.0
    """Between two events."""
    finish: str | None = None
    """The protocol's finish reason, instead of the usual one (Responses: `incomplete` or the reason for it)."""
    model: str | None = None
    """The model to report, instead of the requested one."""
    usage: Mapping[str, Any] | None = None
    """Members that replace or extend the usual usage figures."""
    send_response_id: bool = True
    send_request_id: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    content_encoding: str | None = None
    """`gzip`, `deflate`, `br` or `zstd`."""

    status: int = 200
    error_body: str | None = None
    """Body of an answer whose status is not 200, instead of the protocol's error JSON; `{nonce}` is filled in."""
    error_content_type: str = "application/json"

    cut_after: int | None = None
    """Break the connection after this many events (0: after the response head)."""
    hold_after: int | None = None
    """Wait for `hold` after this many events (0: after the response head), then go on."""
    hold: threading.Event | None = None
    error_event: ErrorEvent | None = None
    close_early: bool = False
    """Send every event, then break the connection without the end of the HTTP message."""
    drop: bool = False
    """Break the connection instead of answering."""

    def __post_init__(self) -> None:
        if (self.hold_after is None) != (self.hold is None):
            raise ValueError("hold and hold_after belong together")
        if self.content_encoding not in CODINGS:
            raise ValueError(f"unknown content coding {self.content_encoding!r}")
