"""`roller.actf/v1`: the form of an ACTF row. The schema file in `schemas/` comes from here (`make schemas`)."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from roller_capture.records import Model, Record, Sha256
from roller_capture.vocabulary import (
    Blocker,
    BoundBy,
    CaptureStatus,
    DeliveryKind,
    ExecutionStatus,
    Protocol,
    Purpose,
    RelationType,
)


class Harness(Record):
    """What made the calls."""

    name: str
    version: str | None


class SegmentPlace(Record):
    """Which part of the trajectory this is."""

    number: int = Field(ge=1)
    of: int = Field(ge=1)
    cut_by: str | None = Field(description="the compaction call that ended the segment before")


class LeftOutCall(Record):
    """A turn of the root that did not end well, or a call of it that may have been one: not in the conversation."""

    call_id: str
    purpose: Purpose = Field(description="`agent`; `unknown` where nothing tells what the call was made for")
    blockers: list[Blocker]


class FunctionCall(Record):
    """A call of a function tool."""

    name: str
    arguments: str = Field(description="JSON text, as the model wrote it")


class CustomCall(Record):
    """A call of a tool whose input is free text."""

    name: str
    input: str


class ToolCall(Record):
    """A tool call of the model."""

    id: str
    type: Literal["function", "custom"]
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class Origin(Record):
    """Where the message is from: the segment's last request, or its response."""

    in_: Literal["context", "output"] = Field(alias="in")
    at: str = Field(description="JSON Pointer")
    parts: list[int] | None = Field(default=None, description="lengths of the texts of `content`, if not one")


class Notification(Record):
    """The harness itself put this into the input: no person said it, and the subagent did not say it here."""

    relation_id: str
    type: RelationType
    child_participant_id: str
    pointer: str
    kind: DeliveryKind
    bound_by: BoundBy
    bound_id: str


class TrajectoryMessage(Record):
    """A message in the chat form, as it was sent: role, wrapper and text."""

    role: str = Field(description="that of the chat form; `agent_message` for what one agent of Codex wrote to another")
    content: str | None
    reasoning_content: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    id: str | None = Field(default=None, description="the service's id of an agent message")
    tool_calls: list[ToolCall] | None = None
    origin: Origin
    call_id: str | None = Field(description="the call that answered with it; null for what was sent, or is not known")
    notifications: list[Notification] = Field(description="what automatic notifications it carries")


class Trajectory(Record):
    """One segment of the root's conversation: what its last request held, and what it answered."""

    schema_: Literal["roller.actf/v1"] = Field(alias="schema")
    sample_id: str | None
    attempt: str
    capture_id: str
    manifest_path: str = Field(description="from the folder that was exported on")
    manifest_sha256: Sha256
    harness: Harness
    execution_status: ExecutionStatus
    capture_status: CaptureStatus
    participant_id: str = Field(description="the root")
    segment: SegmentPlace
    protocol: Protocol
    model: Model
    call_ids: list[str] = Field(description="the calls of this conversation, in order")
    abandoned_call_ids: list[str] = Field(description="calls that were asked again: their answers are not in it")
    left_out_calls: list[LeftOutCall]
    finish: str | None = Field(description="the provider's own word for how the last response ended")
    parameters: dict[str, Any] = Field(description="the last request without messages, system prompt and tools")
    tools: list[Any] = Field(description="function and custom tools of the last request, as of Chat Completions")
    other_tools: list[Any] = Field(description="its other tools, as they were sent")
    tools_changed_at: list[str] = Field(description="calls whose tools are not those of the call before")
    system_changed_at: list[str] = Field(description="the same for the leading system messages")
    messages: list[TrajectoryMessage]
    extra: dict[str, dict[str, Any]] = Field(
        description="`context` and `output`: what has no place in the messages, by JSON Pointer"
    )


TRAJECTORIES: Mapping[str, type[Record]] = {"roller.actf.v1.json": Trajectory}
"""The schema file and the model it comes from."""
