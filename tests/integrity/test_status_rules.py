"""A record that was raised by hand contradicts itself; one of ours never does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.integrity.status_rules import contradictions
from tests.model_protocols.transcripts import ALL, STREAMS, label, protocol_of
from tests.support.attempts import AttemptBuilder, message_body, native_capture, participant, request_body
from tests.support.publish import lines, use_capture

PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-chat-completions": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
}


def published(builder: AttemptBuilder, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    finalize_attempt(builder.directory, FinalizeRequest())
    assert validate_attempt(builder.directory) == []
    return lines(builder.directory / "calls.jsonl")


def cuts(data: bytes) -> Iterator[bytes]:
    step = max(1, len(data) // 6)
    yield from (data[:end] for end in range(0, len(data), step))


@pytest.mark.parametrize("path", ALL, ids=label)
def test_a_record_of_ours_never_contradicts_itself(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a provider sent, whole or cut anywhere, read to the end or left, with a good status or a bad one."""
    builder = AttemptBuilder(tmp_path / "attempt")
    protocol, data = protocol_of(path), path.read_bytes()
    bodies = [data, *(cuts(data) if path in STREAMS else ())]
    for body in bodies:
        for end, status in (("response", 200), ("failure", 200), ("none", 200), ("response", 529)):
            builder.call(request_body(), body, protocol=protocol, path=PATHS[protocol], end=end, status=status)
    assert [list(contradictions(call)) for call in published(builder, monkeypatch) if list(contradictions(call))] == []


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """One call of each kind, as published."""
    builder = AttemptBuilder(tmp_path / "attempt")
    good = message_body("msg_1", "done", tools=(("toolu_1", "Bash"),))
    builder.call(request_body(), good)
    builder.call(request_body(), b'{"type":"error","error":{"type":"x","message":"no"}}', status=400)
    builder.call(request_body(), good[:40], end="failure", cut_by="upstream")
    builder.call(request_body(), None, status=None, end="failure", unreachable=True)
    builder.call(b"no json", message_body("msg_3"))
    builder.call(request_body(), message_body("msg_4").replace(b'"end_turn"', b'"max_tokens"'))
    builder.call(request_body(), message_body("msg_5"), session=None)
    names = ("good", "failed", "cut", "unreachable", "no-json", "truncated", "nobody")
    return dict(zip(names, published(builder, monkeypatch), strict=True))


def completed(call: dict[str, Any]) -> None:
    call |= {"execution_status": "completed", "response_capture_status": "complete", "capture_status": "complete"}
    call["export_blockers"] = [
        one for one in call["export_blockers"] if one not in ("execution_not_completed", "response_incomplete")
    ]


def without(blocker: str) -> Any:
    def change(call: dict[str, Any]) -> None:
        assert blocker in call["export_blockers"]
        call["export_blockers"].remove(blocker)

    return change


def set_to(**members: Any) -> Any:
    return lambda call: call.update(members)


def in_model(**members: Any) -> Any:
    return lambda call: call["model"].update(members)


def in_http(**members: Any) -> Any:
    return lambda call: call["http"].update(members)


def in_identity(**members: Any) -> Any:
    return lambda call: call["native_identity"].update(members)


