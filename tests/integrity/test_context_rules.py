"""A context is what its hash says, and holds what relations and evidence say of it."""

import hashlib
import json
from typing import Any

import pytest

from roller_capture.integrity.context_rules import check_context, hash_contradictions

MESSAGES = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "answer"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "quoted: done"},
                {"type": "text", "text": "done"},
            ],
        },
    ],
}
CHAT = {"model": "m", "messages": [{"role": "tool", "tool_call_id": "call_1", "content": "answer"}]}
RESPONSES = {
    "model": "m",
    "input": [
        {"type": "function_call_output", "call_id": "call_1", "output": "answer"},
        {"type": "message", "role": "user", "id": "item_1", "content": [{"type": "input_text", "text": "done"}]},
    ],
}
PROTOCOLS = {"anthropic-messages": MESSAGES, "openai-chat-completions": CHAT, "openai-responses": RESPONSES}


def findings(
    protocol: str,
    pointer: str,
    kind: str = "tool_result",
    bound: tuple[str, str] = ("tool_call_id", "toolu_1"),
    tool_call_id: str | None = None,
) -> list[str]:
    """Of a request with one in-context relation; `bound` is what its delivery is bound by, and the id."""
    call = {"protocol": protocol, "call_id": "c", "model": {"requested": "m"}, "native_identity": {"evidence": []}}
    relation = {
        "context_pointer": pointer,
        "tool_call_id": tool_call_id or bound[1],
        "model_tool_ref": None,
        "delivery": {"kind": kind, "bound_by": bound[0], "bound_id": bound[1]},
    }
    text = memoryview(json.dumps(PROTOCOLS[protocol]).encode())
    known = {"toolu_1", "toolu_2", "call_1", "call_2"}
    return [finding.message for finding in check_context(call, text, "calls.jsonl:1", [(1, relation)], known)]


NOTICE = {"kind": "notification", "bound": ("response_id", "msg_3")}


@pytest.mark.parametrize(
    ("protocol", "pointer", "more", "problem"),
    [
        ("anthropic-messages", "/messages/2/content/0", {}, None),
        ("anthropic-messages", "/messages/2/content/1", {}, "names the result of another tool call"),
        ("anthropic-messages", "/messages/2/content/2", {}, "names no tool result"),
        ("anthropic-messages", "/messages/1/content/0", {}, "names no tool result"),
        ("anthropic-messages", "/messages/2/content/9", {}, "names nothing in the context"),
        ("anthropic-messages", "messages", {}, "names nothing in the context"),
        ("openai-chat-completions", "/messages/0", {"bound": ("tool_call_id", "call_1")}, None),
        ("openai-chat-completions", "/messages/0", {"bound": ("tool_call_id", "call_1|fc_1")}, None),
        (
            "openai-chat-completions",
            "/messages/0",
            {"bound": ("tool_call_id", "call_2")},
            "names the result of another",
        ),
        ("openai-chat-completions", "/messages/0", {"tool_call_id": "call_1"}, None),
        ("openai-responses", "/input/0", {"bound": ("tool_call_id", "call_1")}, None),
        ("openai-responses", "/input/1", {"bound": ("tool_call_id", "call_1")}, "names no tool result"),
        ("openai-responses", "/input/1/content/0", {"kind": "message", "bound": ("item_id", "item_1")}, None),
        (
            "openai-responses",
            "/input/1/content/0",
            {"kind": "message", "bound": ("item_id", "item_2")},
            "names another item",
        ),
        ("anthropic-messages", "/messages/2/content/2", NOTICE, None),
        ("anthropic-messages", "/messages/0", NOTICE, None),
        ("anthropic-messages", "/messages/2/content/1", NOTICE, "names no message"),
        ("anthropic-messages", "/messages/2/content/0/content/0", NOTICE, "names no message"),
        ("anthropic-messages", "/messages/1", NOTICE, "names no message"),
        ("anthropic-messages", "/model", NOTICE, "names no message"),
    ],
)
def test_a_pointer_leads_to_the_item_that_is_bound(
    protocol: str, pointer: str, more: dict[str, Any], problem: str | None
) -> None:
    """A tool result by its call's id, a message that is no quotation in a result, an item by its own id."""
    found = findings(protocol, pointer, **more)
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]


def test_an_id_of_the_harness_s_own_making_is_no_contradiction() -> None:
    """What no call of the capture gave cannot be that of another delegation."""
    assert findings("openai-chat-completions", "/messages/0", bound=("tool_call_id", "native")) != []
    changed = json.dumps(CHAT).replace("call_1", "callmade1").encode()
    relation = {
        "context_pointer": "/messages/0",
        "tool_call_id": "native",
        "model_tool_ref": {"call_id": "call_1", "item_id": None},
        "delivery": {"kind": "tool_result", "bound_by": "tool_call_id", "bound_id": "native"},
    }
    call = {
        "protocol": "openai-chat-completions",
        "call_id": "c",
        "model": {"requested": "m"},
        "native_identity": {"evidence": []},
    }
    assert list(check_context(call, memoryview(changed), "calls.jsonl:1", [(1, relation)], {"call_1"})) == []


@pytest.mark.parametrize(
    ("requested", "evidence", "good"),
    [
        ("m", [], True),
        ("other", [], False),
        (None, [], False),
        ("m", [{"name": "context:/messages/0/tool_call_id", "value": "call_1"}], True),
        ("m", [{"name": "context:/messages/0/tool_call_id", "value": "call_2"}], False),
        ("m", [{"name": "context:/nowhere", "value": "call_1"}], False),
        ("m", [{"name": "response_id", "value": "msg_1"}], True),
    ],
)
def test_model_and_evidence_are_those_of_the_context(requested: str | None, evidence: list[Any], good: bool) -> None:
    """Both are taken from there."""
    call = {
        "protocol": "openai-chat-completions",
        "call_id": "c",
        "model": {"requested": requested},
        "native_identity": {"evidence": evidence},
    }
    text = memoryview(json.dumps(CHAT).encode())
    assert (list(check_context(call, text, "calls.jsonl:1", [], set())) == []) == good


@pytest.mark.parametrize(
    ("text", "changes", "good"),
    [
        (b'{"a":1}', {}, True),
        (b'{"a":2}', {}, False),
        (b'{"a":1}', {"context_exact": False}, False),
        (b'{"a": 1}', {"context_exact": False}, True),
        (b'{"a":1}', {"context_sha256": None, "context_exact": False}, False),
        (b"null", {"context_sha256": None, "context_exact": False}, True),
        (b'{"a":1}', {"context_raw": {"encoding": "utf-8", "data": "x"}}, False),
        (b"null", {"context_raw": {"encoding": "utf-8", "data": "x"}}, True),
    ],
)
def test_the_context_is_the_text_of_its_hash(text: bytes, changes: dict[str, Any], good: bool) -> None:
    """Unless a line break had to become a space, which is said."""
    digest = hashlib.sha256(b'{"a":1}').hexdigest()
    call = {"context_sha256": digest, "context_exact": True, **changes}
    assert (list(hash_contradictions(call, memoryview(text))) == []) == good
