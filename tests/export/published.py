"""Publishes attempts with calls of every protocol, to be exported."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture import finalize_attempt
from roller_capture.capture_protocol import PurposeClaim
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.vocabulary import DebugRetention, ExecutionStatus, Purpose
from tests.support.attempts import AttemptBuilder, evidence, message_body, native_capture, participant, request_body

PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-chat-completions": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
}
FUNCTION = {"name": "ls", "description": "list", "parameters": {"type": "object", "properties": {"at": {}}}}

CHAT_REQUEST = {
    "model": "fake-model",
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "temperature": 0.5,
}
CHAT_RESPONSE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "fake-model",
    "prompt_token_ids": [1, 2],
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"at": "."}'}}
                ],
            },
            "logprobs": {"content": [{"token": "a", "logprob": -0.25, "bytes": None, "top_logprobs": []}]},
            "token_ids": [7, 8],
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}
RESPONSES_REQUEST = {
    "model": "fake-model",
    "instructions": "be brief",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "opaque"},
        {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_0", "output": "a b"},
    ],
    "tools": [{"type": "function", **FUNCTION}, {"type": "web_search"}],
}
RESPONSES_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "fake-model",
    "output": [
        {
            "id": "msg_9",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": [], "logprobs": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
}


def publish_calls(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    exchanges: list[tuple[str, Any, Any]],
    *,
    purposes: dict[str, Purpose] | None = None,
    capture_id: str = "cap_abcdefghij0123456789",
) -> Path:
    """An attempt of one root that made these (protocol, request, response); bytes are sent as they are."""
    builder = AttemptBuilder(directory, capture_id=capture_id)
    ids = {}
    for protocol, request, response in exchanges:
        builder.call(_body(request), _body(response), protocol=protocol, path=PATHS[protocol])
        if isinstance(response, dict):
            ids[response["id"]] = "root"
    builder.build()
    known = dict.fromkeys(ids, Purpose.AGENT) | (purposes or {})
    claims = [PurposeClaim("response_id", value, purpose, evidence()) for value, purpose in known.items()]
    native = native_capture(participant("root"), response_ids=ids, purpose_claims=tuple(claims))
    monkeypatch.setattr(finalize_attempt, "find_adapter", lambda _name: lambda _source: native)
    asked = FinalizeRequest(debug_retention=DebugRetention.OFF, execution_status=ExecutionStatus.COMPLETED)
    finalize_attempt.finalize_attempt(directory, asked)
    return directory


def _body(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def three_protocols() -> list[tuple[str, Any, Any]]:
    """One exchange of each protocol."""
    messages = json.loads(request_body({"role": "user", "content": "ask"}))
    answer = json.loads(message_body("msg_1", tools=(("toolu_1", "Agent"),)))
    return [
        ("anthropic-messages", messages, answer),
        ("openai-chat-completions", CHAT_REQUEST, CHAT_RESPONSE),
        ("openai-responses", RESPONSES_REQUEST, RESPONSES_RESPONSE),
    ]