def in_evidence(**members: Any) -> Any:
    return lambda call: call["native_identity"]["evidence"][0].update(members)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("failed", completed),
        ("failed", without("execution_not_completed")),
        ("failed", in_http(status=200)),
        ("cut", completed),
        ("cut", without("response_incomplete")),
        ("cut", set_to(capture_status="complete")),
        ("cut", set_to(response_capture_status="complete", capture_status="complete")),
        ("unreachable", completed),
        ("unreachable", set_to(response_capture_status="partial")),
        ("unreachable", set_to(output={"type": "message"})),
        ("no-json", without("context_not_json")),
        ("truncated", without("output_truncated")),
        ("good", set_to(output=None)),
        ("good", set_to(output={})),
        ("good", set_to(response_id="msg_9")),
        ("good", set_to(usage={"input_tokens": 1, "output_tokens": 1})),
        ("good", set_to(tool_refs=[])),
        ("good", lambda call: call["tool_refs"][0].update(name="Task")),
        ("good", lambda call: call["tool_refs"].append({"tool_call_id": "x", "item_id": None, "name": "y"})),
        ("good", lambda call: call["output"].update(stop_reason="max_tokens")),
        ("good", lambda call: call["output"].update(id="msg_9")),
        ("good", lambda call: call["output"].update(content=[])),
        ("good", in_model(responded="another-model")),
        ("good", in_model(requested="another-model")),
        ("good", in_model(match="alias")),
        ("good", in_http(status=500)),
        ("good", in_http(status=None)),
        ("good", set_to(capture_status="partial")),
        ("good", set_to(execution_status="interrupted")),
        ("good", lambda call: call["errors"].append({"code": "http_error", "message": "x", "cut_by": None})),
        ("good", lambda call: call["errors"].append({"code": "disk_error", "message": "x", "cut_by": None})),
        ("good", lambda call: call["errors"].append({"code": "foreign_credential", "message": "x", "cut_by": None})),
        ("failed", set_to(errors=[])),
        ("failed", set_to(response_id="msg_9")),
        ("failed", set_to(usage={"input_tokens": 1})),
        ("failed", in_model(responded="fake-model")),
        ("failed", lambda call: call["export_blockers"].append("execution_not_completed")),
        ("failed", lambda call: call["export_blockers"].append("response_incomplete")),
        ("failed", lambda call: call["errors"][0].update(code="provider_error")),
        ("failed", lambda call: call["errors"][0].update(cut_by="client")),
        ("cut", set_to(errors=[])),
        ("cut", set_to(response_id="msg_9")),
        ("cut", set_to(tool_refs=[{"tool_call_id": "toolu_1", "item_id": None, "name": "Bash"}])),
        ("cut", lambda call: call["export_blockers"].append("request_incomplete")),
        ("cut", lambda call: call["export_blockers"].append("capture_error")),
        ("good", lambda call: call.update(export_blockers=["model_mismatch"], export_status="blocked")),
        ("good", lambda call: call.update(export_blockers=["model_unreported"], export_status="blocked")),
        ("good", lambda call: call.update(export_blockers=["response_incomplete"], export_status="blocked")),
        ("good", lambda call: call.update(export_blockers=["context_not_json"], export_status="blocked")),
        ("good", set_to(protocol="openai-responses")),
        ("good", lambda call: call["endpoint"].update(path="/v1/responses")),
        ("good", set_to(request_sha256="0" * 64)),
        ("good", set_to(request_sha256=None)),
        ("good", set_to(context_sha256=None)),
        ("no-json", lambda call: call["context_raw"].update(data="no jsom")),
        ("no-json", lambda call: call["context_raw"].update(encoding="base64")),
        ("no-json", set_to(context_exact=False)),
        ("no-json", lambda call: call.pop("context_raw")),
        ("good", in_identity(evidence=[])),
        ("good", in_identity(message_id="msg_9")),
        ("good", in_identity(message_id=None)),
        ("good", in_evidence(value="msg_9")),
        ("good", in_evidence(value=None)),
        ("good", in_evidence(kind="header_absent")),
        ("good", in_evidence(kind="native_header")),
        ("good", in_evidence(name="header:x-other", kind="native_header")),
        ("good", in_evidence(name="header:x-roller-session", kind="header_absent")),
        ("good", in_evidence(name="elsewhere")),
        ("nobody", without("identity_unresolved")),
        ("nobody", set_to(identity_status="resolved")),
    ],
)
def test_a_record_that_was_changed_by_hand_contradicts_itself(
    calls: dict[str, dict[str, Any]], kind: str, change: Any
) -> None:
    """Each status, blocker and member of the output, raised or exchanged alone."""
    call = calls[kind]
    assert list(contradictions(call)) == []
    change(call)
    assert list(contradictions(call)) != []
