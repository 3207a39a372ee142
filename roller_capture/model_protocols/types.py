"""Values that decoding returns. They know nothing of files, participants or statuses of the whole attempt."""

from dataclasses import dataclass, field
from typing import Any

from roller_capture.vocabulary import (
    Blocker,
    CallErrorCode,
    ExecutionStatus,
    OutputWarningCode,
    ResponseCaptureStatus,
)


@dataclass(frozen=True, slots=True)
class ToolRef:
    """One tool call in a provider's output, also in a partial one: its tool may have run."""

    tool_call_id: str | None
    item_id: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class OutputWarning:
    """An oddity seen while decoding; `detail` is short and holds no content of the conversation beyond names."""

    code: OutputWarningCode
    detail: str


@dataclass(frozen=True, slots=True)
class DecodeError:
    """Why a response is failed or incomplete. `message` is the provider's own text where there is one."""

    code: CallErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class DecodedResponse:
    """What came back, in the shape the provider gives without streaming.

    `output` is `None` when nothing came; it may hold `NumberText` and, where a body was JSON already, is a `RawJson`
    of that body's own text. `finish_reason` is the provider's word (`end_turn`, `stop`, `completed`, …). `blockers`
    are only those that follow from the response. `ended` tells whether the protocol's terminal marker was seen.
    """

    output: Any
    execution_status: ExecutionStatus
    response_capture_status: ResponseCaptureStatus
    response_id: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    tool_refs: tuple[ToolRef, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    warnings: tuple[OutputWarning, ...] = ()
    errors: tuple[DecodeError, ...] = ()
    ended: bool = False
    decoded_bytes: int = field(default=0)
