"""The published records: `roller.call/v1`, `roller.relation/v1`, `roller.capture/v1` (design sections 5, 7 and 8).

These models are where the JSON Schemas in `schemas/` come from (`make schemas`); the files in `schemas/` are the law
that published data is checked against, also by other languages. Our own objects are closed; what the provider or the
harness said (`output`, `usage`, `context`) is open. Field order here is field order on disk, with `context` last, so
that the head of a line can be read without its context.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from roller_capture.vocabulary import (
    AttemptErrorCode,
    Blocker,
    BoundBy,
    CallErrorCode,
    CaptureStatus,
    CoverageStatus,
    CoverageStrength,
    CutBy,
    DebugRetention,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    ExportStatus,
    IdentityStatus,
    LifecycleStatus,
    ModelMatch,
    OtherRequestKind,
    OutputWarningCode,
    ParentCallStatus,
    Protocol,
    Purpose,
    RawEncoding,
    RelationType,
    ResponseCaptureStatus,
    Role,
    StatusReason,
    SubtaskSupport,
)

CALL_SCHEMA = "roller.call/v1"
RELATION_SCHEMA = "roller.relation/v1"
CAPTURE_SCHEMA = "roller.capture/v1"
STORAGE_LAYOUT = "compact/v2"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Timestamp = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]
_MATCH_RULE = "(" + "|".join(re.escape(rule.value) for rule in ModelMatch) + ")"
MatchText = Annotated[str, Field(pattern=rf"^{_MATCH_RULE}(\+{_MATCH_RULE})*$")]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A closed, immutable object of ours."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Endpoint(Record):
    """Where the request went."""

    method: str = Field(description="HTTP method")
    path: str = Field(description="path and query; values of unknown query parameters are redacted")
    host: str = Field(description="upstream host, with its port where that is not the scheme's own")


class Model(Record):
    """Which model was asked, and which answered."""

    requested: str | None = Field(description="`model` of the request body")
    responded: str | None = Field(description="model named by the response")
    match: MatchText = Field(description="the rule that made them match; several are joined by `+`")


class OutputWarningRecord(Record):
    """An oddity of the response."""

    code: OutputWarningCode
    detail: str


class ToolRefRecord(Record):
    """One tool call in the output, also in a partial one."""

    tool_call_id: str | None
    item_id: str | None = Field(description="Responses: id of the output item")
    name: str | None


class Http(Record):
    """The exchange as HTTP; header values are kept by allow-list only."""

    status: int | None = Field(description="response status, null when no response head came")
    request_version: str | None
    response_version: str | None
    request_headers: dict[str, list[str]] = Field(description="allow-listed values by lower-case name")
    request_other_headers: list[str] = Field(description="names of the headers whose values are not kept")
    response_headers: dict[str, list[str]]
    response_other_headers: list[str]


class Timing(Record):
    """Wall clock times are UTC; durations come from a monotonic clock."""

    request_start: Timestamp | None
    request_end: Timestamp | None
    first_byte: Timestamp | None = Field(description="first byte of the response body")
    end: Timestamp | None = Field(description="end of the exchange, however it ended")
    first_byte_ms: float | None = Field(description="milliseconds from the end of the request to the first byte")
    duration_ms: float | None = Field(description="milliseconds from the end of the request to the end")
    chunks: Count | None = Field(
        description="pieces in which the response body passed through the proxy; null where nobody counted"
    )


class CallError(Record):
    """What went wrong with this call."""

    code: CallErrorCode
    message: str
    cut_by: CutBy | None = Field(default=None, description="which side broke it")


class IdentityEvidence(Record):
    """One fact about who made the call."""

    kind: EvidenceKind
    name: str = Field(description="`response_id`, `header:NAME` or `context:POINTER`")
    value: str | None
    source: str | None = Field(description="native log that knows the value, null when none does")


class NativeIdentity(Record):
    """Native ids seen in the call."""

    session_id: str | None = None
    parent_session_id: str | None = None
    thread_id: str | None = None
    parent_thread_id: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    message_id: str | None = Field(default=None, description="native message that holds this call's output")
    run_id: str | None = None
    logical_call_id: str | None = Field(default=None, description="of a retry chain, where the harness gives one")
    evidence: list[IdentityEvidence]


class ContextRaw(Record):
    """A request body that is no JSON."""

    encoding: RawEncoding
    data: str


def _rule(condition: dict[str, Any], then: dict[str, Any], otherwise: dict[str, Any] | None = None) -> JsonValue:
    """An if/then/else of JSON Schema over members of one object."""
    rule: dict[str, Any] = {"if": {"properties": condition}, "then": {"properties": then}}
    if otherwise is not None:
        rule["else"] = {"properties": otherwise}
    return rule


_CALL_RULES: list[JsonValue] = [
    _rule(
        {"identity_status": {"const": "resolved"}},
        {"participant_id": {"type": "string"}, "identity_candidates": {"maxItems": 0}},
        {"participant_id": {"type": "null"}, "export_blockers": {"contains": {"const": "identity_unresolved"}}},
    ),
    _rule({"identity_status": {"const": "ambiguous"}}, {"identity_candidates": {"minItems": 1}}),
    _rule(
        {"export_status": {"const": "exportable"}},
        {
            "export_blockers": {"maxItems": 0},
            "execution_status": {"const": "completed"},
            "response_capture_status": {"const": "complete"},
            "capture_status": {"const": "complete"},
        },
        {"export_blockers": {"minItems": 1}},
    ),
]

_TEXT: dict[str, Any] = {"type": "string"}
_OBJECT: dict[str, Any] = {"type": "object"}
_NULL: dict[str, Any] = {"type": "null"}

# The relation table of docs/protocol.md: what each type requires, and what must be null.
_RELATION_RULES: list[JsonValue] = [
    _rule({"type": {"const": "spawn"}}, {"tool_call_id": _TEXT}),
    _rule({"type": {"const": "child_failed"}}, {"outcome": _TEXT}),
    _rule(
        {"type": {"enum": ["spawn", "child_completed", "child_failed"]}},
        {"delivery": _NULL},
        {"delivery": _OBJECT, "parent_participant_id": _TEXT},
    ),
    _rule(
        {"type": {"enum": ["result_in_context", "launch_ack_in_context"]}},
        {"context_call_id": _TEXT, "context_pointer": _TEXT},
        {"context_call_id": _NULL, "context_pointer": _NULL},
    ),
    _rule(
        {"parent_call_status": {"const": "resolved"}},
        {"parent_call_id": _TEXT, "model_tool_ref": _OBJECT},
        {"parent_call_id": _NULL, "model_tool_ref": _NULL},
    ),
]


class CallRecord(Record):
    """One line of calls.jsonl: one actual HTTP model request and its response."""

    model_config = ConfigDict(json_schema_extra={"allOf": _CALL_RULES})

    schema_: Literal["roller.call/v1"] = Field(alias="schema")
    call_id: str = Field(description="contains the capture's random scope")
    participant_id: str | None = Field(description="who made the call; null unless resolved")
    identity_candidates: list[str] = Field(description="participants that evidence names, when ambiguous")
    sequence: Annotated[int, Field(ge=1)] = Field(description="order of arrival at the proxy; never evidence")
    protocol: Protocol
    endpoint: Endpoint
    model: Model
    purpose: Purpose
    execution_status: Annotated[ExecutionStatus, Field(json_schema_extra={"not": {"const": "unknown"}})]
    response_capture_status: ResponseCaptureStatus
    identity_status: IdentityStatus
    capture_status: CaptureStatus
    export_status: ExportStatus
    export_blockers: list[Blocker]
    output: Any = Field(description="the provider response in the shape it has without streaming; null if none")
    output_warnings: list[OutputWarningRecord]
    response_id: str | None
    tool_refs: list[ToolRefRecord]
    usage: dict[str, Any] | None = Field(description="the provider's usage, merged over the stream")
    http: Http
    timing: Timing
    errors: list[CallError]
    native_identity: NativeIdentity
    response_path: str | None = Field(description="the response's wire bytes below raw/, null if not retained")
    request_sha256: Sha256 | None = Field(description="of the request body as on the wire")
    context_sha256: Sha256 | None = Field(description="of the request body after its content coding")
    context_exact: bool = Field(description="false if a line break between tokens had to become a space")
    context_raw: ContextRaw | None = Field(default=None, description="only when the body is no JSON")
    context: Any = Field(description="the whole request body, its own text")


class ModelToolRef(Record):
    """The delegation in the provider's output; both must match where the native id is `call_id|item_id`."""

    call_id: str | None
    item_id: str | None


