"""What an adapter hands to the finalizer: `NativeCapture` and its parts (protocol, "Common layer and adapter layer").

An adapter reads the native logs of one harness and returns one `NativeCapture`: participants, identity mapping, native
relations, observable output ids and counts, capability declarations, and the gaps it met. It decides no status, looks
at no call and writes nothing. Everything here is a frozen value; "key" always means the adapter's own name of a
participant, unique within the capture, which the finalizer turns into an opaque `participant_id`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roller_capture.vocabulary import (
    AttemptErrorCode,
    BoundBy,
    CoverageStrength,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    LifecycleStatus,
    Purpose,
    RelationType,
    Role,
    SubtaskSupport,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place where something is proven.

    `source` is the name of a native log in `NativeCapture.sources` (its path below the native root, with `/`), or
    `events.jsonl`, `calls.jsonl`, `launcher.json`. `locator` says where in it: `line:N` (from 1), optionally with
    ` KIND:ID` behind it naming the event, part, message or tool id that stands on that line; `json:POINTER` for a JSON
    document; `row:TABLE:KEY` for a database. `validate --deep` resolves every locator and looks for the ID.
    """

    kind: EvidenceKind
    source: str
    locator: str


@dataclass(frozen=True, slots=True)
class NativeSource:
    """One native file that was read and is kept as evidence. Its bytes are published as they stand in `path`."""

    source: str
    path: Path


@dataclass(frozen=True, slots=True)
class NativeParticipant:
    """One native executor (protocol, "Three objects").

    `native_ids` holds every native id by its kind, for example `{"session_id": ("…",), "agent_id": ("…",)}`; a rotated
    session is one participant with two ids. `execution_status` needs a native end record: a participant that just
    stopped is `interrupted`, one of which nothing is known `unknown`.
    """

    key: str
    role: Role
    parent_key: str | None
    native_ids: Mapping[str, tuple[str, ...]]
    execution_status: ExecutionStatus
    evidence: tuple[Evidence, ...]
    lifecycle: LifecycleStatus = LifecycleStatus.COMPLETE
    """`complete`: ended, and delivered or settled by the parent's own stop; `pending`: started, and cut by a wait
    ceiling, root end or kill, or not delivered; `unknown`: no log of it, or ids that do not match."""


@dataclass(frozen=True, slots=True)
class IdentityClaim:
    """ "A call in which `field` has `value` belongs to `participant_key`", with the native record that says so.

    `field` is `response_id` (the provider's response id), `header:NAME` (a request header, lower case), or
    `context:JSON-POINTER` (a member of the request body). Only fields of the adapter's closed list are ever used.
    """

    field: str
    value: str
    participant_key: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class AbsentHeaderClaim:
    """ "A call without header `header` belongs to `participant_key`", for harnesses that mark only their children.

    It counts only where all of `required` stands in the call too, and where this attempt proves that the harness would
    have sent the header (design section 6).
    """

    header: str
    required: tuple[tuple[str, str], ...]
    participant_key: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NativeIdentityField:
    """One header whose value is a native id: published as `native_identity.<published_as>` of the call.

    `exclusive` means that a value names exactly one participant, so a value that no native log knows contradicts any
    other claim. A header that all participants of a run share (a session id) is not exclusive.
    """

    header: str
    published_as: str
    exclusive: bool


@dataclass(frozen=True, slots=True)
class PurposeClaim:
    """ "A call in which `field` has `value` was made for `purpose`" (fields as in `IdentityClaim`)."""

    field: str
    value: str
    purpose: Purpose
    evidence: Evidence
    side_call: bool = False
    """The harness itself marks it as no agent turn: it lowers no status when its owner is unknown."""


@dataclass(frozen=True, slots=True)
class NativeOutput:
    """One model output that the native logs hold, so one call must have brought it."""

    participant_key: str
    output_id: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NativeCoverage:
    """How native outputs are compared with calls: `field` as in `IdentityClaim`, `per_id` where each output has an id.
    A whole number in the context counts as its decimal digits.

    `outputs` is `None` when no native log was read: then coverage is unknown, never complete. `protocol_count` is the
    protocol's own count per participant key, published beside a stronger key.
    """

    field: str
    strength: CoverageStrength
    outputs: tuple[NativeOutput, ...] | None
    protocol_count_name: str
    protocol_count: Mapping[str, int] = dataclasses.field(default_factory=dict)
    within_participant: bool = False
    """The ids are numbers that each participant gives its own calls: another's may be the same. One that stands for
    several outputs (an answer, and the title that was asked for beside it) needs as many calls."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What carried a result or an acknowledgement into its receiver, and by which id that is proven."""

    kind: DeliveryKind
    bound_by: BoundBy
    bound_id: str


