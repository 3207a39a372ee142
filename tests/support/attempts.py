"""Builds working folders by hand, in the form of docs/working-files.md, and native captures to go with them."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roller_capture.capture_protocol import (
    AbsentHeaderClaim,
    Delivery,
    Evidence,
    IdentityClaim,
    NativeCapture,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    NativeParticipant,
    NativeRelation,
)
from roller_capture.vocabulary import (
    BoundBy,
    CoverageStrength,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    LifecycleStatus,
    RelationType,
    Role,
    SubtaskSupport,
)

SESSION_HEADER = "x-claude-code-session-id"
AGENT_HEADER = "x-claude-code-agent-id"
ROOT_SESSION = "11111111-2222-4333-8444-555555555555"
CHILD_AGENT = "a0123456789abcdef"


def message_body(
    response_id: str, text: str = "done", *, model: str = "fake-model", tools: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """A whole Anthropic message as a JSON response; `tools` are (id, name)."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    content += [{"type": "tool_use", "id": one, "name": name, "input": {}} for one, name in tools]
    message = {
        "id": response_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if tools else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }
    return json.dumps(message).encode()


def request_body(*messages: dict[str, Any], model: str = "fake-model") -> bytes:
    """An Anthropic request with these messages."""
    return json.dumps({"model": model, "max_tokens": 100, "messages": list(messages)}).encode()


def tool_result(tool_call_id: str, text: str = "answer") -> dict[str, Any]:
    """A user message that holds one tool result."""
    block = {"type": "tool_result", "tool_use_id": tool_call_id, "content": text}
    return {"role": "user", "content": [block]}


@dataclass
class AttemptBuilder:
    """Writes one attempt's working files; `build()` last."""

    directory: Path
    harness: str = "claude-code"
    closed: bool = True
    capture_id: str = "cap_abcdefghij0123456789"
    events: list[dict[str, Any]] = field(default_factory=list)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.work = self.directory / "work"
        (self.work / "bodies").mkdir(parents=True)
        self.event("recorder_started", pid=1, versions={}, options={})

    def event(self, kind: str, /, **members: Any) -> None:
        """Appends an event."""
        moment = 1_790_000_000.0 + len(self.events)
        self.events.append(
            {"type": kind, "recorder": 1, "at": moment, "mono_ns": len(self.events) * 1_000_000, **members}
        )

    def call(
        self,
        request: bytes,
        response: bytes | None,
        *,
        status: int | None = 200,
        session: str | None = ROOT_SESSION,
        agent: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        roller_headers: tuple[tuple[str, str], ...] = (),
        response_headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),),
        path: str = "/v1/messages",
        protocol: str = "anthropic-messages",
        content_encoding: str | None = None,
        end: str = "response",
        request_complete: bool = True,
        **end_members: Any,
    ) -> str:
        """Records one exchange; `end` is `response`, `failure` or `none` (killed). Returns the flow id."""
        self.sequence += 1
        flow = f"flow-{self.sequence}"
        sent = list(headers)
        sent += [(SESSION_HEADER, session)] if session else []
        sent += [(AGENT_HEADER, agent)] if agent else []
        sent += [("content-encoding", content_encoding)] if content_encoding else []
        self.event(
            "request_headers",
            flow=flow,
            sequence=self.sequence,
            protocol=protocol,
            method="POST",
            scheme="https",
            host="model.example",
            port=443,
            path=path,
            http_version="HTTP/1.1",
            headers=[list(pair) for pair in sent],
            other_headers=["x-api-key"],
            roller_headers=[list(pair) for pair in roller_headers],
            content_encoding=content_encoding,
        )
        self.event(
            "request",
            flow=flow,
            body=self._body(f"{self.sequence:06d}.request", request),
            complete=request_complete,
            started_at=1.0,
            ended_at=2.0,
        )
        if status is not None:
            self.event(
                "response_headers",
                flow=flow,
                status=status,
                http_version="HTTP/1.1",
                headers=[list(pair) for pair in response_headers],
                other_headers=["set-cookie"],
                started_at=3.0,
            )
        body = None if response is None else self._body(f"{self.sequence:06d}.response", response)
        if end != "none":
            members: dict[str, Any] = {
                "body": body,
                "chunks": 1,
                "first_byte_at": 3.5,
                "ended_at": 4.0,
                "masked": False,
            }
            if end == "failure":
                members |= {"phase": "response", "cut_by": "upstream", "unreachable": False, "message": "cut"}
            self.event(end, flow=flow, **{**members, **end_members})
        return flow

    def _body(self, name: str, data: bytes) -> dict[str, Any]:
        (self.work / "bodies" / name).write_bytes(data)
        return {"path": f"bodies/{name}", "bytes": len(data)}

    def build(self) -> Path:
        """Writes events.jsonl and attempt.json; returns the attempt's directory."""
        if self.closed:
            self.event("recorder_stopped", open_flows=[])
        text = "".join(json.dumps(event) + "\n" for event in self.events)
        (self.work / "events.jsonl").write_text(text)
        info = {
            "format": "roller.work/v1",
            "capture_id": self.capture_id,
            "harness": self.harness,
            "started_at": 1_790_000_000.0,
            "closed_at": 1_790_000_100.0 if self.closed else None,
            "closed": self.closed,
            "recorders": 1,
            "error_count": 0,
            "options": {},
            "versions": {"roller_capture": "0.0.0"},
        }
        (self.work / "attempt.json").write_text(json.dumps(info))
        return self.directory