class DeliveryRecord(Record):
    """What carried the result, and the id that binds it."""

    kind: DeliveryKind
    bound_by: BoundBy
    bound_id: str


class RelationEvidence(Record):
    """A place where the relation is proven."""

    kind: EvidenceKind
    source: str = Field(description="native log by its original relative path, or a file of the capture")
    locator: str = Field(description="line, row or pointer in it, with the id that stands there")
    retained: bool = Field(description="is the source still there, in raw/ or as a formal file?")


class RelationRecord(Record):
    """One line of relations.jsonl: one proven launch, result delivery or context association."""

    model_config = ConfigDict(json_schema_extra={"allOf": _RELATION_RULES})

    schema_: Literal["roller.relation/v1"] = Field(alias="schema")
    relation_id: str
    type: RelationType
    parent_participant_id: str | None
    child_participant_id: str
    receiver_participant_id: str | None = Field(description="where the receiver is not the spawner")
    tool_call_id: str | None = Field(description="native id of the delegation")
    model_tool_ref: ModelToolRef | None
    task_index: int | None = Field(description="position among the children of one batched call")
    delegation: Annotated[int, Field(ge=1)] = Field(description="1, 2, … of one child")
    parent_call_id: str | None = Field(description="the call whose output made the delegation")
    parent_call_status: ParentCallStatus
    delivery: DeliveryRecord | None
    context_call_id: str | None = Field(description="in-context types: the call whose request holds the item")
    context_pointer: str | None = Field(description="JSON Pointer into that call's context")
    outcome: str | None
    evidence: list[RelationEvidence] = Field(min_length=1)


