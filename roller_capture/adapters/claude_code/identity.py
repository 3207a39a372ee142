"""Which calls belong to whom, and which calls must exist: identity claims, purposes and coverage."""

from collections.abc import Iterator, Mapping

from roller_capture.adapters.claude_code.delegations import Delegations
from roller_capture.adapters.claude_code.executors import Executor, Executors
from roller_capture.adapters.claude_code.record_shapes import DELEGATION_TOOLS
from roller_capture.capture_protocol import (
    AbsentHeaderClaim,
    Evidence,
    IdentityClaim,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    PurposeClaim,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, Purpose

SESSION_HEADER = "x-claude-code-session-id"
AGENT_HEADER = "x-claude-code-agent-id"
PARENT_HEADER = "x-claude-code-parent-agent-id"
_RESPONSE_ID = "response_id"

IDENTITY_FIELDS = (
    NativeIdentityField(SESSION_HEADER, "session_id", exclusive=False),
    NativeIdentityField(AGENT_HEADER, "agent_id", exclusive=True),
    NativeIdentityField(PARENT_HEADER, "parent_agent_id", exclusive=False),
)


def identity_claims(
    executors: Executors, delegations: Delegations, *, agents_on_the_wire: bool
) -> Iterator[IdentityClaim]:
    """The message ids of each executor's outputs first, then the agent id that each child sends with every call.

    Of outputs that only the root's file tells to be a child's, those are believed of which something else proves that
    there was a child: for an agent its delegation; for a child without an agent id, which has none (versions 1.0.x to
    2.0.21), any delegation in the session, and that no request carries an agent id, since versions that send one write
    no such children. Others have no owner; that nothing proves their launch is a named gap.
    """
    delegating = _delegating(executors)
    for executor in executors.by_key.values():
        if executor.sidechain_uuid is None:
            believed = any(item.use is not None for item in delegations.of_child.get(executor.key, ()))
        else:
            launchers = delegating.get(executor.group, set())
            believed = not agents_on_the_wire and launchers not in (set(), {executor.key})
        for identifier, output in executor.thread.outputs.items():
            if identifier in executor.told_outputs and not believed:
                continue
            evidence = output.place.evidence("message", identifier, EvidenceKind.RESPONSE_ID)
            yield IdentityClaim(_RESPONSE_ID, identifier, executor.key, evidence)
    for executor in executors.by_key.values():
        evidence_of_id = executor.evidence()
        if executor.agent_id is not None and evidence_of_id is not None:
            evidence = _as_kind(evidence_of_id, EvidenceKind.NATIVE_HEADER)
            yield IdentityClaim(f"header:{AGENT_HEADER}", executor.agent_id, executor.key, evidence)


def _delegating(executors: Executors) -> Mapping[str, set[str]]:
    """By group, the executors whose log holds a delegating tool call."""
    found: dict[str, set[str]] = {}
    for executor in executors.by_key.values():
        if any(use.name in DELEGATION_TOOLS for use in executor.thread.tool_uses.values()):
            found.setdefault(executor.group, set()).add(executor.key)
    return found


def absent_header_claims(executors: Executors, seen_sessions: frozenset[str]) -> Iterator[AbsentHeaderClaim]:
    """A call with a root's session id and without an agent id is the root's: only children send an agent id."""
    for executor in executors.by_key.values():
        evidence = executor.evidence()
        if executor.is_root and evidence is not None:
            for session_id in executor.session_ids:
                if session_id in seen_sessions:
                    required = ((SESSION_HEADER, session_id),)
                    absent = _as_kind(evidence, EvidenceKind.HEADER_ABSENT)
                    yield AbsentHeaderClaim(AGENT_HEADER, required, executor.key, absent)


def purpose_claims(executors: Executors) -> Iterator[PurposeClaim]:
    """Every output that a log holds as an assistant message was an agent's turn.

    Calls that compact a context leave no such record (measured with 2.1.332), so their purpose stays unknown; some
    versions start an agent for it, whose id says so.
    """
    for executor in executors.by_key.values():
        purpose = Purpose.COMPACTION if executor.is_compacting else Purpose.AGENT
        for identifier, output in executor.thread.outputs.items():
            evidence = output.place.evidence("message", identifier)
            yield PurposeClaim(_RESPONSE_ID, identifier, purpose, evidence, side_call=executor.is_compacting)


def coverage(executors: Executors, *, any_root_read: bool) -> NativeCoverage:
    """Every message id that a log holds needs its call, also where the call was cut: its record is there.

    An output without an id is expected too and can be compared with nothing. The protocol's count is the number of
    distinct message ids.
    """
    outputs: list[NativeOutput] = []
    counts: dict[str, int] = {}
    for executor in executors.by_key.values():
        outputs += _outputs(executor)
        counts[executor.key] = len(executor.thread.outputs)
    return NativeCoverage(
        field=_RESPONSE_ID,
        strength=CoverageStrength.PER_ID,
        outputs=tuple(outputs) if any_root_read else None,
        protocol_count_name="message_ids",
        protocol_count=counts,
    )


def _outputs(executor: Executor) -> Iterator[NativeOutput]:
    for identifier, output in executor.thread.outputs.items():
        evidence = output.place.evidence("message", identifier, EvidenceKind.RESPONSE_ID)
        yield NativeOutput(executor.key, identifier, evidence)
    for place in executor.thread.nameless_outputs.values():
        yield NativeOutput(executor.key, None, place.evidence("message", None))


def native_ids(executor: Executor) -> Mapping[str, tuple[str, ...]]:
    """All native ids of an executor, by kind."""
    ids = {"session_id": executor.session_ids}
    if executor.agent_id is not None:
        ids["agent_id"] = (executor.agent_id,)
    if executor.sidechain_uuid is not None:
        ids["sidechain_uuid"] = (executor.sidechain_uuid,)
    return ids


def _as_kind(evidence: Evidence, kind: EvidenceKind) -> Evidence:
    return Evidence(kind, evidence.source, evidence.locator)