@dataclass(frozen=True, slots=True)
class NativeRelation:
    """A relation that native logs alone prove: all types but the two in-context ones.

    `tool_call_id` is the native id of the delegation; `parent_output_id` the response id of the native output that
    holds it, where the log tells. `receiver_key` is set only where the receiver is not the spawner. `delegation` counts
    1, 2, … the delegations of one child; `task_index` the children of one batched call.
    """

    type: RelationType
    parent_key: str | None
    child_key: str
    tool_call_id: str | None
    evidence: tuple[Evidence, ...]
    receiver_key: str | None = None
    parent_output_id: str | None = None
    delegation: int = 1
    task_index: int | None = None
    delivery: Delivery | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResultItem:
    """A tool result in a request body, found by its tool call id."""

    tool_call_id: str


@dataclass(frozen=True, slots=True)
class NotificationItem:
    """An automatic message in a request body.

    Text is required and never sufficient (protocol, "Relation semantics"): `texts` must all stand in one message, and
    the first call of the receiver in which `field` has `value` must hold it. `field` is one that `IdentityClaim` knows:
    the response id of the output that answered the message, or the header in which a hook sent the message's own id or
    the id of the run that it began.
    """

    texts: tuple[str, ...]
    value: str = ""
    field: str = "response_id"
    item_id: str | None = None
    """The id that the item itself has in every request that holds it (Responses: `input[].id`), where the log knows it.
    It binds the item instead of `field` and `value`; the texts have to stand in that item all the same."""
    later_texts: tuple[str, ...] = ()
    """Where the harness writes the same message in another form into requests of later runs: what must stand there
    instead, an id of the message among it. Without these, later requests hold it only if they hold it unchanged."""


@dataclass(frozen=True, slots=True)
class ContextProbe:
    """What to look for in the receiver's requests; each request that holds it becomes one in-context relation.

    `relation` is the native relation whose item this is (a delivered result or a launch acknowledgement); the finalizer
    copies its ids and adds the call and the pointer.
    """

    relation: NativeRelation
    item: ToolResultItem | NotificationItem


@dataclass(frozen=True, slots=True)
class Gap:
    """Something the adapter could not read or prove, by name. Every gap makes the capture partial."""

    code: AttemptErrorCode
    message: str
    source: str | None = None
    locator: str | None = None


@dataclass(frozen=True, slots=True)
class WireCall:
    """The identity headers, the harness's and ours, that stood together in one call, by lower-case name in wire order.

    `line` is that of its `request_headers` event in `events.jsonl`: the evidence of what it carried. A call without the
    attempt's dummy credential is none of the harness's, and not listed.
    """

    headers: Mapping[str, tuple[str, ...]]
    line: int


@dataclass(frozen=True, slots=True)
class AdapterInput:
    """What an adapter may look at.

    `native_root` is the HOME of the run or the harness's own folder in it, or `None` when there is none. `wire_headers`
    holds, by lower-case name, the values that the harness's identity headers, and ours, had on the wire: only sessions
    seen there, and their descendants, are read from a user's home. `launcher` is `launcher.json`, or empty. `scratch`
    is an empty folder, removed once the attempt is published, for evidence that is no file by itself: the allowed
    columns of a database. `wire_calls` holds the same headers call by call, for harnesses whose headers tell more
    together than apart; their order proves nothing.
    """

    native_root: Path | None
    wire_headers: Mapping[str, frozenset[str]]
    launcher: Mapping[str, object] = dataclasses.field(default_factory=dict)
    scratch: Path | None = None
    wire_calls: tuple[WireCall, ...] = ()


@dataclass(frozen=True, slots=True)
class NativeCapture:
    """Everything an adapter returns."""

    harness_version: str | None
    version_tested: bool
    participants: tuple[NativeParticipant, ...]
    identity_fields: tuple[NativeIdentityField, ...]
    identity_claims: tuple[IdentityClaim, ...]
    absent_header_claims: tuple[AbsentHeaderClaim, ...]
    purpose_claims: tuple[PurposeClaim, ...]
    relations: tuple[NativeRelation, ...]
    context_probes: tuple[ContextProbe, ...]
    coverage: NativeCoverage
    subtasks: SubtaskSupport
    delegation_tools: frozenset[str] = frozenset()
    """Names of the tools by which a model delegates; a call that used one proves that a child may exist."""
    sources: tuple[NativeSource, ...] = ()
    gaps: tuple[Gap, ...] = ()
    hook_header: str | None = None
    """The `x-roller-*` header that our hook puts on every call of the harness, side calls aside. A call without it is
    the gap `hook_not_seen`: its identity rests on weaker evidence, or on none."""
    lifecycle: LifecycleStatus | None = None
    """Set only to override what the participants say, for example `unknown` when a registry is missing."""