class HarnessInfo(Record):
    """What made the calls."""

    name: str
    version: str | None
    tested: bool = Field(description="is this version in the tested range?")


class StatusReasonRecord(Record):
    """One reason why the capture is partial."""

    code: StatusReason
    count: Count
    call_ids: list[str] = Field(description="the calls concerned, where it is about calls")


class Lifecycle(Record):
    """Have the subtasks ended, and were their results delivered?"""

    status: LifecycleStatus
    pending_participant_ids: list[str]


class ParticipantRecord(Record):
    """One native executor. The id is opaque: root or child is told by `role` alone."""

    participant_id: str
    role: Role
    parent_participant_id: str | None
    native_ids: dict[str, list[str]]
    execution_status: ExecutionStatus
    identity_status: IdentityStatus
    call_ids: list[str]


class ProtocolCount(Record):
    """The protocol's own, weaker count beside a stronger key."""

    name: str
    expected: Count
    observed: Count


class NativeOutputCoverage(Record):
    """Does every model output that the native logs hold have its call? One-sided: surplus calls are no error."""

    key: str = Field(description="which id is compared")
    strength: CoverageStrength
    expected: Count
    observed: Count
    missing: list[str]
    surplus_calls: Count = Field(description="completed calls without a native output")
    status: CoverageStatus
    protocol_count: ProtocolCount | None


class Capabilities(Record):
    """What this harness, as it was run, can show at all."""

    subtasks: SubtaskSupport
    identity: list[str] = Field(description="the fields by which the native logs tell owners, strongest first")
    native_id_headers: list[str] = Field(
        default=[], description="the request headers that native_identity is taken from; left out by earlier versions"
    )
    native_output_coverage: NativeOutputCoverage


class Counts(Record):
    """Totals over calls.jsonl and relations.jsonl."""

    calls: Count
    exportable_calls: Count
    execution_status: dict[str, int]
    identity_status: dict[str, int]
    capture_status: dict[str, int]
    participants: Count
    relations: dict[str, int]


class AttemptError(Record):
    """Something missing or wrong in the attempt as a whole, by name."""

    code: AttemptErrorCode
    message: str
    source: str | None
    locator: str | None = Field(description="of the first occurrence")
    count: Annotated[int, Field(ge=1)]


class FileInfo(Record):
    """A published file."""

    sha256: Sha256
    bytes: Count


class CallsCompression(Record):
    """How calls.jsonl.zst is compressed, and what it expands to."""

    format: Literal["zstd-seekable"] = Field(description="Zstandard's seekable format: `zstd -d` expands it")
    expanded: FileInfo = Field(description="calls.jsonl, as `zstd -d` writes it")


class Tool(Record):
    """What wrote the capture."""

    name: Literal["roller-capture"]
    version: str
    recorder_version: str | None
    derivation: str | None = Field(
        default=None, description="fingerprint of the code that derived the records, null where it had no sources"
    )


class Manifest(Record):
    """manifest.json: the capture as a whole. Written last; a published attempt has it or is not published."""

    schema_: Literal["roller.capture/v1"] = Field(alias="schema")
    capture_id: str
    storage_layout: Literal["compact/v2"]
    harness: HarnessInfo
    started_at: Timestamp | None
    closed_at: Timestamp | None
    execution_status: ExecutionStatus
    capture_status: CaptureStatus
    status_reasons: list[StatusReasonRecord]
    debug_retention: DebugRetention
    raw_retained: bool
    lifecycle: Lifecycle
    participants: list[ParticipantRecord]
    capabilities: Capabilities
    counts: Counts
    other_requests: dict[OtherRequestKind, Count]
    errors: list[AttemptError]
    files: dict[str, FileInfo] = Field(description="every published file but the manifest itself")
    calls_compression: CallsCompression | None = Field(
        default=None, description="only where calls.jsonl.zst stands in the place of calls.jsonl"
    )
    tool: Tool
    supersedes: Sha256 | None = Field(
        default=None, description="sha256 of the manifest that `prune` or `migrate` made this one from"
    )
    migrated_from: str | None = Field(
        default=None, description="the earlier layout that `migrate` made this one from; its ids are the old ones"
    )


def plain(record: BaseModel) -> dict[str, Any]:
    """The record as JSON values, keys as on disk. Open values (`output`, `usage`) are passed through untouched."""
    fields = type(record).model_fields
    out: dict[str, Any] = {}
    for name, value in record.__dict__.items():
        if value is None and fields[name].default is None:
            continue  # optional members are left out, required ones are written as null
        out[fields[name].alias or name] = _plain_value(value)
    return out


def _plain_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return plain(value)
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return [plain(item) for item in value]
    if isinstance(value, dict) and value and isinstance(next(iter(value.values())), BaseModel):
        return {str(key): plain(item) for key, item in value.items()}
    return value


RECORDS: Mapping[str, type[Record]] = {
    "roller.call.v1.json": CallRecord,
    "roller.relation.v1.json": RelationRecord,
    "roller.capture.v1.json": Manifest,
}
"""The schema files and the models they come from."""
