"""One attempt with every shape that `view` words: see `busy_attempt`."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture import finalize_attempt
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    Evidence,
    NativeCapture,
    NativeRelation,
    NativeSource,
    NotificationItem,
    PurposeClaim,
    ToolResultItem,
)
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.vocabulary import (
    BoundBy,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    LifecycleStatus,
    Purpose,
    RelationType,
)
from tests.support.attempts import (
    AttemptBuilder,
    delivered,
    evidence,
    message_body,
    native_capture,
    participant,
    request_body,
    tool_result,
)
from tests.support.publish import NATIVE_LOG, use_capture

TWIN_A, TWIN_B = "aaaa000000000001", "aaaa000000000002"
GRANDCHILD, SLEEPER, LOST = "bbbb000000000003", "cccc000000000004", "dddd000000000005"
NOTICE = "task cccc is done"
ASK = {"role": "user", "content": "the same prompt"}


def busy_attempt(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publishes: twins with one prompt, a grandchild, a background child told by notification, a child that never
    ended, a failed, an unattributed, an ambiguous and a title call. Returns the attempt."""
    builder = AttemptBuilder(directory)
    _calls(builder)
    log = builder.work / "native" / NATIVE_LOG
    log.parent.mkdir(parents=True)
    log.write_text('{"line":1}\n')
    builder.build()
    use_capture(monkeypatch, _native(log))
    finalize_attempt.finalize_attempt(directory, FinalizeRequest(execution_status=ExecutionStatus.COMPLETED))
    return directory


def _calls(builder: AttemptBuilder) -> None:
    twins = (("toolu_a", "Agent"), ("toolu_b", "Agent"), ("toolu_s", "Agent"), ("toolu_l", "Agent"))
    builder.call(request_body(ASK), message_body("msg_title"))
    builder.call(request_body(ASK), message_body("msg_1", tools=twins))
    builder.call(request_body(ASK), message_body("msg_2"), agent=TWIN_B)
    builder.call(request_body(ASK), message_body("msg_3", tools=(("toolu_g", "Task"),)), agent=TWIN_A)
    builder.call(request_body(ASK), message_body("msg_4"), agent=GRANDCHILD)
    builder.call(request_body(ASK, tool_result("toolu_g")), _with_cache("msg_5"), agent=TWIN_A)
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
    builder.call(request_body(ASK, tool_result("toolu_a"), tool_result("toolu_b")), error, status=529)
    retried = (ASK, tool_result("toolu_a"), tool_result("toolu_b"), tool_result("toolu_s", "started"))
    builder.call(request_body(*retried), message_body("msg_6"))
    builder.call(request_body(ASK), message_body("msg_7"), agent=SLEEPER)
    notice = {"role": "user", "content": [{"type": "text", "text": NOTICE}]}
    builder.call(request_body(*retried, notice), message_body("msg_8"))
    builder.call(request_body(ASK), message_body("msg_nobody"), session=None)
    builder.call(request_body(ASK), message_body("msg_2"), agent=TWIN_A)


def _with_cache(response_id: str) -> bytes:
    message = json.loads(message_body(response_id))
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 70}
    return json.dumps({**message, "usage": usage}).encode()


def _native(log: Path) -> NativeCapture:
    relations, probes = _relations()
    ids = {"msg_title": "root", "msg_1": "root", "msg_2": TWIN_B, "msg_3": TWIN_A, "msg_4": GRANDCHILD}
    ids |= {"msg_5": TWIN_A, "msg_6": "root", "msg_7": SLEEPER, "msg_8": "root", "msg_gone": "root"}
    lost = participant(LOST, parent="root", status=ExecutionStatus.INTERRUPTED, lifecycle=LifecycleStatus.PENDING)
    return native_capture(
        participant("root"),
        participant(TWIN_A, parent="root"),
        participant(TWIN_B, parent="root", status=ExecutionStatus.FAILED),
        participant(GRANDCHILD, parent=TWIN_A),
        participant(SLEEPER, parent="root"),
        lost,
        response_ids=ids,
        relations=relations,
        context_probes=probes,
        purpose_claims=(
            PurposeClaim("response_id", "msg_title", Purpose.TITLE, evidence()),
            *(PurposeClaim("response_id", item, Purpose.AGENT, evidence()) for item in [*ids, "msg_nobody"][1:]),
        ),
        sources=(NativeSource(NATIVE_LOG, log),),
    )


def _relations() -> tuple[tuple[NativeRelation, ...], tuple[ContextProbe, ...]]:
    result_a, result_b = delivered(TWIN_A, "toolu_a", outcome="completed"), delivered(TWIN_B, "toolu_b")
    result_g = delivered(GRANDCHILD, "toolu_g", parent=TWIN_A)
    launch = _relation(
        RelationType.LAUNCH_ACKNOWLEDGED,
        SLEEPER,
        "toolu_s",
        delivery=Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, "toolu_s"),
    )
    notified = _relation(
        RelationType.RESULT_DELIVERED,
        SLEEPER,
        "toolu_s",
        delivery=Delivery(DeliveryKind.NOTIFICATION, BoundBy.RESPONSE_ID, "msg_8"),
    )
    relations = (
        _relation(RelationType.SPAWN, TWIN_A, "toolu_a"),
        _relation(RelationType.SPAWN, TWIN_B, "toolu_b"),
        _relation(RelationType.SPAWN, GRANDCHILD, "toolu_g", parent=TWIN_A),
        _relation(RelationType.SPAWN, SLEEPER, "toolu_s"),
        _relation(RelationType.SPAWN, LOST, "toolu_elsewhere"),
        launch,
        _relation(RelationType.CHILD_COMPLETED, TWIN_A, "toolu_a", outcome="completed"),
        _relation(RelationType.CHILD_FAILED, TWIN_B, "toolu_b", outcome="timed out"),
        _relation(RelationType.CHILD_COMPLETED, SLEEPER, "toolu_s"),
        result_a,
        result_b,
        result_g,
        notified,
    )
    carried = (result_a, result_b, result_g, launch)
    probes = (
        *(ContextProbe(item, ToolResultItem(item.tool_call_id or "")) for item in carried),
        ContextProbe(notified, NotificationItem((NOTICE,), "msg_8")),
    )
    return relations, probes


def _relation(kind: RelationType, child: str, tool: str, *, parent: str = "root", **more: Any) -> NativeRelation:
    proof = (Evidence(EvidenceKind.NATIVE_RECORD, NATIVE_LOG, "line:1"),)
    return NativeRelation(kind, parent, child, tool, proof, **more)
