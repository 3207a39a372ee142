"""Publishes attempts of agents with subagents, whose requests hold what was said before, as real ones do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roller_capture import finalize_attempt
from roller_capture.capture_protocol import ContextProbe, NativeRelation, PurposeClaim, ToolResultItem
from roller_capture.cli import app
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.vocabulary import DebugRetention, ExecutionStatus, Purpose, RelationType
from tests.support.attempts import AttemptBuilder, delivered, evidence, native_capture, participant

CHILD, GRANDCHILD = "a0000000000000001", "a0000000000000002"
GO = {"role": "user", "content": "go"}
AGENT_TOOL = {"name": "Agent", "description": "delegate", "input_schema": {"type": "object"}}
USAGE = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100, "output_tokens": 5}

Message = dict[str, Any]


def answer(name: str, *blocks: Message, **members: Any) -> Message:
    """A whole Anthropic response with these blocks; its id is `msg_` and the name."""
    called = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": "fake-model",
        "content": list(blocks),
        "stop_reason": "tool_use" if called else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
        **members,
    }


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def use(tool_call_id: str, name: str = "Agent", **arguments: Any) -> Message:
    return {"type": "tool_use", "id": tool_call_id, "name": name, "input": arguments}


def result(tool_call_id: str, words: str, **members: Any) -> Message:
    block = {"type": "tool_result", "tool_use_id": tool_call_id, "content": words, **members}
    return {"role": "user", "content": [block]}


def said(response: Message) -> Message:
    """A response as a message of a later request."""
    return {"role": "assistant", "content": response["content"]}


def asked(*messages: Message, **members: Any) -> bytes:
    """A request with these messages."""
    request = {"model": "fake-model", "max_tokens": 100, "stream": True, "system": "be brief", "tools": [AGENT_TOOL]}
    return json.dumps({**request, **members, "messages": list(messages)}).encode()


def launch(parent: str, child: str, tool_call_id: str, output_id: str) -> tuple[NativeRelation, ...]:
    """Launched by that tool call of that answer, and come back as its result."""
    proof = (evidence(mark=f"tool:{tool_call_id}"),)
    spawn = NativeRelation(RelationType.SPAWN, parent, child, tool_call_id, proof, parent_output_id=output_id)
    return spawn, delivered(child, tool_call_id, parent=parent, parent_output_id=output_id)


def publish(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: Sequence[tuple[str, bytes, Message | bytes | None, dict[str, Any]]],
    *,
    parents: dict[str, str],
    relations: Sequence[NativeRelation],
    probes: Sequence[ContextProbe] | None = None,
    purposes: dict[str, Purpose] | None = None,
    debug: DebugRetention = DebugRetention.FULL,
    status: ExecutionStatus = ExecutionStatus.COMPLETED,
    capture_id: str = "cap_abcdefghij0123456789",
    harness: str = "claude-code",
    compress: bool = False,
    **native_members: Any,
) -> Path:
    """An attempt with these (owner, request, response, options) and, but for the root, `parents` of the agents."""
    builder = AttemptBuilder(directory, harness=harness, capture_id=capture_id)
    owners: dict[str, str] = {}
    for owner, request, response, options in calls:
        body = json.dumps(response).encode() if isinstance(response, dict) else response
        builder.call(request, body, **({} if owner == "root" else {"agent": owner}), **options)
        if isinstance(response, dict) and "id" in response:
            owners[response["id"]] = owner
    for event in builder.events:  # a call a minute
        for name in {"started_at", "ended_at", "first_byte_at"} & event.keys():
            event[name] += 60 * int(event["flow"].removeprefix("flow-"))
    builder.build()
    known = dict.fromkeys(owners, Purpose.AGENT) | (purposes or {})
    native = native_capture(
        participant("root"),
        *(participant(child, parent=parent) for child, parent in parents.items()),
        response_ids=owners,
        purpose_claims=tuple(PurposeClaim("response_id", item, word, evidence()) for item, word in known.items()),
        relations=tuple(relations),
        context_probes=tuple(probes if probes is not None else map(_probe, filter(_is_delivered, relations))),
        **native_members,
    )
    monkeypatch.setattr(finalize_attempt, "find_adapter", lambda _name: lambda _source: native)
    request = FinalizeRequest(debug_retention=debug, execution_status=status, compress=compress)
    finalize_attempt.finalize_attempt(directory, request)
    return directory


def _is_delivered(relation: NativeRelation) -> bool:
    return relation.type is RelationType.RESULT_DELIVERED


def _probe(relation: NativeRelation) -> ContextProbe:
    return ContextProbe(relation, ToolResultItem(str(relation.tool_call_id)))


def publish_generations(directory: Path, monkeypatch: pytest.MonkeyPatch, **members: Any) -> Path:
    """Root → child → grandchild; the root's first try fails with a 503, and the child runs a tool of its own."""
    delegates = answer("r1", text("I delegate."), use("toolu_1", prompt="part"))
    passes_on = answer("c1", use("toolu_2", prompt="rest"), use("toolu_3", "Bash", command="ls"))
    grand, child, last = answer("g1", text("42")), answer("c2", text("it is 42")), answer("r2", text("all done"))
    part, rest = ({"role": "user", "content": words} for words in ("part", "rest"))
    both = {"role": "user", "content": [*result("toolu_2", "42")["content"], *result("toolu_3", "a b")["content"]]}
    calls: list[tuple[str, bytes, Message | bytes | None, dict[str, Any]]] = [
        ("root", asked(GO), b'{"type":"error","error":{"type":"overloaded_error"}}', {"status": 503}),
        ("root", asked(GO), delegates, {}),
        (CHILD, asked(part), passes_on, {}),
        (GRANDCHILD, asked(rest), grand, {}),
        (CHILD, asked(part, said(passes_on), both), child, {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "it is 42", is_error=True)), last, {}),
    ]
    relations = (
        *launch("root", CHILD, "toolu_1", "msg_r1"),
        *launch(CHILD, GRANDCHILD, "toolu_2", "msg_c1"),
    )
    parents = {CHILD: "root", GRANDCHILD: CHILD}
    return publish(directory, monkeypatch, calls, parents=parents, relations=relations, **members)


def run_export(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `roller-capture export`."""
    result_of = CliRunner().invoke(app, ["export", *map(str, arguments)])
    if result_of.exception is not None and not isinstance(result_of.exception, SystemExit):
        raise result_of.exception
    return result_of.exit_code, result_of.stdout, result_of.stderr
