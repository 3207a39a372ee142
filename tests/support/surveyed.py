"""Surveyed calls as values, for tests of the pure steps of the finalizer."""

from typing import Any

from roller_capture.finalizer.survey import RequestFacts, SpooledOutput, SurveyedCall
from roller_capture.model_protocols.types import DecodedResponse, ToolRef
from roller_capture.vocabulary import ExecutionStatus, HttpEnd, Protocol, ResponseCaptureStatus
from roller_capture.working_files import RecordedCall
from tests.support.attempts import AGENT_HEADER, ROOT_SESSION, SESSION_HEADER


def surveyed(
    response_id: str | None = None,
    *,
    agents: tuple[str, ...] = (),
    session: str | None = ROOT_SESSION,
    tools: tuple[tuple[str, str | None], ...] = (),
    item_ids: tuple[str | None, ...] = (),
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
    recorded: dict[str, Any] | None = None,
) -> SurveyedCall:
    """A completed call; `tools` are (tool call id, name)."""
    headers = [(SESSION_HEADER, session)] if session else []
    headers += [(AGENT_HEADER, agent) for agent in agents]
    call = RecordedCall(
        flow="f",
        sequence=1,
        protocol=Protocol.ANTHROPIC_MESSAGES,
        method="POST",
        scheme="https",
        host="model.example",
        port=None,
        path="/v1/messages",
        request_line=1,
        headers=headers,
        request_complete=True,
        end=HttpEnd.COMPLETE,
        **(recorded or {}),
    )
    facts: dict[str, Any] = {
        "whole": True,
        "is_json": True,
        "wire_sha256": "0" * 64,
        "context_sha256": "0" * 64,
        "model": "m",
        "tool_results": {},
        "notifications": {},
        "context_values": {},
        "errors": (),
    }
    items = item_ids or (None,) * len(tools)
    decoded: dict[str, Any] = {
        "output": None,
        "execution_status": ExecutionStatus.COMPLETED,
        "response_capture_status": ResponseCaptureStatus.COMPLETE,
        "response_id": response_id,
        "model": "m",
        "tool_refs": tuple(ToolRef(one, item, name) for (one, name), item in zip(tools, items, strict=True)),
    }
    return SurveyedCall(
        call,
        RequestFacts(**(facts | (request or {}))),
        DecodedResponse(**(decoded | (response or {}))),
        SpooledOutput(0, 0),
    )