def evidence(kind: EvidenceKind = EvidenceKind.NATIVE_RECORD, line: int = 1, mark: str = "") -> Evidence:
    """Evidence in the root's log."""
    return Evidence(kind, "projects/p/root.jsonl", f"line:{line}" + (f" {mark}" if mark else ""))


def participant(
    key: str, *, parent: str | None = None, status: ExecutionStatus = ExecutionStatus.COMPLETED, **more: Any
) -> NativeParticipant:
    """The root, or a child of `parent`."""
    role = Role.ROOT if parent is None else Role.CHILD
    ids = {"session_id": (ROOT_SESSION,)} | ({"agent_id": (key,)} if parent else {})
    return NativeParticipant(key, role, parent, ids, status, (evidence(),), **more)


def native_capture(
    *participants: NativeParticipant, response_ids: dict[str, str] | None = None, **more: Any
) -> NativeCapture:
    """A capture in which `response_ids` (id → participant key) are known, and every child has its agent header."""
    response_ids = response_ids or {}
    claims = [
        IdentityClaim("response_id", value, key, evidence(EvidenceKind.RESPONSE_ID))
        for value, key in response_ids.items()
    ]
    claims += [
        IdentityClaim(f"header:{AGENT_HEADER}", item.key, item.key, evidence(EvidenceKind.NATIVE_HEADER))
        for item in participants
        if item.role is Role.CHILD
    ]
    values: dict[str, Any] = {
        "harness_version": "2.1.332",
        "version_tested": True,
        "participants": participants,
        "identity_fields": (
            NativeIdentityField(SESSION_HEADER, "session_id", exclusive=False),
            NativeIdentityField(AGENT_HEADER, "agent_id", exclusive=True),
        ),
        "identity_claims": tuple(claims),
        "absent_header_claims": tuple(
            AbsentHeaderClaim(AGENT_HEADER, ((SESSION_HEADER, ROOT_SESSION),), item.key, evidence())
            for item in participants
            if item.role is Role.ROOT
        ),
        "purpose_claims": (),
        "relations": (),
        "context_probes": (),
        "coverage": NativeCoverage(
            "response_id",
            CoverageStrength.PER_ID,
            tuple(NativeOutput(key, value, evidence()) for value, key in response_ids.items()),
            "message_ids",
            {},
        ),
        "subtasks": SubtaskSupport.SUPPORTED,
        "delegation_tools": frozenset({"Agent", "Task"}),
    }
    return NativeCapture(**(values | more))


def delivered(child: str, tool_call_id: str, *, parent: str = "root", **more: Any) -> NativeRelation:
    """A result delivered to `parent` as a tool result."""
    delivery = Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, tool_call_id)
    values: dict[str, Any] = {"delivery": delivery}
    return NativeRelation(RelationType.RESULT_DELIVERED, parent, child, tool_call_id, (evidence(),), **(values | more))


PENDING = LifecycleStatus.PENDING
gzipped = gzip.compress
